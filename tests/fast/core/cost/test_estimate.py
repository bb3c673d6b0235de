"""Tests of the estimate for any settings: sums are exact, and costs grow with users and hours."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as budget
from hypothesis import strategies as some

from agentenv.config import Settings
from agentenv.core.cost.assumptions import Assumptions
from agentenv.core.cost.estimate import estimate, model
from agentenv.core.cost.pool_week import average_size, size_at, stretches
from agentenv.core.cost.sensitivity import moves
from agentenv.core.prices.book import MissingPricesError, price_book
from agentenv.core.prices.units import apportioned, cents
from tests.fast.config.stack_samples import fargate, mistakes, sandbox, settings
from tests.fast.core.cost.prod import prod

HOURS = some.integers(0, 730).map(Decimal)
POOLS: some.SearchStrategy[dict[str, Any]] = some.one_of(
    some.integers(0, 30).map(lambda size: {"size": size}),
    some.integers(1, 600).map(lambda claims: {"peakClaimsPerHour": claims}),
    some.integers(0, 9).map(
        lambda size: {"size": size, "schedules": [{"start": "08:00", "end": "18:00", "size": size + 5}]}
    ),
)


@some.composite
def environments(draw: some.DrawFn) -> Settings:
    """Environments that differ in what they cost."""
    classes = [
        sandbox(
            capacity=draw(some.sampled_from(["spot", "on-demand", "both"])),
            resources={
                "cpu": draw(some.sampled_from(["50m", "250m", "1"])),
                "memory": draw(some.sampled_from(["256Mi", "1Gi", "3Gi"])),
            },
            pool=draw(POOLS),
        )
    ]
    if draw(some.booleans()):
        classes.append(sandbox("guarded", tier="untrusted", pool=draw(POOLS)))
    if draw(some.booleans()):
        classes.append(fargate(storage={"kind": "none"}, pool={"size": draw(some.integers(0, 3))}))
    sections: dict[str, Any] = {
        "network": {
            "nat": draw(some.sampled_from(["single", "per-zone"])),
            "zones": draw(some.integers(2, 4)),
            "flowLogTraffic": draw(some.sampled_from(["all", "accepted", "rejected"])),
        },
        "storage": {
            "infrequentAccessAfter": draw(some.sampled_from(["never", "7d", "90d"])),
            "archiveAfter": draw(some.sampled_from(["never", "90d", "365d"])),
            "backup": draw(some.booleans()),
        },
        "capacity": {"headroom": {"pods": draw(some.integers(0, 5))}},
        "sandboxClasses": classes,
    }
    if mistakes(sections):
        sections["storage"] = {"backup": False}
    return settings(sections)


@given(environments(), some.integers(1, 100_000), HOURS)
@budget(max_examples=25)
def test_lines_add_up_exactly_and_when_rounded(environment: Settings, users: int, hours: Decimal) -> None:
    found = estimate(environment, users, hours)
    whole = sum((line.monthly for line in found.lines), start=Decimal(0))
    assert whole == found.total_month
    assert sum((line.monthly for line in found.lines if line.fixed), start=Decimal(0)) == found.fixed_month
    assert sum(apportioned(line.monthly for line in found.lines)) == cents(found.total_month)
    assert all(line.monthly >= 0 and line.basis for line in found.lines)
    of_classes = sum((line.monthly for line in found.lines if line.fixed and line.sandbox_class), start=Decimal(0))
    assert sum((class_.fixed_month for class_ in found.by_class), start=Decimal(0)) == of_classes


@given(environments(), some.integers(1, 100_000), some.integers(1, 100_000), HOURS)
@budget(max_examples=25)
def test_more_users_raise_the_total_and_not_the_cost_per_user(
    environment: Settings, users: int, more: int, hours: Decimal
) -> None:
    estimate_model = model(environment, hours)
    few, many = estimate_model.of(users), estimate_model.of(users + more)
    assert many.total_month >= few.total_month
    assert many.per_user_month <= few.per_user_month


@given(environments(), HOURS, HOURS)
@budget(max_examples=15)
def test_more_hours_raise_the_variable_cost_only(
    environment: Settings, some_hours: Decimal, other_hours: Decimal
) -> None:
    less, more = (model(environment, hours).of(100) for hours in sorted((some_hours, other_hours)))
    assert less.variable_month <= more.variable_month
    assert less.fixed_month == more.fixed_month


@given(environments(), HOURS)
@budget(max_examples=15)
def test_the_target_is_met_from_the_break_even_number_of_users(environment: Settings, hours: Decimal) -> None:
    estimate_model = model(environment, hours)
    enough = estimate_model.of(1).break_even_users
    if enough is None:
        assert estimate_model.of(10**9).per_user_month > Decimal(3)
        return
    assert estimate_model.of(enough).per_user_month <= Decimal(3)
    assert enough == 1 or estimate_model.of(enough - 1).per_user_month > Decimal(3)


@given(environments())
@budget(max_examples=15)
def test_a_mix_costs_what_its_classes_cost(environment: Settings) -> None:
    names = [sandbox_class.name for sandbox_class in environment.sandbox_classes]
    for name in names:
        only = model(environment, mix={name: Decimal(1)})
        (own,) = [class_cost for class_cost in only.by_class if class_cost.name == name]
        assert only.of(1).variable_month == own.per_user_month


def test_the_bucket_of_runtimes_costs_its_storage() -> None:
    sections = {"sandboxClasses": [sandbox(), sandbox("b", tier="untrusted")]}
    without, with_bucket = (
        estimate(settings({**sections, "network": {"mirrors": {"bucket": bucket}}}), 10) for bucket in (False, True)
    )
    (line,) = [line for line in with_bucket.lines if line.part == "bucket of runtimes"]
    # gVisor for two processors, Kata for those of nested virtualization
    assert line.basis.startswith("3 files, 1.5 GB")
    assert line.monthly == Decimal("1.5") * Decimal("0.023") == with_bucket.total_month - without.total_month


def test_each_setting_has_the_cost_of_its_price() -> None:
    book = price_book("us-east-1")
    single = estimate(settings({"network": {"nat": "single", "zones": 3}}), 10)
    three = estimate(settings({"network": {"nat": "per-zone", "zones": 3}}), 10)
    gateway = (book.rate("nat.gateway") + book.rate("address.public")).all_month().value
    assert three.fixed_month - single.fixed_month == 2 * gateway
    endpoints = estimate(settings({"network": {"endpoints": ["sts", "logs"], "zones": 3}}), 10)
    assert endpoints.fixed_month - single.fixed_month == book.rate("endpoint.interface").all_month().value * 6


def test_the_usage_export_needs_no_kms_key() -> None:
    for exported in (True, False):
        settings_ = settings({"cost": {"usageExport": exported}})
        (keys,) = [line for line in estimate(settings_, 100).lines if line.part == "keys"]
        assert (keys.monthly, keys.basis) == (Decimal(4), "4: logs, secrets, disks, homes")


def test_a_second_release_has_its_own_pool() -> None:
    image = f"registry.example.com/sandbox@sha256:{'ef' * 32}"
    plain = sandbox(pool={"size": 20}, resources={"cpu": "1", "memory": "1Gi"})
    released = {**plain, "releases": [{"image": image}]}
    single, double = (
        estimate(settings({"sandboxClasses": [row]}), 1).by_class[0].fixed_month for row in (plain, released)
    )
    assert double > single


def test_scheduled_pools_cost_by_their_hours() -> None:
    guarded = sandbox("guarded", tier="untrusted", pool={"size": 2})
    office = {**guarded, "pool": {"size": 0, "schedules": [{"start": "08:00", "end": "18:00", "size": 2}]}}
    always, some_hours = (
        estimate(settings({"sandboxClasses": [class_]}), 1).by_class[0].fixed_month for class_ in (guarded, office)
    )
    assert abs(some_hours / always - Decimal(50) / 168) < Decimal("1e-6")
    pool = settings({"sandboxClasses": [office]}).sandbox_classes[0].pool
    assert average_size(pool) == Decimal(2 * 50) / 168
    assert [size_at(pool, minute) for minute in (0, 8 * 60, 18 * 60 - 1, 18 * 60, 6 * 24 * 60 + 9 * 60)] == [
        0,
        2,
        2,
        0,
        0,
    ]
    assert sum(stretch.share for stretch in stretches({"a": pool, "b": pool})) == 1


def test_larger_sizes_take_a_share_of_the_hours() -> None:
    small = sandbox(resources={"cpu": "250m", "memory": "512Mi"})
    large = {"cpu": "4", "memory": "8Gi"}
    parts = {
        line.part: line.monthly
        for line in estimate(settings({"sandboxClasses": [{**small, "sizes": {"large": large}}]}), 1).lines
    }
    only_small, only_large = (
        next(
            line.monthly
            for line in estimate(settings({"sandboxClasses": [{**small, "resources": resources}]}), 1).lines
            if line.part == "sandboxes: standard"
        )
        for resources in (small["resources"], large)
    )
    share = Assumptions().larger
    assert abs(parts["sandboxes: standard"] - only_small * (1 - share)) <= Decimal("0.01")
    assert abs(parts["sandboxes: standard, large"] - only_large * share) <= Decimal("0.01")


def test_fargate_disk_beyond_the_free_size_is_charged() -> None:
    book = price_book("us-east-1")
    free, more = (
        estimate(settings({"sandboxClasses": [fargate(resources=resources)]}), 1).by_class[0].hour
        for resources in ({"ephemeral": "20Gi"}, {"ephemeral": "100Gi"})
    )
    assert more - free == 80 * book.rate("fargate.disk").dollars


def test_a_seat_has_the_cost_of_its_home() -> None:
    sections = {"sandboxClasses": [sandbox()], "workspaces": [{"name": "desk", "class": "standard", "user": "u-1"}]}
    (seat,) = [line for line in estimate(settings(sections), 1).lines if line.part.startswith("use of declared seats")]
    assert seat.fixed
    # Somebody who works as long in a place of one of the users has as much.
    own = {line.part: line.monthly for line in estimate(settings(sections), 1, Assumptions().seat_hours).lines}
    like = own["homes"] + own["reading and writing homes"] + own["backups of homes"] + own["to the internet"]
    assert like < seat.monthly <= like + own["through NAT"]


def test_warm_nodes_pull_images() -> None:
    def images(size: int) -> Decimal:
        found = estimate(settings({"sandboxClasses": [sandbox(pool={"size": size})]}), 1).lines
        return sum((line.monthly for line in found if line.part == "images for nodes"), start=Decimal(0))

    assert images(0) == 0
    assert 0 < images(1) < images(40)


def test_transient_pods_may_need_another_system_node() -> None:
    def system(settings: Settings) -> str:
        (line,) = [line for line in estimate(settings, 1).lines if line.part == "system nodes"]
        return line.basis

    # What `prod` has there leaves 131 MiB, and a look at homes takes 384 for each of its file systems.
    assert system(prod()).endswith("; 1 more for 2 h a day")
    roomy = prod({"standard": {"maxSandboxes": 20}, "storage": {"fileSystems": 1}})
    assert "more for" not in system(roomy)


def test_images_in_ecr_of_the_region_do_not_use_nat() -> None:
    near = f"111122223333.dkr.ecr.us-east-1.amazonaws.com/sandbox@sha256:{'ab' * 32}"
    far = f"111122223333.dkr.ecr.eu-west-1.amazonaws.com/sandbox@sha256:{'ab' * 32}"
    costs = [
        next(
            line.monthly
            for line in estimate(settings({"sandboxClasses": [class_]}), 100).lines
            if line.part == "through NAT"
        )
        for class_ in (sandbox(image=near), sandbox(image=far), sandbox())
    ]
    assert costs[0] < costs[1] == costs[2]


def test_existing_resources_are_not_counted() -> None:
    found = estimate(
        settings(
            {
                "network": {
                    "existing": {"vpcId": "vpc-12345678", "privateSubnetIds": ["subnet-12345678", "subnet-9abcdef0"]}
                },
                "cluster": {"existing": "theirs"},
            }
        ),
        10,
    )
    assert not {"control plane", "NAT gateways", "flow logs"} & {line.part for line in found.lines}
    assert any("cluster already exists" in remark for remark in found.remarks)


def test_the_estimate_prices_what_survives_the_loss_of_a_zone() -> None:
    def remark(**network: Any) -> str:
        found = estimate(settings({"network": {"zones": 3, **network}}), 10)
        return " ".join(remark for remark in found.remarks if "NAT" in remark)

    single = remark(nat="single")
    assert (
        "the other zones lose the internet, and ec2, ecr.api, ecr.dkr, eks-auth, elasticfilesystem, sqs, sts" in single
    )
    assert "`nat: per-zone` prevents that for $73.00 more a month" in single
    assert "`endpoints: [data-plane]`, for $153.30" in single
    assert "and ec2, ecr.dkr, eks-auth, elasticfilesystem, sqs: " in remark(nat="single", endpoints=["ecr.api", "sts"])
    assert remark(nat="single", endpoints=["data-plane"]) == remark(nat="per-zone") == ""


def test_prices_of_other_regions_are_not_used() -> None:
    elsewhere = settings({}).model_copy(update={"region": "ap-south-1"})
    with pytest.raises(MissingPricesError, match="no prices of ap-south-1"):
        estimate(elsewhere, 10)
    book = price_book("us-east-1")
    few = replace(book, instances={"m7g.large": book.instances["m7g.large"]})
    with pytest.raises(MissingPricesError, match=r"m8i.*m7g"):
        estimate(settings({"sandboxClasses": [sandbox(tier="untrusted")]}), 10, book=few)


def test_observed_spot_prices_replace_the_assumption() -> None:
    book = price_book("us-east-1")
    cheap = {
        name: replace(instance, spot=instance.on_demand.times(Decimal("0.1")), spot_date=instance.date)
        for name, instance in book.instances.items()
    }
    settings_ = settings({"sandboxClasses": [sandbox(capacity="spot")]})
    seen = replace(book, instances=cheap)
    assert estimate(settings_, 10, book=seen).total_month < estimate(settings_, 10, book=book).total_month
    # Then the discount moves nothing any more.
    other = estimate(settings_, 10, book=seen, taken=Assumptions().but({"spot-discount": "0.1"}))
    assert other.total_month == estimate(settings_, 10, book=seen).total_month


@pytest.mark.parametrize(
    ("overrides", "wrong"),
    [
        ({"hoem": "3"}, "no assumption 'hoem'"),
        ({"home": "much"}, "no number"),
        ({"home": "-1"}, "nothing below 0"),
        ({"spot-discount": "1.1"}, "0 to 1"),
        ({"node-fill": "0"}, "nothing can be divided"),
        ({"home": "NaN"}, "nothing below 0"),
    ],
)
def test_invalid_assumptions_are_refused(overrides: dict[str, str], wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        Assumptions().but(overrides)


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ({"active_hours": Decimal(731)}, "a month has"),
        ({"mix": {"nobody": Decimal(1)}}, "no class 'nobody'"),
        ({"mix": {"standard": Decimal("0.5")}}, "sum to 0.5"),
    ],
)
def test_invalid_hours_and_mixes_are_refused(arguments: dict[str, Any], wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        model(settings({"sandboxClasses": [sandbox()]}), **arguments)
    with pytest.raises(ValueError, match="at least one is required"):
        model(settings({})).of(0)


def test_the_most_sensitive_assumptions_come_first() -> None:
    settings_ = settings({"sandboxClasses": [sandbox(capacity="spot")]})
    now = estimate(settings_, 100)

    def then(changed: Any) -> Decimal:
        return estimate(settings_, 100, taken=Assumptions().but(changed)).per_user_month

    found = moves(now.per_user_month, now.assumptions, then)
    assert [abs(move.change) for move in found] == sorted((abs(move.change) for move in found), reverse=True)
    (home,) = [move for move in found if move.what.startswith("home ")]
    assert home.change == then({"home": "2.4"}) - now.per_user_month
