"""Tests of pool sizes, Fargate sizes, ids and quantities."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentenv.core.classes.pools.sizes import max_sandboxes, miss_rate, size_for, warm_members
from agentenv.core.nodes.fargate_sizes import GIB, OVERHEAD, SIZES, size_up
from agentenv.core.values.posix_ids import CLASS_IDS, SEAT_IDS, class_id, seat_id
from agentenv.core.values.quantities import Quantity, cores, size
from tests.fast.config.stack_samples import OTHER_IMAGE, sandbox, settings


@pytest.mark.parametrize(
    ("replenish", "misses", "size"),
    [(30, "0.05", 3), (30, "0.01", 4), (30, "0.001", 5), (90, "0.05", 4), (90, "0.01", 6), (90, "0.001", 7)],
)
def test_sixty_claims_an_hour(replenish: int, misses: str, size: int) -> None:
    assert size_for(60, replenish, Decimal(misses)) == size


@given(st.integers(1, 2000), st.integers(1, 600), st.integers(1, 99))
def test_a_pool_has_the_smallest_size_for_its_miss_rate(claims: int, seconds: int, percent: int) -> None:
    size = size_for(claims, seconds, Decimal(percent) / 100)
    assert miss_rate(size, claims, seconds) <= Decimal(percent) / 100
    assert size == 0 or miss_rate(size - 1, claims, seconds) > Decimal(percent) / 100


@pytest.mark.parametrize(
    ("pool", "releases", "warm", "most"),
    [
        ({}, [], 1, 11),
        ({"size": 0}, [], 0, 10),
        ({"size": 3}, [{"channel": "next", "image": OTHER_IMAGE}], 3, 16),
        ({"size": 20}, [], 20, 40),
        ({"peakClaimsPerHour": 60}, [], 4, 14),
        ({"size": 2, "schedules": [{"start": "08:00", "end": "18:00", "size": 9}]}, [], 9, 19),
        ({"size": 9, "schedules": [{"start": "08:00", "end": "18:00", "size": 2}]}, [], 9, 19),
        ({"schedules": [{"start": "08:00", "end": "18:00", "size": 0}]}, [], 1, 11),
    ],
)
def test_warm_members_of_a_class(
    pool: dict[str, object], releases: list[dict[str, object]], warm: int, most: int
) -> None:
    (class_,) = settings({"sandboxClasses": [sandbox(pool=pool, releases=releases)]}).sandbox_classes
    assert warm_members(class_.pool) == warm
    assert max_sandboxes(class_) == most


@given(st.decimals("0.001", "100000", places=6))
def test_cores_are_formatted_as_kubernetes_does(value: Decimal) -> None:
    text = cores(value)
    assert 0 <= Quantity.parse(text).value - value < Decimal("0.001")
    assert not text.endswith("000m")


@given(st.integers(0, 2**60))
def test_bytes_are_formatted_as_kubernetes_does(value: int) -> None:
    text = size(Decimal(value))
    assert 0 <= Quantity.parse(text).value - value < 1024
    number = text.rstrip("KMGTPi")
    # The largest unit that takes no fraction; there is none beyond the last.
    assert text == "0" or text.endswith("Pi") or int(number) % 1024


@given(st.decimals("0.01", "17", places=2), st.integers(1, 130 * 1024))
def test_fargate_uses_the_smallest_sufficient_size(cpu: Decimal, mebibytes: int) -> None:
    memory = Decimal(mebibytes * 2**20)
    holding = [size for size in SIZES if size.cpu >= cpu and size.memory * GIB >= memory + OVERHEAD]
    found = size_up(cpu, memory)
    assert (found is None) == (not holding)
    assert all(found is not None and found.cpu <= other.cpu for other in holding)


@given(st.text(max_size=70))
def test_ids_derive_from_names_in_separate_ranges(name: str) -> None:
    assert class_id(name) == class_id(name)
    assert class_id(name) in CLASS_IDS
    assert seat_id(name) in SEAT_IDS
    assert CLASS_IDS.stop <= SEAT_IDS.start


def test_ids_are_stable() -> None:
    # Homes were written under these: a change here locks their owners out.
    assert (class_id("standard"), seat_id("release-desk")) == (660_454_144, 1_319_389_644)


@pytest.mark.parametrize(
    ("text", "value"), [("500m", "0.5"), ("2", "2"), ("1Gi", str(2**30)), ("1.5Ki", "1536"), ("3k", "3000")]
)
def test_quantities_are_parsed_as_kubernetes_does(text: str, value: str) -> None:
    assert Quantity.parse(text).value == Decimal(value)
    assert str(Quantity.parse(text)) == text


@pytest.mark.parametrize("text", ["", "m", "1 Gi", "-1", "1gi", "1e3", "٣"])
def test_invalid_quantities_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a Kubernetes quantity"):
        Quantity.parse(text)
