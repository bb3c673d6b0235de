"""Swarms on behalf of requests: those that take their time hold up nobody else, and what went wrong is forgotten."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

import pytest

from service.api.swarming import MOST_AT_ONCE, MOST_OF_ONE, MOST_REMEMBERED, Swarming, Told, task_name
from service.backend.view import View
from service.catalog import Catalog
from service.cluster import CLAIMS, QUOTAS, SANDBOXES, VOLUME_CLAIMS, VOLUMES, Document, RefusedError
from service.problems import Problem
from tests.fast.service.backend.stage import settings_of
from tests.fast.service.shelf import Shelf

SPACE = "sandbox-box"
CATALOG = Catalog(settings_of({"name": "box", "storage": {"kind": "shared", "size": "5Gi"}}))


class Slow(Shelf):
    """One that answers nobody before it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.let = threading.Event()

    def find(self, kind: Any, name: str, namespace: str | None = None) -> Document | None:
        self.let.wait(20)
        if kind is QUOTAS:
            return {"status": {"hard": {"pods": "0"}, "used": {"pods": "0"}}}
        return super().find(kind, name, namespace)

    def list(
        self, kind: Any, namespace: str | None = None, labels: Mapping[str, str | None] | None = None
    ) -> Iterator[Document]:
        self.let.wait(20)
        return super().list(kind, namespace, labels)


def ask(swarming: Swarming, owner: str, task: str, wait: float = 0) -> Any:
    of_class = CATALOG.get("box")
    return swarming.make(owner, of_class, task, 1, fit=False, channel="stable", deadline=None, wait=wait)


def test_swarms_that_take_their_time_hold_up_nobody_else() -> None:
    slow = Slow()
    swarming = Swarming(slow, CATALOG, View())

    async def play() -> None:
        for number in range(MOST_AT_ONCE):
            told: Told = await ask(swarming, f"u-{number // MOST_OF_ONE}", f"t-{number}")
            assert told.state == "creating"
        # What others wait for: budgets, the ledger, whoever comes back.
        async with asyncio.timeout(10):
            await asyncio.to_thread(lambda: None)
        for owner in ("u-0", "u-99"):
            with pytest.raises(Problem) as refused:
                await ask(swarming, owner, "one-more")
            assert refused.value.kind == "too-many-requests"
        # To ask again for one that is on its way is no other one.
        assert (await ask(swarming, "u-0", "t-0")).state == "creating"
        slow.let.set()

    try:
        asyncio.run(play())
    finally:
        slow.let.set()


def test_one_owner_does_not_take_the_place_of_all() -> None:
    slow = Slow()
    swarming = Swarming(slow, CATALOG, View())

    async def play() -> None:
        for number in range(MOST_OF_ONE):
            await ask(swarming, "u-0", f"t-{number}")
        with pytest.raises(Problem, match=f"{MOST_OF_ONE} swarms of yours"):
            await ask(swarming, "u-0", "one-more")
        assert (await ask(swarming, "u-1", "t-0")).state == "creating"
        slow.let.set()

    try:
        asyncio.run(play())
    finally:
        slow.let.set()


def test_of_what_went_wrong_only_so_much_is_remembered() -> None:
    slow = Slow()
    slow.let.set()
    swarming = Swarming(slow, CATALOG, View())

    async def play() -> None:
        for number in range(MOST_REMEMBERED + 1):
            with pytest.raises(Problem, match="no room"):
                await ask(swarming, "u-0", f"t-{number}", wait=20)
        assert swarming.find("u-0", f"t-{MOST_REMEMBERED}").state == "failed"
        with pytest.raises(Problem, match="no swarm"):
            swarming.find("u-0", "t-0")
        assert task_name("u-0", "t-0") != task_name("u-1", "t-0")

    asyncio.run(play())


class Busy(Shelf):
    """One in which what is claimed is there at once, and that cannot change volumes just now."""

    def __init__(self) -> None:
        super().__init__()
        self.busy = 3
        self.claimed: list[Document] = []

    def make(self, kind: Any, document: Document) -> bool:
        made = super().make(kind, document)
        if made and kind is CLAIMS:
            claim = self.things[CLAIMS, SPACE, document["metadata"]["name"]]
            name = claim["metadata"]["name"]
            sandbox = {"name": f"box-{name}"}
            claim["status"] = {"conditions": [{"type": "Ready", "status": "True"}], "sandbox": sandbox}
            owners = [{"uid": claim["metadata"]["uid"]}]
            self.put(SANDBOXES, {"metadata": {**sandbox, "namespace": SPACE, "ownerReferences": owners}})
            home = {"name": f"home-box-{name}", "namespace": SPACE, "uid": f"home-{name}"}
            self.put(VOLUME_CLAIMS, {"metadata": home, "spec": {"volumeName": f"pv-{name}"}})
            spec = {"persistentVolumeReclaimPolicy": "Delete", "claimRef": {"uid": home["uid"]}}
            self.put(VOLUMES, {"metadata": {"name": f"pv-{name}"}, "spec": spec})
            self.claimed.append(deepcopy(claim))
        return made

    def change(self, kind: Any, read: Document, changes: Document) -> bool:
        if kind is VOLUMES and self.busy:
            self.busy -= 1
            raise RefusedError("too many requests", 429)
        return super().change(kind, read, changes)


def test_a_server_that_is_busy_for_a_moment_costs_nobody_their_swarm() -> None:
    shelf = Busy()
    view = View()
    swarming = Swarming(shelf, CATALOG, view)

    async def play() -> None:
        making = asyncio.ensure_future(ask(swarming, "u-0", "t-0", wait=20))
        while not (shelf.claimed or making.done()):
            await asyncio.sleep(0.01)
        for claim in shelf.claimed:
            view.put_claim(claim)
        assert (await making).state == "running"

    asyncio.run(play())
    (kept,) = [one for key, one in shelf.things.items() if key[0] is VOLUMES]
    assert (shelf.busy, kept["spec"]["persistentVolumeReclaimPolicy"]) == (0, "Retain")
