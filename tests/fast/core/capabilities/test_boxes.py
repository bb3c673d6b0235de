"""Sets of addresses and ports agree with sets of points, obey the laws of sets, and have one form each."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentenv.core.capabilities.sets.boxes import NO_BOXES, Box, BoxSet, Point, everywhere, union
from agentenv.core.capabilities.sets.intervals import Intervals

laws = settings(deadline=None, max_examples=40)

# Five bits of address and three of port, so that every set can be written out point by point.
LAST_ADDRESS, LAST_PORT = 31, 7
POINTS = [
    Point(version, protocol, address, port)
    for version in (4, 6)
    for protocol in ("TCP", "UDP")
    for address in range(LAST_ADDRESS + 1)
    for port in range(LAST_PORT + 1)
]


def spans(last: int) -> st.SearchStrategy[tuple[int, int]]:
    return st.tuples(st.integers(0, last), st.integers(0, last)).map(lambda ends: (min(ends), max(ends)))


small_boxes = st.builds(
    Box, st.sampled_from((4, 6)), st.sampled_from(("TCP", "UDP")), spans(LAST_ADDRESS), spans(LAST_PORT)
)
box_lists = st.lists(small_boxes, max_size=6)
box_sets = box_lists.map(BoxSet.of)
interval_lists = st.lists(spans(40), max_size=8)


def points(box_set: BoxSet) -> set[Point]:
    return {point for point in POINTS if point in box_set}


def inside(box: Box, point: Point) -> bool:
    return (
        (box.version, box.protocol) == (point.version, point.protocol)
        and box.addresses[0] <= point.address <= box.addresses[1]
        and box.ports[0] <= point.port <= box.ports[1]
    )


@laws
@given(interval_lists, interval_lists)
def test_intervals_agree_with_sets_of_numbers(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> None:
    mine, theirs = Intervals.of(left), Intervals.of(right)
    my_numbers = {number for low, high in left for number in range(low, high + 1)}
    their_numbers = {number for low, high in right for number in range(low, high + 1)}

    def numbers(box_set: Intervals) -> set[int]:
        return {number for number in range(41) if number in box_set}

    assert numbers(mine) == my_numbers
    assert numbers(mine | theirs) == my_numbers | their_numbers
    assert numbers(mine & theirs) == my_numbers & their_numbers
    assert numbers(mine - theirs) == my_numbers - their_numbers
    assert (mine <= theirs) == (my_numbers <= their_numbers)
    assert (mine == theirs) == (my_numbers == their_numbers)
    assert not my_numbers or mine.first == min(my_numbers)


@pytest.mark.parametrize("spans", [((3, 1),), ((1, 4), (5, 6)), ((5, 6), (1, 2)), ((1, 4), (3, 9))])
def test_intervals_have_one_canonical_form(spans: tuple[tuple[int, int], ...]) -> None:
    with pytest.raises(ValueError, match="canonical"):
        Intervals(spans)


def test_a_span_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(ValueError, match="9-3 ends before it starts"):
        Intervals.of([(9, 3)])


@laws
@given(box_lists)
def test_a_set_holds_the_points_of_its_boxes(boxes: list[Box]) -> None:
    assert points(BoxSet.of(boxes)) == {point for point in POINTS if any(inside(box, point) for box in boxes)}


@laws
@given(box_sets, box_sets)
def test_operations_agree_with_sets_of_points(left: BoxSet, right: BoxSet) -> None:
    assert points(left | right) == points(left) | points(right)
    assert points(left & right) == points(left) & points(right)
    assert points(left - right) == points(left) - points(right)
    assert (left <= right) == (points(left) <= points(right))
    assert bool(left) == bool(points(left))


@laws
@given(box_sets, box_sets)
def test_equal_sets_are_equal_values(left: BoxSet, right: BoxSet) -> None:
    assert (left == right) == (points(left) == points(right))
    assert BoxSet.of(left.boxes()) == left
    assert BoxSet.of((*right.boxes(), *left.boxes())) == left | right


@laws
@given(box_sets)
def test_the_boxes_of_a_set_do_not_overlap(box_set: BoxSet) -> None:
    for point in points(box_set):
        assert sum(inside(box, point) for box in box_set.boxes()) == 1


@laws
@given(box_sets, box_sets, box_sets)
def test_the_laws_of_sets_hold(first: BoxSet, second: BoxSet, third: BoxSet) -> None:
    assert first | second == second | first
    assert first & second == second & first
    assert (first | second) | third == first | (second | third)
    assert (first & second) & third == first & (second & third)
    assert first & (second | third) == (first & second) | (first & third)
    assert first | (second & third) == (first | second) & (first | third)
    assert first - (second | third) == (first - second) & (first - third)
    assert first - (second & third) == (first - second) | (first - third)
    assert first | (first & second) == first == first & (first | second)
    assert (first - second) | (first & second) == first
    assert not (first - second) & second
    assert first | NO_BOXES == first
    assert first <= everywhere() | first


@laws
@given(box_sets, box_sets, box_sets)
def test_containment_is_an_order(first: BoxSet, second: BoxSet, third: BoxSet) -> None:
    assert first <= union([first, first])
    assert not (first <= second <= third) or first <= third
    assert not (first <= second <= first) or first == second
    assert (first <= second) == (first | second == second) == (first & second == first)


@laws
@given(box_sets, box_sets)
def test_the_smallest_destination_of_a_difference_is_its_smallest(left: BoxSet, right: BoxSet) -> None:
    difference = points(left) - points(right)
    assert (left - right).smallest() == min(difference, default=None)


def test_an_exception_that_two_ranges_cover_together_is_seen() -> None:
    child = BoxSet.of([Box(4, "TCP", (0, 31), (1, 5))])
    halves = BoxSet.of([Box(4, "TCP", (0, 15), (1, 5)), Box(4, "TCP", (16, 31), (1, 5))])
    assert child <= halves
    assert child - BoxSet.of([Box(4, "TCP", (0, 31), (1, 2)), Box(4, "TCP", (4, 4), (3, 5))]) == BoxSet.of(
        [Box(4, "TCP", (0, 3), (3, 5)), Box(4, "TCP", (5, 31), (3, 5))]
    )


@settings(deadline=None, max_examples=3)
@given(st.integers(0, 2**32))
def test_hundreds_of_boxes_on_the_real_address_space(seed: int) -> None:
    many = [
        Box(
            4,
            "TCP",
            (start := (seed + number * 7_919 * 65_536) % 2**32, min(start + 99_999, 2**32 - 1)),
            (1, number + 1),
        )
        for number in range(300)
    ]
    box_set = BoxSet.of(many)
    assert box_set == union([BoxSet.of([box]) for box in reversed(many)])
    assert not box_set - box_set
    assert BoxSet.of(many[:150]) <= box_set
    assert box_set - BoxSet.of(many[:150]) <= BoxSet.of(many[150:])
