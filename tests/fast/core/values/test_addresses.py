"""Tests of the address plan: blocks are inside the range, aligned, disjoint and stable."""

from __future__ import annotations

import contextlib
from ipaddress import IPv4Network, collapse_addresses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentenv.core.values.addresses import AddressSpaceError, most_zones, plan


@st.composite
def ranges(draw: st.DrawFn) -> str:
    length = draw(st.integers(16, 27))
    return f"{IPv4Network((draw(st.integers(0, 2**32 - 1)) >> (32 - length) << (32 - length), length))}"


@given(ranges(), st.data())
def test_blocks_are_inside_the_range_and_do_not_overlap(cidr: str, data: st.DataObject) -> None:
    zones = data.draw(st.integers(1, most_zones(cidr)))
    planned = plan(cidr, zones)
    blocks = [IPv4Network(block) for block in planned.private + planned.public]
    assert len(planned.private) == len(planned.public) == zones
    assert all(block.subnet_of(IPv4Network(cidr)) for block in blocks)
    assert all(16 <= block.prefixlen <= 28 for block in blocks)
    assert len({block.prefixlen for block in blocks[:zones]}) == 1
    assert sum(block.num_addresses for block in collapse_addresses(blocks)) == sum(b.num_addresses for b in blocks)


@given(ranges())
def test_an_added_zone_does_not_change_other_subnets(cidr: str) -> None:
    full = plan(cidr, most_zones(cidr))
    for zones in range(1, most_zones(cidr)):
        part = plan(cidr, zones)
        assert part.private == full.private[:zones]
        assert part.public == full.public[:zones]


@given(ranges(), st.integers(-3, 12))
def test_any_number_of_zones_gives_a_plan_or_an_error(cidr: str, zones: int) -> None:
    if 1 <= zones <= most_zones(cidr):
        assert len(plan(cidr, zones).private) == zones
    else:
        with pytest.raises(AddressSpaceError):
            plan(cidr, zones)


@given(st.text(max_size=30) | st.from_regex(r"[0-9.]{1,16}/[0-9]{1,3}"))
def test_any_text_gives_a_plan_or_an_error(text: str) -> None:
    with contextlib.suppress(AddressSpaceError):
        assert plan(text, 1).vpc == text


def test_the_layout_of_a_usual_range() -> None:
    planned = plan("10.40.0.0/16", 3)
    assert planned.private == ("10.40.0.0/19", "10.40.32.0/19", "10.40.64.0/19")
    assert planned.public == ("10.40.224.0/24", "10.40.225.0/24", "10.40.226.0/24")


@pytest.mark.parametrize(
    ("cidr", "hint"),
    [
        ("10.40.0.1/16", "write 10.40.0.0/16"),
        ("10.0.0.0/8", "does not support larger VPCs"),
        ("10.0.0.0/28", "/27"),
        ("10.0.0.0", "/27"),
        ("2001:db8::/32", "first address"),
    ],
)
def test_an_invalid_range_is_refused_with_a_fix(cidr: str, hint: str) -> None:
    with pytest.raises(AddressSpaceError, match="allowed: an IPv4 range") as caught:
        plan(cidr, 2)
    assert hint in caught.value.hint


def test_more_zones_than_a_range_is_laid_out_for_are_refused() -> None:
    with pytest.raises(AddressSpaceError) as caught:
        plan("10.0.0.0/22", 4)
    assert caught.value.hint == "use a /20 or larger"
    with pytest.raises(AddressSpaceError) as caught:
        plan("10.0.0.0/16", 7)
    assert caught.value.hint == "use at most 6 zones"


def test_too_many_pods_are_refused_with_a_sufficient_range() -> None:
    small = plan("10.0.0.0/24", 2)
    with pytest.raises(AddressSpaceError) as caught:
        small.check_capacity(500)
    larger = caught.value.hint.removeprefix("use a /").removesuffix(" or larger")
    plan(f"10.0.0.0/{larger}", 2).check_capacity(500)
    with pytest.raises(AddressSpaceError):
        plan(f"10.0.0.0/{int(larger) + 1}", 2).check_capacity(500)
    with pytest.raises(AddressSpaceError, match="no VPC is that large"):
        plan("10.0.0.0/16", 2).check_capacity(10_000_000)


@given(ranges(), st.integers(1, 250))
def test_the_capacity_has_enough_addresses(cidr: str, pods_per_node: int) -> None:
    planned = plan(cidr, most_zones(cidr))
    capacity = planned.capacity(pods_per_node)
    planned.check_capacity(capacity.pods, pods_per_node)
    prefixes = -(-pods_per_node // 16) + 1
    available = sum(IPv4Network(block).num_addresses - 5 for block in planned.private)
    assert capacity.nodes * (prefixes * 16 + 1) <= available
