"""What this replica has been told of: workspaces for lists, volumes and pools for what comes next. Never the truth.

It is fed by informers and kept small: a row for each object, with what lists and choices ask for. Whatever is changed,
handed over or refused to somebody is read from the API server first, or named by the version that was seen here.
"""

from __future__ import annotations

import asyncio
import builtins
import sys
from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import CHANNEL_LABEL, TASK_LABEL
from agentenv.core.classes.retirement import RELEASES_KEY, RETIRING
from agentenv.core.values.object_fields import number, required, section, strings, text
from agentenv.core.workspaces.records import workspace_of_claim, workspace_of_volume
from agentenv.core.workspaces.workspace import Filter, Page, Workspace
from agentenv.service.kube.client import Document

Key = tuple[str, str]
_NOTHING: Mapping[str, Any] = {}
# Of so many whose claims went it is known that they were there; whoever comes back, mostly does so soon.
MOST_LEFT = 10_000


@dataclass(frozen=True, slots=True)
class VolumeRow:
    """A volume of a class: whose it is, and whether it would stay."""

    name: str
    uid: str
    version: str
    claim: str  # the claim of a volume that it is bound to, and that one's namespace and uid
    namespace: str
    claim_uid: str
    bound: bool
    retained: bool
    labels: Mapping[str, str]
    notes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PoolRow:
    """A warm pool of a class."""

    name: str
    class_name: str
    channel: str
    wanted: int
    ready: int
    retiring: bool
    task: bool


class ClusterView:
    """All of it, by what it is looked up by."""

    def __init__(self) -> None:
        self._rows: dict[Key, Workspace] = {}  # of claims by namespace and name, of volumes by their name alone
        self._by_id: dict[str, set[Key]] = {}
        self._ids: list[str] = []
        self._seen_by: dict[str, set[str]] = {}  # owner, or whom it is shared with -> ids
        self._left: dict[str, None] = {}  # ids whose claims have gone, the latest last
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        self._volumes: dict[str, VolumeRow] = {}
        self._volume_of: dict[Key, str] = {}
        self._pools: dict[Key, PoolRow] = {}
        self._current: dict[str, dict[str, tuple[str, ...]]] = {}

    # What informers tell.

    def put_claim(self, claim: Document) -> None:
        """A claim is there, or has changed."""
        key = (required(claim, "metadata", "namespace"), required(claim, "metadata", "name"))
        found = workspace_of_claim(claim)
        if found is None:
            self._forget(key)
        else:
            self._remember(key, _small(found))

    def drop_claim(self, key: Key) -> None:
        """A claim is gone."""
        before = self._rows.get(key)
        if before is not None:
            self._left.pop(before.id, None)
            self._left[before.id] = None
            if len(self._left) > MOST_LEFT:
                del self._left[next(iter(self._left))]
        self._forget(key)

    def put_volume(self, volume: Document) -> None:
        """A volume is there, or has changed."""
        about, spec = section(volume, "metadata"), section(volume, "spec")
        name = required(volume, "metadata", "name")
        whose = section(spec, "claimRef")
        claim, namespace = text(whose, "name"), sys.intern(text(whose, "namespace"))
        self._volumes[name] = VolumeRow(
            name=name,
            uid=required(volume, "metadata", "uid"),
            version=required(volume, "metadata", "resourceVersion"),
            claim=claim,
            namespace=namespace,
            claim_uid=text(whose, "uid"),
            bound=section(volume, "status").get("phase") == "Bound",
            retained=spec.get("persistentVolumeReclaimPolicy") == "Retain",
            labels=strings(about, "labels") or _NOTHING,
            notes=strings(about, "annotations") or _NOTHING,
        )
        if claim:
            self._volume_of[namespace, claim] = name
        deleted = workspace_of_volume(volume)
        if deleted is None:
            self._forget(("", name))
        else:
            self._remember(("", name), _small(deleted))

    def drop_volume(self, key: Key) -> None:
        """A volume is gone."""
        row = self._volumes.pop(key[1], None)
        if row and self._volume_of.get((row.namespace, row.claim)) == row.name:
            del self._volume_of[row.namespace, row.claim]
        self._forget(("", key[1]))

    def put_pool(self, pool: Document) -> None:
        """A pool is there, or has changed."""
        about = section(pool, "metadata")
        labels = section(about, "labels")
        namespace, name = required(pool, "metadata", "namespace"), required(pool, "metadata", "name")
        self._pools[namespace, name] = PoolRow(
            name=name,
            class_name=text(labels, CLASS_LABEL),
            channel=text(labels, CHANNEL_LABEL),
            wanted=number(section(pool, "spec"), "replicas"),
            ready=number(section(pool, "status"), "readyReplicas"),
            retiring=RETIRING in section(about, "annotations"),
            task=TASK_LABEL in labels,
        )

    def drop_pool(self, key: Key) -> None:
        """A pool is gone."""
        self._pools.pop(key, None)

    def put_constraints(self, configuration: Document) -> None:
        """What is said of a class: among it, the pools that its stack names."""
        found: dict[str, list[str]] = {}
        for entry in text(section(configuration, "data"), RELEASES_KEY).split(","):
            channel, _, name = entry.partition("/")
            if name:
                found.setdefault(channel, []).append(name)
        named = {channel: tuple(names) for channel, names in found.items()}
        self._current[required(configuration, "metadata", "namespace")] = named

    def drop_constraints(self, key: Key) -> None:
        """A class is gone."""
        self._current.pop(key[0], None)

    # What is asked.

    def find(self, id_: str) -> Workspace | None:
        """A workspace as it was told of last; the one that stands before what was deleted."""
        keys = self._by_id.get(id_)
        if keys is None:
            return None
        rows = [self._rows[key] for key in keys]
        return rows[0] if len(rows) == 1 else min(rows, key=_standing_first)

    def knew(self, id_: str) -> bool:
        """Whether there is, or was not long ago, a workspace of that name: what it left behind may be told of late."""
        return id_ in self._by_id or id_ in self._left

    def deleted(self, id_: str) -> Workspace | None:
        """A workspace of which only the data is there."""
        rows = [self._rows[key] for key in self._by_id.get(id_, ()) if not key[0]]
        return min(rows, key=lambda row: row.volume or "", default=None)

    def list(self, chosen: Filter, limit: int, after: str | None) -> Page:
        """A page of workspaces by id."""
        found: list[Workspace] = []
        for id_ in self._ids_for(chosen, after):
            row = self.find(id_)
            if row is not None and _matches(row, chosen):
                if len(found) == limit:
                    return Page(tuple(found), found[-1].id)
                found.append(row)
        return Page(tuple(found))

    def standing(self) -> builtins.list[Workspace]:
        """All that have a claim."""
        return [row for (namespace, _), row in self._rows.items() if namespace]

    def counted(self) -> Counter[tuple[str, str]]:
        """How many there are, by class and state."""
        return Counter((row.class_name, row.state) for row in self._rows.values())

    def home(self, namespace: str, volume_claim: str) -> VolumeRow | None:
        """The volume that is for a claim of one."""
        name = self._volume_of.get((namespace, volume_claim))
        return self._volumes.get(name) if name else None

    def pools(self, namespace: str) -> list[PoolRow]:
        """The pools of a class."""
        return [row for (where, _), row in self._pools.items() if where == namespace]

    def current(self, namespace: str, channel: str) -> tuple[str, ...]:
        """The pools that a class's stack names for a channel."""
        return self._current.get(namespace, {}).get(channel, ())

    async def change(self, id_: str, seconds: float) -> None:
        """Wait until something is told of a workspace, or so long."""
        told = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(id_, set()).add(told)
        try:
            async with asyncio.timeout(seconds):
                await told
        except TimeoutError:
            pass
        finally:
            waiting = self._waiting.get(id_, set())
            waiting.discard(told)
            if not waiting:
                self._waiting.pop(id_, None)

    def _remember(self, key: Key, row: Workspace) -> None:
        before = self._rows.get(key)
        self._rows[key] = row
        if before is None:
            keys = self._by_id.get(row.id)
            if keys is None:
                keys = self._by_id[row.id] = set()
                insort(self._ids, row.id)
            keys.add(key)
        if before is None or before.shared != row.shared or before.owner != row.owner:
            if before is not None:
                self._unindex(before)
            self._index(row.id)
        self._tell(row.id)

    def _forget(self, key: Key) -> None:
        before = self._rows.pop(key, None)
        if before is None:
            return
        keys = self._by_id[before.id]
        keys.discard(key)
        self._unindex(before)
        if keys:
            self._index(before.id)
        else:
            del self._by_id[before.id]
            place = bisect_right(self._ids, before.id) - 1
            del self._ids[place]
        self._tell(before.id)

    def _index(self, id_: str) -> None:
        for key in self._by_id[id_]:
            row = self._rows[key]
            for who in (row.owner, *row.shared):
                self._seen_by.setdefault(who, set()).add(id_)

    def _unindex(self, row: Workspace) -> None:
        for who in (row.owner, *row.shared):
            ids = self._seen_by.get(who, set())
            ids.discard(row.id)
            if not ids:
                self._seen_by.pop(who, None)

    def _tell(self, id_: str) -> None:
        for told in self._waiting.pop(id_, ()):
            if not told.done():
                told.set_result(None)

    def _ids_for(self, chosen: Filter, after: str | None) -> Iterator[str]:
        narrow = chosen.reader or chosen.owner
        if narrow:
            ids = sorted(self._seen_by.get(narrow, ()))
            yield from ids[bisect_right(ids, after) if after else 0 :]
        else:
            yield from self._ids[bisect_right(self._ids, after) if after else 0 :]


def _standing_first(row: Workspace) -> tuple[bool, bool]:
    return row.state == "deleted", row.state == "deleting"


def _small(row: Workspace) -> Workspace:
    """The row with its often repeated words stored once."""
    return replace(
        row,
        class_name=sys.intern(row.class_name),
        mode=row.mode,
        pool=sys.intern(row.pool),
        owner=sys.intern(row.owner),
        created_by=sys.intern(row.created_by),
        labels=row.labels or _NOTHING,
        shared=row.shared or _NOTHING,
    )


def _matches(row: Workspace, chosen: Filter) -> bool:
    if row.state == "deleted" and not chosen.deleted and chosen.state != "deleted":
        return False
    return (
        # The index holds whoever any row of its id names: what stands in this one counts.
        (
            chosen.reader is None
            or row.owner == chosen.reader
            or (chosen.reader in row.shared and row.state != "deleted")
        )
        and (chosen.owner is None or row.owner == chosen.owner)
        and (chosen.class_name is None or row.class_name == chosen.class_name)
        and (chosen.state is None or row.state == chosen.state)
        and (chosen.mode is None or row.mode == chosen.mode)
        and (chosen.task is None or row.task == chosen.task)
        and all(row.labels.get(key) == value for key, value in chosen.labels.items())
    )
