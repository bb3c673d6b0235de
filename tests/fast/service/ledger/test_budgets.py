"""Budgets: whose limit holds whom, and what a pass does about it, once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from agentenv.config import read
from agentenv.core.ledger.budgets import MonthlySpend, Policy, Rates, budget_action, row_cost
from agentenv.core.ledger.rates import budget_policy, class_rates
from agentenv.core.ledger.rows import Row
from agentenv.core.prices.book import price_book
from agentenv.core.values.timestamps import format_timestamp
from agentenv.core.workspaces.workspace import SUSPENDED_BECAUSE, WAKE_AT, Workspace
from agentenv.service.aws.clients import AwsUnavailableError
from agentenv.service.kube.client import CLAIMS, EVENTS, SANDBOXES, Document, KubeApiError
from agentenv.service.ledger.budgets import NOTICED, Budgets
from agentenv.service.loops.workspace_passes import wake_due
from agentenv.service.telemetry.metrics import Metrics
from agentenv.service.workspaces.suspend import suspend
from tests.fast.service.fake_api_server import Api, FakeApiServer, Killed, run
from tests.fast.service.ledger import documents
from tests.fast.service.loops.cluster import OWNER, SPACE, House, always

NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
RATES = Rates(Decimal("0.036"), Decimal("0.004"), Decimal("0.0005"))
POLICY = Policy({"standard": RATES, "large": RATES}, {"large": Decimal(20)}, Decimal(3), 80)


def row(dollars: str, workspace: str = "w-1", sandbox_class: str = "standard", owner: str = "u-1") -> Row:
    """A row that costs so much: of processor time alone."""
    cpu = Decimal(dollars) / Decimal("0.036") * 3600
    return Row(
        owner=owner,
        claim=f"claim-{workspace}",
        pod="p",
        began=NOON,
        ended=NOON + HOUR,
        sandbox_class=sandbox_class,
        workspace=workspace,
        cpu_seconds=cpu,
    )


class Book:
    """A ledger with these rows."""

    def __init__(self, *rows: Row) -> None:
        self.rows, self.at, self.away = list(rows), NOON + 2 * HOUR, False
        self.asked = 0

    def now(self) -> datetime:
        return self.at

    def of_owner(self, owner: str, since: datetime, until: datetime, *, consistent: bool = True) -> list[Row]:
        del consistent
        self.asked += 1
        if self.away:
            raise AwsUnavailableError("away")
        return [one for one in self.rows if one.owner == owner and since <= one.began < until]


def budgets(api: FakeApiServer, book: Book, policy: Policy = POLICY) -> Budgets:
    ledger: Any = book
    return Budgets(Api(api), ledger, policy, Metrics())


def workspace(name: str) -> Workspace:
    return Workspace(name, "u-1", "standard", "user", "creating")


def awake(api: FakeApiServer, name: str = "w-1") -> bool:
    return api.objects[SANDBOXES, documents.SPACE, f"box-{name}"]["spec"]["operatingMode"] == "Running"


def test_a_row_costs_what_its_amounts_do() -> None:
    whole = replace(row("0.072"), memory_gib_hours=Decimal(2), storage_gib_hours=Decimal(4))
    assert row_cost({"standard": RATES}, whole) == Decimal("0.072") + Decimal("0.008") + Decimal("0.002")
    # Of a class that is no more: like the dearest, and never free.
    dear = replace(RATES, core_hour=Decimal(1))
    assert row_cost({"standard": RATES, "large": dear}, replace(whole, sandbox_class="old")) > 2


def test_the_nearest_limit_holds() -> None:
    spent = MonthlySpend(POLICY, [row("2"), row("1.5", "w-2"), row("5", "w-3", "large")])
    capped = spent.nearest("w-1", "standard", None)
    assert capped is not None
    assert (capped.of, capped.spent, capped.over) == ("user", Decimal("3.5"), True)
    own = spent.nearest("w-3", "large", None)
    assert own is not None
    assert (own.of, own.spent, own.percent) == ("class", Decimal(5), 25)
    # A budget of its own takes the class's place, and never that of its owner's cap.
    raised = spent.nearest("w-3", "large", Decimal(4))
    assert raised is not None
    assert (raised.of, raised.over) == ("workspace", True)
    still = spent.nearest("w-1", "standard", Decimal(1000))
    assert still is not None
    assert still.of == "user"
    assert MonthlySpend(replace(POLICY, user_cap=None), [row("2")]).nearest("w-1", "standard", None) is None


@given(some.decimals(0, 100, places=4), some.decimals("0.01", 50, places=2))
def test_an_action_follows_from_what_is_spent(spent: Decimal, limit: Decimal) -> None:
    found = MonthlySpend(replace(POLICY, user_cap=limit), [row(str(spent))]).nearest("w-1", "standard", None)
    assert found is not None
    expected = "suspend" if found.spent >= limit else "notice" if found.spent * 100 >= limit * 80 else None
    assert budget_action(found, 80) == expected


def test_near_its_limit_an_owner_is_told_once_a_month() -> None:
    api, book = FakeApiServer(), Book(row("2.5"))
    documents.claim(api)
    ours = budgets(api, book)
    assert run(ours.enforce_all).noticed == 1
    assert run(ours.enforce_all).noticed == 0
    assert awake(api)
    assert api.objects[CLAIMS, documents.SPACE, "w-1"]["metadata"]["annotations"][NOTICED] == "2026-11"
    (event,) = (one for (kind, _, _), one in api.objects.items() if kind is EVENTS)
    assert (event["reason"], "2.50 of 3.00" in event["message"]) == ("BudgetNearlySpent", True)


def test_at_its_limit_all_that_it_holds_sleeps_and_nothing_is_deleted() -> None:
    api, book = FakeApiServer(), Book(row("2"), row("1", "w-2"), row("9", "w-3", owner="u-2"))
    for owner, name in (("u-1", "w-1"), ("u-1", "w-2"), ("u-3", "w-4")):
        documents.claim(api, owner, name)
    before = {key for key in api.objects if key[0] is not EVENTS}
    assert run(budgets(api, book).enforce_all).suspended == 2
    assert [awake(api, name) for name in ("w-1", "w-2", "w-4")] == [False, False, True]
    notes = api.objects[CLAIMS, documents.SPACE, "w-1"]["metadata"]["annotations"]
    assert notes[SUSPENDED_BECAUSE] == "budget"
    assert {key for key in api.objects if key[0] is not EVENTS} == before
    assert run(budgets(api, book).enforce_all).suspended == 0


def test_a_budget_that_is_no_number_frees_nobody() -> None:
    api, book = FakeApiServer(), Book(row("3"))
    for number, said in enumerate(("NaN", "Infinity", "-1", "much")):
        documents.claim(api, "u-1", f"w-{number}", **{"sandbox.users.io/budget": said})
    assert run(budgets(api, book).enforce_all).suspended == 4


class Refusing(FakeApiServer):
    """A cluster whose guardrails refuse any change of one claim."""

    def __init__(self, name: str, code: int) -> None:
        super().__init__()
        self._name, self._code = name, code

    def patch(self, kind: Any, existing: Document, changes: Document) -> bool:
        if kind is CLAIMS and existing["metadata"]["name"] == self._name:
            raise KubeApiError("not this one", self._code)
        return super().patch(kind, existing, changes)


def test_one_that_is_refused_keeps_nobody_behind_it_awake() -> None:
    api, book = Refusing("w-1", 403), Book(row("3"), row("2.6", "w-3", owner="u-2"))
    for owner, name in (("u-1", "w-1"), ("u-1", "w-2"), ("u-2", "w-3")):
        documents.claim(api, owner, name)
    held = run(budgets(api, book).enforce_all)
    assert (held.suspended, held.noticed, held.failures) == (1, 1, ("w-1: not this one",))
    assert [awake(api, name) for name in ("w-1", "w-2", "w-3")] == [True, False, True]
    # A server that cannot just now is not asked about all the others, too.
    api = Refusing("w-1", 503)
    documents.claim(api)
    with pytest.raises(KubeApiError):
        run(budgets(api, book).enforce_all)


@pytest.mark.parametrize("change", range(1, 6))
def test_a_pass_that_is_killed_is_made_up_for(change: int) -> None:
    api, book = FakeApiServer(), Book(row("2"), row("1", "w-2"), row("2.6", "w-3", owner="u-2"))
    for owner, name in (("u-1", "w-1"), ("u-1", "w-2"), ("u-2", "w-3")):
        documents.claim(api, owner, name)

    def dies(number: int) -> None:
        if number == change:
            raise Killed

    api.before = dies
    with pytest.raises(Killed):
        run(budgets(api, book).enforce_all)
    api.before = lambda _: None
    # What is marked and not asleep yet is seen to by whoever puts to sleep (`agentenv/core/lifecycle/wake.py`) as it is
    # here.
    run(budgets(api, book).enforce_all)
    marked = [
        name
        for name in ("w-1", "w-2", "w-3")
        if api.objects[CLAIMS, documents.SPACE, name]["metadata"]["annotations"].get(SUSPENDED_BECAUSE) == "budget"
    ]
    assert marked == ["w-1", "w-2"]
    assert api.objects[CLAIMS, documents.SPACE, "w-3"]["metadata"]["annotations"][NOTICED] == "2026-11"
    assert awake(api, "w-3")


def test_nobody_wakes_what_is_over_its_limit_until_it_is_raised_or_the_month_is_over() -> None:
    book = Book(row("3"))
    there = Workspace("w-1", "u-1", "standard", "user", "suspended")
    ours = budgets(FakeApiServer(), book)
    refusal = asyncio.run(ours.refusal(there))
    assert refusal is not None
    assert (refusal.kind, "2026-12-01" in refusal.way_out) == ("budget-spent", True)
    assert asyncio.run(budgets(FakeApiServer(), book, replace(POLICY, user_cap=Decimal(4))).refusal(there)) is None
    assert asyncio.run(ours.refusal(replace(there, owner="u-2"))) is None
    book.at = datetime(2026, 12, 1, 0, 5, tzinfo=UTC)
    assert asyncio.run(ours.refusal(there)) is None


def asleep_until_noon(house: House) -> None:
    house.workspace("w-1", **{WAKE_AT: format_timestamp(house.now)})
    claim = house.shelf.find(CLAIMS, "w-1", SPACE) or {}
    assert run(suspend, house.shelf, claim, "idle") == "done"
    house.settle()


def test_its_hour_does_not_wake_what_may_cost_no_more() -> None:
    house, book = House(), Book(row("3", owner=OWNER))
    asleep_until_noon(house)
    held = budgets(house.shelf, book)
    asked = book.asked
    for _ in range(2):
        run(wake_due, house.context(refuse_wake=held.refuse_wake), always)
        assert (house.mode(), house.notes()[SUSPENDED_BECAUSE]) == ("Suspended", "budget")
        # It was stopped by then, and is not asked about again.
        assert book.asked == asked + 1
    (event,) = house.shelf.list(EVENTS)
    assert event["reason"] == "BudgetSpent"
    # As it is resumed it may, once its budget was raised: the hour is over by then.
    assert asyncio.run(held.refusal(workspace("w-1")))


@pytest.mark.parametrize("away", [False, True])
def test_its_hour_wakes_whoever_may_cost_more_and_whoever_nobody_knows_of(away: bool) -> None:
    house, book = House(), Book(row("2.9" if not away else "3", owner=OWNER))
    asleep_until_noon(house)
    book.away = away
    assert run(wake_due, house.context(refuse_wake=budgets(house.shelf, book).refuse_wake), always).steps == 1
    assert (house.mode(), house.notes().get(WAKE_AT)) == ("Running", None)


def test_a_ledger_that_is_away_keeps_nobody_from_their_work() -> None:
    book = Book(row("3"))
    book.away = True
    assert (
        asyncio.run(budgets(FakeApiServer(), book).refusal(Workspace("w-1", "u-1", "standard", "user", "suspended")))
        is None
    )


def test_whoever_was_far_from_their_limits_is_not_asked_about_again_for_a_minute() -> None:
    book, clock = Book(row("1")), [0.0]
    ledger: Any = book
    held = Budgets(Api(FakeApiServer()), ledger, POLICY, Metrics(), lambda: clock[0])
    mine, others = workspace("w-1"), replace(workspace("w-2"), owner="u-2")

    def refused(one: Workspace) -> bool:
        return asyncio.run(held.refusal(one)) is not None

    assert not refused(mine)
    book.rows = [row("3")]
    # What was spent is remembered, and a limit is what it is now: with little left of it the ledger is asked.
    assert not refused(mine)
    assert refused(replace(mine, budget=Decimal("1.1")))
    assert refused(mine)
    book.rows = [row("1"), row("2.5", owner="u-2")]
    assert not refused(mine)
    # Others are remembered for themselves; and near their limit they are asked about each time.
    assert not refused(others)
    book.rows = [row("3"), row("3", owner="u-2")]
    assert refused(others)
    assert not refused(mine)
    clock[0] += 61
    assert refused(mine)


def test_what_was_set_aside_for_an_hour_costs_what_the_estimate_says() -> None:
    image = f"registry.example.com/a@sha256:{'0' * 64}"
    said = {"name": "standard", "image": image, "resources": {"cpu": "100m", "memory": "512Mi"}, "budget": "7.50"}
    small = {**said, "name": "fargate", "compute": "fargate", "tier": "untrusted", "storage": {"kind": "none"}}
    config = {
        "aws:region": "us-east-1",
        "agent-environment:sandboxClasses": [said, small],
        "agent-environment:cost": {"perUserCap": "3.00"},
    }
    settings = read(config, "dev")
    rates = class_rates(settings, price_book("us-east-1"))
    assert (
        Decimal("0.0005") < rates["standard"].core_hour / 10 + rates["standard"].memory_gib_hour / 2 < Decimal("0.02")
    )
    assert rates["fargate"].core_hour == Decimal("0.04048")
    policy = budget_policy(settings)
    assert (policy.user_cap, policy.class_budgets["standard"]) == (Decimal("3.00"), Decimal("7.50"))
