"""Grants of workspaces are a lattice: no descendant has more than any of its ancestors."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any, get_args

from hypothesis import given
from hypothesis import strategies as st

from agentenv.config.sections.capabilities import Word
from agentenv.config.sections.classes import SizeName
from agentenv.core.lifecycle.clock_skew import SKEW
from agentenv.core.lifecycle.deadline import end_decision
from agentenv.core.lifecycle.limits import Limits
from agentenv.core.workspaces.grants import EVERYTHING, NOTHING, Grants, format_grants, read_grants
from agentenv.core.workspaces.workspace import CreateRequest, Workspace

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
PORTS, WORDS, SIZES = (80, 3000, 8080), get_args(Word), get_args(SizeName)


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


def moments() -> st.SearchStrategy[datetime]:
    return st.integers(0, 10).map(lambda hours: NOW + timedelta(hours=hours))


grants = st.builds(
    Grants,
    maybe(st.frozensets(st.sampled_from(PORTS))),
    maybe(st.frozensets(st.sampled_from(WORDS))),
    maybe(st.sampled_from(SIZES)),
    maybe(moments()),
)


def allowed(having: Grants) -> set[tuple[str, Any]]:
    """Return all that a workspace with these grants may have."""
    return {
        *(("port", port) for port in PORTS if having.allows_port(port)),
        *(("word", word) for word in WORDS if having.capabilities is None or word in having.capabilities),
        *(("size", size) for size in SIZES if having.allows_size(size)),
        *(("hour", hour) for hour in range(12) if having.ends is None or NOW + timedelta(hours=hour) <= having.ends),
    }


@given(grants, grants, grants)
def test_grants_are_a_lattice(first: Grants, second: Grants, third: Grants) -> None:
    assert first.meet(second) == second.meet(first)
    assert first.meet(second.meet(third)) == first.meet(second).meet(third)
    assert first.meet(first) == first == first.meet(EVERYTHING)
    assert allowed(first.meet(second)) == allowed(first) & allowed(second)


@given(st.lists(grants, min_size=1, max_size=6))
def test_descendant_has_no_more_than_any_ancestor(chain: list[Grants]) -> None:
    effective = [reduce(Grants.meet, chain[: n + 1]) for n in range(len(chain))]
    for ancestor in effective:
        assert allowed(effective[-1]) <= allowed(ancestor)
        assert effective[-1].beyond(ancestor) == ()


@given(grants, grants)
def test_named_parts_beyond_a_parent_are_found(child: Grants, parent: Grants) -> None:
    beyond = child.beyond(parent)
    named = [part for part in ("ports", "capabilities", "size", "ends") if getattr(child, part) is not None]
    assert set(beyond) <= set(named)
    whole = Grants(**{part: getattr(child, part) if part in named else getattr(parent, part) for part in SLOTS})
    assert (allowed(whole) <= allowed(parent)) == (not beyond)


SLOTS = ("ports", "capabilities", "size", "ends")


@given(grants)
def test_grants_are_read_as_they_are_stored(having: Grants) -> None:
    assert read_grants(format_grants(having)) == having


def test_unreadable_grants_allow_nothing() -> None:
    for text in ("", "{", "[]", '{"ports":"80"}', '{"ports":[true]}', '{"ports":[0]}', '{"size":"huge"}', '{"more":1}'):
        assert read_grants(text) == NOTHING, text
    for text in ('{"capabilities":["all"]}', '{"ends":"soon"}', '{"ports":[["80"]]}', '{"size":["small"]}'):
        assert read_grants(text) == NOTHING, text
    assert not any((NOTHING.allows_port(80), NOTHING.allows_size("medium"), NOTHING.allows_identity()))


def test_workspace_is_deleted_when_its_granted_life_is_over() -> None:
    workspace = Workspace("w-1", "u", "box", "user", "running", created=NOW, grants=Grants(ends=NOW - SKEW))
    limits = Limits(retain_deleted_for=timedelta(days=30))
    decision = end_decision(workspace, limits, NOW)
    assert (decision.do, decision.why) == ("delete", "the life that it was granted is over")
    assert end_decision(workspace, limits, NOW - timedelta(seconds=1)).do == "nothing"


def test_repeated_request_may_have_another_end_and_no_other_grants() -> None:
    def fingerprint(having: Grants) -> str:
        return CreateRequest("u", "k", "box", "u", grants=having).fingerprint

    assert fingerprint(Grants(ends=NOW)) == fingerprint(EVERYTHING)
    assert fingerprint(Grants(ports=frozenset({80}))) != fingerprint(EVERYTHING)
