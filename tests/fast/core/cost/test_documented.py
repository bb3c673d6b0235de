"""Tests that the figures of docs/cost.md and of the decision on the cheapest design agree with the model."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest

from agentenv.config import Settings, read
from agentenv.core.cost.assumptions import Assumptions
from agentenv.core.cost.context import EstimateContext
from agentenv.core.cost.estimate import Model, estimate, model
from agentenv.core.cost.node_kinds import kinds, pod_resources
from agentenv.core.prices.book import price_book
from agentenv.core.prices.units import cents
from tests.fast.core.cost.prod import ROOT, UNDONE, prod

COST = (ROOT / "docs" / "cost.md").read_text(encoding="utf-8")
DESIGN = (ROOT / "docs" / "decisions" / "cheapest-design.md").read_text(encoding="utf-8")
DIGEST = "sha256:" + "ab" * 32


def rows(text: str, columns: int) -> list[list[str]]:
    """The rows of tables with so many columns, without their heads."""
    found = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")
    ]
    return [row for row in found if len(row) == columns and not set(row[0]) <= {"-", ":", ""}]


def test_prod_costs_at_most_its_target() -> None:
    """$3.00 or less among 100 users with 40 active hours, $1.50 or less among 1,000."""
    reckoned = model(prod(), Decimal(40))
    assert reckoned.of(100).per_user_month <= Decimal("3.00")
    assert reckoned.of(1000).per_user_month <= Decimal("1.50")
    few, many = (cents(reckoned.of(users).per_user_month) for users in (100, 1_000))
    assert f"${few} among 100 and ${many} among 1,000" in DESIGN


def test_the_cost_of_prod_by_hours_is_documented() -> None:
    documented = {row[0]: row[1:] for row in rows(COST, 6) if row[0].isdecimal()}
    assert len(documented) == 6
    for hours, figures in documented.items():
        reckoned = model(prod(), Decimal(hours))
        enough = reckoned.of(1).break_even_users
        by_users = [f"{cents(reckoned.of(users).per_user_month)}" for users in (10, 100, 1_000, 10_000)]
        assert figures == [*by_users, f"{enough} users" if enough else "never"]


def test_the_savings_of_each_choice_are_documented() -> None:
    documented = {row[0]: (row[1], row[2]) for row in rows(DESIGN, 4) if row[0] != "choice"}
    assert set(documented) == set(UNDONE)
    now = model(prod())
    for choice, changes in UNDONE.items():
        undone = model(prod(changes))
        more = [undone.of(users).per_user_month - now.of(users).per_user_month for users in (100, 1_000)]
        assert more[0] > Decimal("0.01"), choice
        assert documented[choice] == (f"{cents(more[0]):+}", f"{cents(more[1]):+}"), choice


def test_the_cost_of_the_first_layout_is_documented() -> None:
    undone: dict[str, dict[str, Any] | str] = {}
    for changes in UNDONE.values():
        for section, values in changes.items():
            before = undone.get(section)
            undone[section] = {**before, **values} if isinstance(before, dict) else values
    few, many = (cents(model(prod(undone)).of(users).per_user_month) for users in (100, 1_000))
    assert f"cost ${few} and ${many}." in DESIGN


def test_the_savings_of_spot_are_documented() -> None:
    now = estimate(prod(), 100).per_user_month
    lean = estimate(prod(), 100, taken=Assumptions().but({"spot-discount": "0.4"})).per_user_month
    none = estimate(prod(), 100, taken=Assumptions().but({"spot-discount": "0"})).per_user_month
    text = r"costs (\d+) cents more, and with on-demand nodes alone (\d+) cents more"
    match = re.search(text, " ".join(COST.split()))
    assert match
    assert tuple(map(int, match.groups())) == tuple(int(cents(other - now) * 100) for other in (lean, none))


def test_the_margin_below_the_target_is_documented() -> None:
    now = estimate(prod(), 100)
    left = 100 * now.target - now.total_month
    assert f"With 100 users, ${cents(left)} of the $300 a month" in COST
    documented = [row for row in rows(COST, 2) if "(`" in row[0]]
    assert len(documented) == 9
    exceeding = 0
    for words, figures in documented:
        name, _, value = words.partition("`")[2].rstrip("`)").partition("=")
        other = estimate(prod(), 100, taken=Assumptions().but({name: value}))
        assert figures == f"{cents(other.total_month - now.total_month)}", words
        exceeding += other.total_month - now.total_month > left
    assert exceeding == 6
    assert "six of these nine changes are more than that" in COST
    half = estimate(prod(), 100, taken=Assumptions().but({"spot-discount": "0.5"}))
    assert f"from {half.break_even_users} users on" in " ".join(COST.split())


def first_arithmetic() -> Settings:
    """The environment that the platform's first arithmetic was about, with the defaults of a stack file."""
    return read(
        {
            "aws:region": "us-east-1",
            "agent-environment:cluster": {"publicAccessCidrs": ["203.0.113.0/24"]},
            "agent-environment:network": {"nat": "single", "zones": 2},
            "agent-environment:sandboxClasses": [
                {
                    "name": "standard",
                    "image": f"registry.example.com/sandbox@{DIGEST}",
                    "resources": {"cpu": "100m", "memory": "512Mi"},
                    "pool": {"size": 0},
                    "capacity": "spot",
                }
            ],
            "agent-environment:service": {
                "image": f"registry.example.com/service@{DIGEST}",
                "domain": "w.example.com",
                "workspaceDomain": "w.example.net",
                "issuer": "https://login.example.com",
                "certificate": "arn:aws:acm:us-east-1:111122223333:certificate/0f7a3c52-6a0e-4d2e-9b0c-6f3c2a1d9e84",
                "reach": "internet",
                "callers": ["203.0.113.0/24"],
            },
        },
        "dev",
    )


@pytest.fixture(scope="module")
def ours() -> Model:
    return model(first_arithmetic(), Decimal(146))


def test_the_difference_to_the_first_estimate_is_documented(ours: Model) -> None:
    by_part = {line.part: line.monthly for line in ours.of(1).lines}

    def of(*words: str) -> str:
        return f"{cents(sum((by_part[part] for part in by_part if part.startswith(words)), start=Decimal(0)))}"

    documented = {row[0]: row[2] for row in rows(COST, 4) if row[0] != "dollars a month"}
    figures = {
        "control plane": of("control plane"),
        "NAT gateways": of("NAT gateways"),
        "load balancer": of("load balancer"),
        "controllers on Fargate": of("controllers"),
        "system nodes": of("system nodes"),
        "keys and logs": of("keys", "logs of the cluster", "flow logs"),
        "homes": of("homes"),
        "reading and writing, 146 h": of("reading"),
        "backups": of("backups"),
        "metering of homes": of("metering"),
        "NAT and internet, 146 h": of("through NAT", "to the internet"),
        "logs and ledger, 146 h": of("logs of users", "ledger"),
    }
    assert {name: documented[name] for name in figures} == figures
    # Together they are all there is, beside the sandboxes themselves.
    named = sum((Decimal(figure) for figure in figures.values()), start=Decimal(0)) + by_part["sandboxes: standard"]
    assert abs(named - ours.of(1).total_month) < Decimal("0.06")
    assert "this model has $3.29" in COST
    assert cents(ours.of(1000).per_user_month) == Decimal("3.29")


def test_the_hourly_rate_of_the_first_estimate_is_derived_step_by_step() -> None:
    """42 on an m8g.2xlarge by its formula; then what the disk holds, what is bought, and how full it is."""
    book = price_book("us-east-1")
    context = EstimateContext(first_arithmetic(), book, Assumptions())
    (kind,) = kinds(context)
    room = pod_resources(context.settings.sandbox_classes[0])
    large = book.instances["m8g.2xlarge"]
    hour = kind.machine.price(large).dollars
    bought = kind.machine.for_one(room)
    place = kind.machine.price(bought).dollars / kind.machine.holds(bought, room)
    steps = [hour / 42, hour / kind.machine.holds(large, room), place, place / Decimal("0.7")]
    documented = [row[2] for row in rows(COST, 4) if row[0].startswith("an hour")]
    assert documented == [f"{step:.4f}" for step in steps]
    # A table of then: $1.78 among 1,000 at 146 hours on Spot, $1.55 among 10,000; $3.15 on Fargate.
    own = Decimal("1.01")
    assert abs(Decimal(229) / 10_000 + own + 146 * steps[0] - Decimal("1.55")) < Decimal("0.01")
    fargate = book.rate("fargate.vcpu").dollars / 4 + book.rate("fargate.memory").dollars
    assert abs(Decimal(229) / 10_000 + own + 146 * fargate - Decimal("3.15")) < Decimal("0.01")
