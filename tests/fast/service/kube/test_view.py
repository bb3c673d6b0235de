"""The cached view: pages without gaps or duplicates, for users with access, in any order of events."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as some

from agentenv.core.workspaces.workspace import Filter, Page, Workspace
from agentenv.service.kube.view import ClusterView
from tests.fast.service.kube.apiserver import Object

OWNERS = ("u-a", "u-b", "u-c")


def claim(name: str, owner: str = "u-a", space: str = "sandbox-standard", **notes: str) -> Object:
    about = {
        "name": name,
        "namespace": space,
        "uid": f"{space}/{name}",
        "resourceVersion": "1",
        "labels": {"sandbox.users.io/user": owner},
        "annotations": {f"sandbox.users.io/{key}": value for key, value in notes.items()},
    }
    return {"metadata": about, "spec": {"warmPoolRef": {"name": "standard-a"}}}


def pages(view: ClusterView, chosen: Filter, limit: int) -> list[str]:
    found: list[str] = []
    after: str | None = None
    while True:
        page = view.list(chosen, limit, after)
        assert len(page.workspaces) <= limit
        found += [workspace.id for workspace in page.workspaces]
        after = page.after
        if after is None:
            return found


STEPS = some.lists(
    some.tuples(
        some.sampled_from([f"w-{letter}" for letter in "abcdefgh"]),
        some.sampled_from(OWNERS),
        some.sampled_from(["put", "put", "drop"]),
        some.sampled_from(["", '{"u-b":"ro"}', '{"u-c":"rw"}', "not json"]),
    ),
    max_size=60,
)


@given(STEPS, some.integers(1, 5))
def test_pages_have_existing_workspaces_that_the_reader_may_see(steps: list[tuple[str, ...]], limit: int) -> None:
    view, truth = ClusterView(), dict[str, tuple[str, str]]()
    for name, owner, what, shared in steps:
        if what == "put":
            view.put_claim(claim(name, owner, shared=shared))
            truth[name] = (owner, shared)
        else:
            view.drop_claim(("sandbox-standard", name))
            truth.pop(name, None)
    assert pages(view, Filter(), limit) == sorted(truth)
    for reader in OWNERS:
        theirs = sorted(name for name, (owner, shared) in truth.items() if owner == reader or f'"{reader}"' in shared)
        assert pages(view, Filter(reader=reader), limit) == theirs
        own = sorted(name for name, (owner, _) in truth.items() if owner == reader)
        assert pages(view, Filter(owner=reader), limit) == own
    assert sum(view.count_by_state().values()) == len(truth)


def test_existing_workspaces_precede_deleted_ones() -> None:
    view = ClusterView()
    volume: Object = {
        "metadata": {
            "name": "pvc-1",
            "uid": "1",
            "resourceVersion": "1",
            "labels": {"sandbox.users.io/user": "u-a", "sandbox.users.io/workspace": "w-a"},
            "annotations": {"sandbox.users.io/deleted-at": "2026-11-18T20:00:00Z"},
        },
        "spec": {"claimRef": {"namespace": "sandbox-standard", "name": "home-x"}},
        "status": {"phase": "Released"},
    }
    view.put_volume(volume)
    assert _state(view) == "deleted"
    view.put_claim(claim("w-a"))
    assert (_state(view), pages(view, Filter(deleted=True), 9)) == ("creating", ["w-a"])
    view.drop_claim(("sandbox-standard", "w-a"))
    assert _state(view) == "deleted"
    del volume["metadata"]["annotations"]["sandbox.users.io/deleted-at"]
    view.put_volume(volume)
    assert view.find("w-a") is None


def test_a_user_who_lost_access_is_not_in_the_index() -> None:
    view = ClusterView()
    for turn in range(100):
        view.put_claim(claim("w-a", shared=json.dumps({f"u-{turn}-{number}": "ro" for number in range(64)})))
    assert len(view._ids_by_reader) == 65
    view.put_claim(claim("w-a", owner="u-b"))
    assert list(view._ids_by_reader) == ["u-b"]
    view.drop_claim(("sandbox-standard", "w-a"))
    assert not view._ids_by_reader


def test_a_share_in_one_of_two_rows_is_enough() -> None:
    view = ClusterView()
    view.put_claim(claim("w-a", shared='{"u-b":"ro"}'))
    view.put_claim(claim("w-a", space="sandbox-other", shared='{"u-c":"ro"}'))
    view.put_claim(claim("w-a", space="sandbox-other"))
    assert view._ids_by_reader.keys() == {"u-a", "u-b"}


def test_finished_waits_leave_nothing_in_memory() -> None:
    view = ClusterView()

    async def wait() -> None:
        async with asyncio.TaskGroup() as group:
            long = [group.create_task(view.wait_for_change("w-a", 60)) for _ in range(2)]
            await view.wait_for_change("w-a", 0)
            await asyncio.gather(*(view.wait_for_change(f"w-{number}", 0) for number in range(100)))
            assert list(view._waiting) == ["w-a"]
            view.put_claim(claim("w-a"))
            await asyncio.gather(*long)

    asyncio.run(wait())
    assert not view._waiting


def test_a_claim_with_invalid_annotations_is_still_listed() -> None:
    view = ClusterView()
    spoilt = {"leases": "[1,{}]", "shared": "[]", "budget": "lots", "idle-after": "-1", "deadline": "soon"}
    view.put_claim(claim("w-a", **spoilt))
    found = view.find("w-a")
    assert found is not None
    fields: dict[str, Any] = {"leases": (), "shared": {}, "budget": None, "idle_after": None, "deadline": None}
    assert found == replace(found, **fields)


def test_claim_with_a_too_deeply_nested_annotation_is_listed() -> None:
    view = ClusterView()
    view.put_claim(claim("w-a", leases="[" * 20_000, shared='{"a":' * 20_000))
    found = view.find("w-a")
    assert found is not None
    assert (found.leases, found.shared) == ((), {})


def _state(view: ClusterView) -> str:
    found: Workspace | None = view.find("w-a")
    return found.state if found else "gone"


def test_a_long_scan_pauses_and_finds_the_same_page() -> None:
    view = ClusterView()
    for number in range(20):
        view.put_claim(claim(f"w-{number:02d}", "u-a" if number % 2 else "u-b"))
    chosen = Filter(labels={"none": "such"})
    assert list(view.scan(chosen, 5, None, 4)) == [None] * 5 + [Page(())]
    *pauses, page = view.scan(Filter(), 8, None, 4)
    # What changes during a pause does not disturb it.
    assert (len(pauses), page) == (2, view.list(Filter(), 8, None))
    steps = view.scan(Filter(), 8, None, 4)
    next(steps)
    view.drop_claim(("sandbox-standard", "w-05"))
    found = [each for each in steps if each is not None]
    assert [row.id for row in found[0].workspaces] == [f"w-{number:02d}" for number in (0, 1, 2, 3, 4, 6, 7, 8)]
