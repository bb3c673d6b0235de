"""Tests of the retirement of old releases: one step at a time, and none while a release may be needed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from agentenv.core.classes.retirement import SETTLED, Claim, ClassState, Pool, Template, current_pools, plan

NOW = datetime(2026, 11, 2, 9, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=1)
NEW = Pool("box-new", "stable", desired=3, ready=3, members=3)
OLD = Pool("box-old", "stable", desired=3, ready=3, members=3)
MARKED = replace(OLD, retiring=NOW - SETTLED)
EMPTY = replace(MARKED, desired=0, ready=0, members=0)
TEMPLATE = Template("box-old", "stable", NOW - SETTLED)


def state(*pools: Pool, claims: tuple[Claim, ...] = (), templates: tuple[Template, ...] = ()) -> ClassState:
    return ClassState({"stable": ["box-new"]}, pools, templates, claims)


def claim(pool: str = "box-old", created: datetime = LONG_AGO, sandbox: str | None = "box-old-1") -> Claim:
    return Claim("c", pool, created, sandbox)


def steps(state_: ClassState) -> list[tuple[str, str]]:
    return [(step.do, step.name) for step in plan(state_, NOW).steps]


def waits(state_: ClassState) -> str:
    (wait,) = plan(state_, NOW).waits
    return wait.why


def test_current_releases_are_unchanged() -> None:
    assert plan(state(NEW, templates=(Template("box-new"),)), NOW) == plan(state(replace(NEW, ready=0)), NOW)
    assert steps(state(NEW)) == []


@pytest.mark.parametrize("successor", [(), (replace(NEW, ready=2),), (replace(NEW, observed=False),)])
def test_an_old_release_stays_until_the_new_one_is_full(successor: tuple[Pool, ...]) -> None:
    assert steps(state(OLD, *successor)) == []
    assert "replaces it" in waits(state(OLD, *successor))


def test_all_shards_of_the_new_release_must_be_full() -> None:
    two = ClassState({"stable": ["box-new", "box-new-1"]}, [OLD, NEW, replace(NEW, name="box-new-1", ready=1)])
    assert steps(two) == []
    full = replace(two, pools=[OLD, NEW, replace(NEW, name="box-new-1")])
    assert steps(full) == [("mark", "box-old")]


def test_a_release_is_replaced_within_its_channel() -> None:
    beside = replace(OLD, channel="next")
    both = ClassState({"stable": ["box-new"], "next": ["box-newer"]}, [NEW, beside])
    assert steps(both) == []
    # A channel that nobody names any more has nothing to wait for.
    assert steps(state(replace(NEW, ready=0), beside)) == [("mark", "box-old")]


def test_a_pool_with_a_scheduled_size_of_zero_is_full() -> None:
    assert steps(state(OLD, replace(NEW, desired=0, ready=0, members=0))) == [("mark", "box-old")]


def test_a_new_release_has_its_scheduled_size_before_the_old_one_is_deleted() -> None:
    small = replace(NEW, desired=0, ready=0, members=0)
    found = plan(replace(state(OLD, small), members_now=10), NOW)
    assert [(step.do, step.name, step.members) for step in found.steps] == [("scale", "box-new", 10)]
    assert "filling: 0 of 10" in found.waits[0].why
    filling = replace(small, desired=10, ready=9)
    assert steps(replace(state(OLD, filling), members_now=10)) == []
    assert steps(replace(state(OLD, replace(filling, ready=10)), members_now=10)) == [("mark", "box-old")]


def test_the_scheduled_size_is_divided_over_shards() -> None:
    two = ClassState({"stable": ["box-new", "box-new-1"]}, [OLD, NEW, replace(NEW, name="box-new-1")], members_now=7)
    assert [(step.name, step.members) for step in plan(two, NOW).steps] == [("box-new", 4)]
    # Without an old release, or once it is marked, sizes are the schedule's alone.
    assert steps(replace(state(NEW), members_now=7)) == []
    assert steps(replace(state(MARKED, NEW), members_now=7)) == [("empty", "box-old")]
    # Nor has an old pool that is empty anything to be taken over.
    assert ("scale", "box-new") not in steps(replace(state(replace(OLD, desired=0), NEW), members_now=7))


def test_a_marked_release_is_emptied_while_the_new_pool_refills() -> None:
    assert steps(state(MARKED, replace(NEW, ready=0))) == [("empty", "box-old")]


def test_claims_from_before_the_mark_are_served() -> None:
    assert "new claims may still name it" in waits(
        state(NEW, replace(MARKED, retiring=NOW - SETTLED + timedelta(seconds=1)))
    )
    fresh = claim(created=NOW - timedelta(seconds=5), sandbox=None)
    assert "waits for one of its members" in waits(state(NEW, MARKED, claims=(fresh,)))
    # Nor does one that will never get any hold it up.
    assert steps(state(NEW, MARKED, claims=(claim(sandbox=None),))) == [("empty", "box-old")]


@pytest.mark.parametrize("going", [replace(EMPTY, members=1), replace(EMPTY, observed=False)])
def test_pool_stays_until_its_last_member_is_deleted(going: Pool) -> None:
    assert steps(state(NEW, going, templates=(TEMPLATE,))) == []


def test_pool_and_template_are_deleted_after_the_last_claim() -> None:
    held = state(NEW, EMPTY, claims=(claim(), claim()), templates=(TEMPLATE,))
    assert steps(held) == []
    assert waits(held) == "2 claims name it"
    assert steps(state(NEW, EMPTY, claims=(claim("box-new"),), templates=(TEMPLATE,))) == [("remove-pool", "box-old")]
    assert steps(state(NEW, templates=(TEMPLATE,))) == [("remove-template", "box-old")]
    assert steps(state(NEW, templates=(replace(TEMPLATE, retiring=None),))) == [("mark", "box-old")]
    assert "new claims may still name it" in waits(state(NEW, templates=(replace(TEMPLATE, retiring=NOW),)))


def test_a_deleted_pool_is_restored_for_a_late_claim() -> None:
    assert steps(state(NEW, claims=(claim(sandbox=None),), templates=(TEMPLATE,))) == [("restore-pool", "box-old")]


COLD = Pool("box-old-cold", "stable", template="box-old")


def test_the_cold_pool_of_a_current_release_is_current() -> None:
    assert steps(state(NEW, Pool("box-new-cold", "stable", template="box-new"))) == []


def test_the_cold_pool_of_an_old_release_is_deleted_before_its_template() -> None:
    assert steps(state(NEW, COLD, templates=(TEMPLATE,))) == [("mark", "box-old-cold")]
    marked = replace(COLD, retiring=NOW - SETTLED)
    named = (claim("box-old-cold"),)
    assert steps(state(NEW, marked, claims=named, templates=(TEMPLATE,))) == []
    assert steps(state(NEW, marked, templates=(TEMPLATE,))) == [("remove-pool", "box-old-cold")]
    assert steps(state(NEW, EMPTY, marked, claims=named, templates=(TEMPLATE,))) == [("remove-pool", "box-old")]


def test_a_deleted_cold_pool_is_restored_for_a_late_claim() -> None:
    named = (claim("box-old-cold", sandbox=None),)
    assert steps(state(NEW, claims=named, templates=(TEMPLATE,))) == [("restore-pool", "box-old-cold")]
    assert ("restore-pool", "box-old-cold") in steps(state(NEW, EMPTY, claims=named, templates=(TEMPLATE,)))


def test_a_release_that_is_named_again_is_unmarked() -> None:
    back = replace(NEW, retiring=NOW)
    assert steps(state(back, templates=(Template("box-new", retiring=NOW),))) == [("unmark", "box-new")]
    assert steps(state(NEW, templates=(Template("box-new", retiring=NOW),))) == [("unmark", "box-new")]


def test_current_pools_are_read_from_the_parameters() -> None:
    text = "stable/box-a,stable/box-a-1,next/box-b"
    assert current_pools(text) == {"stable": ["box-a", "box-a-1"], "next": ["box-b"]}
    assert current_pools("") == {}
