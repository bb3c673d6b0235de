"""A cached view of the cluster: workspaces for lists, and volumes and pools for the next requests.

Informers update it. It has a small row for each object, with the fields that lists and choices need. It is never the
source of truth. Before anything is changed, handed over or refused, it is read from the API server, or its resource
version is required.
"""

from __future__ import annotations

import asyncio
import builtins
import sys
from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import CHANNEL_LABEL, CLAIM_UID_LABEL, TASK_LABEL, WORKSPACE_LABEL
from agentenv.core.classes.retirement import RELEASES_KEY, RETIRING
from agentenv.core.values.object_fields import number, required, rows, section, strings, text
from agentenv.core.workspaces.pod_report import PodReport, pod_report, with_report
from agentenv.core.workspaces.records import workspace_of_claim, workspace_of_volume
from agentenv.core.workspaces.workspace import Filter, Page, Workspace
from agentenv.service.kube.client import Document
from agentenv.service.kube.workspace_counts import WorkspaceCounts
from agentenv.service.workspaced.client import endpoint_of, workspaced_port
from agentenv.service.workspaces.backend_protocol import Endpoint

Key = tuple[str, str]
# Waiters for any workspace of an owner; no id begins so
_OWNER = "owner/"
_NOTHING: Mapping[str, Any] = {}
# So many recently deleted ids are remembered: most workspaces that are restored are restored soon.
MAX_RECENTLY_DELETED = 10_000
# A rank is needed for some seconds after the creation of a claim.
MAX_RANKS = 2_000


@dataclass(frozen=True, slots=True)
class VolumeRow:
    """A volume of a class, with its owner labels and its reclaim policy."""

    name: str
    uid: str
    version: str
    claim: str  # the volume claim that it is bound to, and below its namespace and uid
    namespace: str
    claim_uid: str
    bound: bool
    retained: bool
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PoolRow:
    """A warm pool of a class."""

    name: str
    class_name: str
    channel: str
    replicas: int
    ready: int
    retiring: bool
    task: bool


class Rank(NamedTuple):
    """What existed when a claim appeared. Events come in the order of etcd, so it was created after all of that."""

    counts: WorkspaceCounts  # the numbers of workspaces, itself included
    elsewhere: bool  # whether another class had a claim of its name


class ClusterView:
    """The cached rows, with an index for each lookup."""

    def __init__(self, on_change: Callable[[str], None] = lambda _: None) -> None:
        """`on_change` is called with the id of each workspace that changed."""
        self._on_change = on_change
        self._rows: dict[Key, Workspace] = {}  # claims by namespace and name, volumes by name alone
        self._by_id: dict[str, set[Key]] = {}
        self._ids: list[str] = []
        self._ids_by_reader: dict[str, set[str]] = {}  # owner, or user it is shared with -> ids
        self._recently_deleted: dict[str, None] = {}  # ids whose claims were deleted, the latest last
        self._departed: set[str] = set()
        self.counts = WorkspaceCounts()
        self._ranks: dict[str, Rank] = {}  # by the uid of a claim that appeared in a watch, the latest last
        self._listing = False
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        self._volumes: dict[str, VolumeRow] = {}
        self._volume_of: dict[Key, str] = {}
        self._pools: dict[Key, PoolRow] = {}
        self._current: dict[str, dict[str, tuple[str, ...]]] = {}
        self._endpoints: dict[Key, Endpoint] = {}  # of ready pods, by namespace and name
        self._pods: dict[str, Key] = {}  # the ready pod of a claim, by the claim's uid
        self._without_workspaced: dict[Key, str] = {}  # the claim's uid of ready pods that have none
        # Of pods that did not just start well: the claim's uid by pod, and the report by the claim's uid.
        self._reporting: dict[Key, str] = {}
        self._reports: dict[str, PodReport] = {}

    # Updates by informers.

    def put_claim(self, claim: Document) -> None:
        """Add or update a claim."""
        key = (required(claim, "metadata", "namespace"), required(claim, "metadata", "name"))
        workspace = workspace_of_claim(claim)
        if workspace is None:
            self._remove_row(key)
        else:
            self._set_row(key, _interned(workspace))

    def drop_claim(self, key: Key) -> None:
        """Remove a deleted claim."""
        before = self._rows.get(key)
        if before is not None:
            self._departed.add(before.owner)
            self._recently_deleted.pop(before.id, None)
            self._recently_deleted[before.id] = None
            if len(self._recently_deleted) > MAX_RECENTLY_DELETED:
                del self._recently_deleted[next(iter(self._recently_deleted))]
        self._remove_row(key)

    def put_volume(self, volume: Document) -> None:
        """Add or update a volume."""
        metadata, spec = section(volume, "metadata"), section(volume, "spec")
        name = required(volume, "metadata", "name")
        claim_ref = section(spec, "claimRef")
        claim, namespace = text(claim_ref, "name"), sys.intern(text(claim_ref, "namespace"))
        self._volumes[name] = VolumeRow(
            name=name,
            uid=required(volume, "metadata", "uid"),
            version=required(volume, "metadata", "resourceVersion"),
            claim=claim,
            namespace=namespace,
            claim_uid=text(claim_ref, "uid"),
            bound=section(volume, "status").get("phase") == "Bound",
            retained=spec.get("persistentVolumeReclaimPolicy") == "Retain",
            labels=strings(metadata, "labels") or _NOTHING,
        )
        if claim:
            self._volume_of[namespace, claim] = name
        deleted = workspace_of_volume(volume)
        if deleted is None:
            self._remove_row(("", name))
        else:
            self._set_row(("", name), _interned(deleted))

    def drop_volume(self, key: Key) -> None:
        """Remove a deleted volume."""
        row = self._volumes.pop(key[1], None)
        if row and self._volume_of.get((row.namespace, row.claim)) == row.name:
            del self._volume_of[row.namespace, row.claim]
        self._remove_row(("", key[1]))

    def put_pool(self, pool: Document) -> None:
        """Add or update a warm pool."""
        metadata = section(pool, "metadata")
        labels = section(metadata, "labels")
        namespace, name = required(pool, "metadata", "namespace"), required(pool, "metadata", "name")
        self._pools[namespace, name] = PoolRow(
            name=name,
            class_name=text(labels, CLASS_LABEL),
            channel=text(labels, CHANNEL_LABEL),
            replicas=number(section(pool, "spec"), "replicas"),
            ready=number(section(pool, "status"), "readyReplicas"),
            retiring=RETIRING in section(metadata, "annotations"),
            task=TASK_LABEL in labels,
        )

    def drop_pool(self, key: Key) -> None:
        """Remove a deleted warm pool."""
        self._pools.pop(key, None)

    def put_constraints(self, configuration: Document) -> None:
        """Set the pools that the stack names in the constraints of a class."""
        pools: dict[str, list[str]] = {}
        for entry in text(section(configuration, "data"), RELEASES_KEY).split(","):
            channel, _, name = entry.partition("/")
            if name:
                pools.setdefault(channel, []).append(name)
        named = {channel: tuple(names) for channel, names in pools.items()}
        self._current[required(configuration, "metadata", "namespace")] = named

    def drop_constraints(self, key: Key) -> None:
        """Remove the constraints of a deleted class."""
        self._current.pop(key[0], None)

    def put_pod(self, pod: Document) -> None:
        """Add or update the pod of a claimed sandbox: where requests are routed to, and what it reports."""
        key = (required(pod, "metadata", "namespace"), required(pod, "metadata", "name"))
        labels = strings(section(pod, "metadata"), "labels")
        claim_uid, report = labels.get(CLAIM_UID_LABEL, ""), pod_report(pod)
        before = self._reports.get(claim_uid)
        self.drop_pod(key)
        ready = _is_ready(pod)
        endpoint = endpoint_of(pod) if ready else None
        if endpoint is None and ready and claim_uid and not workspaced_port(section(pod, "spec")):
            self._without_workspaced[key] = claim_uid
        if endpoint is not None and endpoint.claim_uid:
            self._endpoints[key], self._pods[endpoint.claim_uid] = endpoint, key
        if report is not None and claim_uid:
            self._reporting[key], self._reports[claim_uid] = claim_uid, report
        if endpoint is not None or report != before:
            self._notify(labels.get(WORKSPACE_LABEL, ""))

    def drop_pod(self, key: Key) -> None:
        """Remove a pod that is not ready any more."""
        self._reports.pop(self._reporting.pop(key, ""), None)
        self._without_workspaced.pop(key, None)
        endpoint = self._endpoints.pop(key, None)
        if endpoint is not None and self._pods.get(endpoint.claim_uid) == key:
            del self._pods[endpoint.claim_uid]

    # Queries.

    def endpoint(self, id_: str) -> Endpoint | None:
        """Return the endpoint of a running workspace."""
        workspace = self.find(id_)
        key = self._pods.get(workspace.claim_uid) if workspace is not None and workspace.state == "running" else None
        return self._endpoints[key] if key is not None else None

    def lacks_workspaced(self, id_: str) -> bool:
        """Return whether the ready pod of a workspace has no workspaced."""
        workspace = self.find(id_)
        if workspace is None or not workspace.sandbox:
            return False
        pods = [(namespace, workspace.sandbox) for namespace, _ in self._by_id.get(id_, ())]
        return workspace.claim_uid in [self._without_workspaced.get(pod) for pod in pods]

    def has_claim(self, workspace: Workspace) -> bool:
        """Return whether the claim of a workspace is cached, whatever other classes have of its name."""
        row = self._rows.get((workspace.namespace, workspace.id))
        return row is not None and row.claim_uid == workspace.claim_uid

    def rank(self, claim_uid: str) -> Rank | None:
        """Return what existed when a claim appeared; None if that is not known."""
        return self._ranks.get(claim_uid)

    def set_listing(self, listing: bool) -> None:
        """Forget the ranks, and learn none from a list: it does not show in which order claims were created."""
        self._listing = listing
        self._ranks.clear()

    def find(self, id_: str) -> Workspace | None:
        """Return the cached workspace of an id; an existing one is preferred to a deleted one."""
        keys = self._by_id.get(id_)
        if keys is None:
            return None
        rows = [self._rows[key] for key in keys]
        return self.reported(rows[0] if len(rows) == 1 else min(rows, key=_existing_first))

    def reported(self, workspace: Workspace) -> Workspace:
        """Return a workspace with what its pod reports."""
        report = self._reports.get(workspace.claim_uid)
        return workspace if report is None else with_report(workspace, report)

    def reports(self) -> builtins.list[tuple[Workspace, PodReport]]:
        """Return the workspaces whose pods report something, with their reports."""
        rows = [(self.find(report.workspace), uid, report) for uid, report in self._reports.items()]
        return [(row, report) for row, uid, report in rows if row is not None and row.claim_uid == uid]

    def recently_known(self, id_: str) -> bool:
        """Return whether an id has or recently had a claim or a volume: events about what it left may come late."""
        return id_ in self._by_id or id_ in self._recently_deleted

    def take_departed_owners(self) -> set[str]:
        """Return the owners of the claims that were deleted since the last call."""
        departed, self._departed = self._departed, set()
        return departed

    def deleted(self, id_: str) -> Workspace | None:
        """Return the deleted workspace of an id whose data is retained."""
        rows = [self._rows[key] for key in self._by_id.get(id_, ()) if not key[0]]
        return min(rows, key=lambda row: row.volume or "", default=None)

    def list(self, selector: Filter, limit: int, after: str | None) -> Page:
        """Return a page of workspaces by id."""
        return next(page for page in self.scan(selector, limit, after, sys.maxsize) if page is not None)

    def scan(self, selector: Filter, limit: int, after: str | None, pause_after: int) -> Iterator[Page | None]:
        """Yield None after each so many ids, for the caller to pause, and at last a page of workspaces by id."""
        rows: list[Workspace] = []
        for count, id_ in enumerate(self._ids_for(selector, after), 1):
            row = self.find(id_)
            if row is not None and selector.matches(row):
                if len(rows) == limit:
                    yield Page(tuple(rows), rows[-1].id)
                    return
                rows.append(row)
            if count % pause_after == 0:
                yield None
        yield Page(tuple(rows))

    def existing_workspaces(self) -> builtins.list[Workspace]:
        """Return all workspaces that have a claim."""
        return [row for (namespace, _), row in self._rows.items() if namespace]

    def count_by_state(self) -> Counter[tuple[str, str]]:
        """Return the number of workspaces by class and state."""
        return Counter((row.class_name, row.state) for row in map(self.reported, self._rows.values()))

    def home_volume(self, namespace: str, volume_claim: str) -> VolumeRow | None:
        """Return the volume of a volume claim, if there is one."""
        name = self._volume_of.get((namespace, volume_claim))
        return self._volumes.get(name) if name else None

    def pools(self, namespace: str) -> list[PoolRow]:
        """Return the warm pools of a class."""
        return [row for (where, _), row in self._pools.items() if where == namespace]

    def all_pools(self) -> builtins.list[PoolRow]:
        """Return the warm pools of all classes, by name."""
        return sorted(self._pools.values(), key=lambda row: row.name)

    def current(self, namespace: str, channel: str) -> tuple[str, ...]:
        """Return the pools that a class's stack names for a channel."""
        return self._current.get(namespace, {}).get(channel, ())

    async def wait_for_change(self, id_: str, seconds: float) -> None:
        """Wait for the next change of a workspace, or until the timeout."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(id_, set()).add(future)
        try:
            async with asyncio.timeout(seconds):
                await future
        except TimeoutError:
            pass
        finally:
            waiters = self._waiting.get(id_, set())
            waiters.discard(future)
            if not waiters:
                self._waiting.pop(id_, None)

    async def wait_for_owner(self, owner: str, seconds: float) -> None:
        """Wait for the next change of any workspace of an owner, or until the timeout."""
        await self.wait_for_change(f"{_OWNER}{owner}", seconds)

    def _set_row(self, key: Key, row: Workspace) -> None:
        before = self._rows.get(key)
        self._rows[key] = row
        self._count(before, row)
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
        self._notify(row.id, f"{_OWNER}{row.owner}")
        if before != row:
            self._on_change(row.id)

    def _remove_row(self, key: Key) -> None:
        before = self._rows.pop(key, None)
        if before is None:
            return
        self._count(before, None)
        keys = self._by_id[before.id]
        keys.discard(key)
        self._unindex(before)
        if keys:
            self._index(before.id)
        else:
            del self._by_id[before.id]
            place = bisect_right(self._ids, before.id) - 1
            del self._ids[place]
        self._notify(before.id, f"{_OWNER}{before.owner}")
        self._on_change(before.id)

    def _count(self, before: Workspace | None, row: Workspace | None) -> None:
        if before is not None:
            self.counts.remove(before)
        if row is None:
            return
        self.counts.add(row)
        if before is None and row.claim_uid and not self._listing:
            # Its own key is not among them yet, and a volume has no namespace.
            elsewhere = any(namespace for namespace, _ in self._by_id.get(row.id, ()))
            self._ranks[row.claim_uid] = Rank(self.counts.around(row), elsewhere)
            if len(self._ranks) > MAX_RANKS:
                del self._ranks[next(iter(self._ranks))]

    def _index(self, id_: str) -> None:
        for key in self._by_id[id_]:
            row = self._rows[key]
            for reader in (row.owner, *row.shared):
                self._ids_by_reader.setdefault(reader, set()).add(id_)

    def _unindex(self, row: Workspace) -> None:
        for reader in (row.owner, *row.shared):
            ids = self._ids_by_reader.get(reader, set())
            ids.discard(row.id)
            if not ids:
                self._ids_by_reader.pop(reader, None)

    def _notify(self, *keys: str) -> None:
        for key in keys:
            for future in self._waiting.pop(key, ()):
                if not future.done():
                    future.set_result(None)

    def _ids_for(self, selector: Filter, after: str | None) -> Iterator[str]:
        narrow = selector.reader or selector.owner
        if narrow:
            ids = sorted(self._ids_by_reader.get(narrow, ()))
            yield from ids[bisect_right(ids, after) if after else 0 :]
        else:
            yield from self._ids[bisect_right(self._ids, after) if after else 0 :]


def _is_ready(pod: Document) -> bool:
    """Return whether a pod is ready and not being deleted."""
    conditions = rows(section(pod, "status"), "conditions")
    ready = any(row.get("type") == "Ready" and row.get("status") == "True" for row in conditions)
    return ready and not section(pod, "metadata").get("deletionTimestamp")


def _existing_first(row: Workspace) -> tuple[bool, bool, bool]:
    # A recovered workspace has no claim; while it is restored, both it and its claim are cached.
    return row.state == "deleted", not row.claim_uid, row.state == "deleting"


def _interned(row: Workspace) -> Workspace:
    """Return the row with frequent strings stored once."""
    return replace(
        row,
        class_name=sys.intern(row.class_name),
        mode=row.mode,
        pool=sys.intern(row.pool),
        owner=sys.intern(row.owner),
        created_by=sys.intern(row.created_by),
        limited_teams=tuple(map(sys.intern, row.limited_teams)),
        labels=row.labels or _NOTHING,
        shared=row.shared or _NOTHING,
    )
