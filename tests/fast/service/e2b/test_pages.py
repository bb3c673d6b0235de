"""Pages of a list: together they are the list, in either order, also while sandboxes come and go."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.e2b.sandboxes import metadata_filter, page

START = datetime(2026, 11, 19, tzinfo=UTC)
AGES = st.lists(st.integers(0, 5), max_size=30)


def _workspaces(ages: list[int]) -> list[Workspace]:
    return [
        Workspace(f"w-{number}", "u-1", "box", "session", "running", created=START + timedelta(seconds=age))
        for number, age in enumerate(ages)
    ]


@given(AGES, st.integers(1, 10), st.sampled_from(["asc", "desc"]))
def test_pages_are_the_list(ages: list[int], limit: int, order: str) -> None:
    workspaces, rows, token = _workspaces(ages), list[Workspace](), None
    while True:
        chosen, token = page(workspaces, order, limit, token)
        assert len(chosen) <= limit
        rows += chosen
        if token is None:
            break
    started = [each.created for each in rows]
    assert started == sorted(started, reverse=order == "desc")  # type: ignore[type-var]
    assert sorted(each.id for each in rows) == sorted(each.id for each in workspaces)


@given(AGES.filter(lambda ages: len(ages) > 4), st.integers(0, 3))
def test_a_sandbox_that_goes_moves_no_page(ages: list[int], gone: int) -> None:
    workspaces = _workspaces(ages)
    first, token = page(workspaces, "desc", 2, None)
    left = [each for each in workspaces if each.id != f"w-{gone}"]
    rest, _ = page(left, "desc", 100, token)
    assert {each.id for each in rest} == {each.id for each in left} - {each.id for each in first}


@given(st.dictionaries(st.text(), st.text(), max_size=4))
def test_metadata_as_the_clients_quote_it(metadata: dict[str, str]) -> None:
    from urllib.parse import quote, urlencode

    quoted = urlencode({quote(key): quote(value) for key, value in metadata.items()})
    assert metadata_filter(quoted) == metadata
