"""Read, create, apply, watch and delete objects of any kind."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

from agentenv.rehearsal.providers.kubernetes import objects
from agentenv.rehearsal.providers.kubernetes.client import APPLY, JSON_PATCH, ApiError, Client, Unreachable
from agentenv.rehearsal.providers.kubernetes.discovery import Discovery, Kind, UnknownKind, canonical
from agentenv.rehearsal.providers.kubernetes.objects import Object

# A kind whose definition was made a moment ago, or a namespace on its way, is waited for this long in all.
PATIENCE: Final = 30.0
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 3.0
ADOPTIONS: Final = 5  # tries, where a controller writes at the same time
WATCH: Final = 240.0  # seconds one watch may last
# Managers that wrote before server-side apply owned the fields; theirs become ours.
LEGACY_MANAGERS: Final = frozenset({"pulumi-kubernetes", "pulumi-resource-kubernetes", "kubectl", "before-first-apply"})

T = TypeVar("T")


class Cancelled(Exception):
    """The engine cancelled the operation."""


class Cluster:
    """The objects of one API server."""

    def __init__(self, client: Client, cancelled: threading.Event | None = None) -> None:
        self.client = client
        self.discovery = Discovery(client)
        self.cancelled = cancelled or threading.Event()

    def kind(self, obj: Mapping[str, Any]) -> Kind:
        return self.discovery.find(objects.api_version(obj), objects.kind(obj))

    def version(self) -> str:
        """Return the server's version, with one short attempt that shows whether it is reachable."""
        return str(self.client.request("GET", "/version", attempts=3).get("gitVersion", ""))

    def get(self, kind: Kind, namespace: str, name: str) -> Object:
        return self.client.request("GET", kind.path(namespace, name))

    def list(self, kind: Kind, namespace: str = "", **selectors: str) -> list[Object]:
        items = self.client.request("GET", kind.path(namespace), selectors).get("items") or []
        return [{"apiVersion": kind.api_version, "kind": kind.kind, **item} for item in items]

    def create(self, obj: Object, manager: str, *, dry: bool = False) -> Object:
        """Create an object. One that already exists is an error."""
        kind = self.kind(obj)
        return self.client.request("POST", kind.path(_place(kind, obj)), _how(manager, dry), _sent(kind, obj))

    def apply(self, obj: Object, manager: str, *, force: bool = False, dry: bool = False) -> Object:
        """Apply an object server-side: its fields become ours, and fields that we no longer send are removed."""
        kind = self.kind(obj)
        query = {**_how(manager, dry), "force": "true" if force else "false"}
        return self.client.request("PATCH", _path(kind, obj), query, _sent(kind, obj), content=APPLY)

    def release_fields(self, obj: Object, manager: str) -> None:
        """Release every field that the manager owns."""
        bare = {
            "apiVersion": objects.api_version(obj),
            "kind": objects.kind(obj),
            "metadata": {"name": objects.name(obj)},
        }
        kind = self.kind(obj)
        self.client.request("PATCH", _path(kind, obj), _how(manager, dry=False), bare, content=APPLY)

    def adopt(self, live: Object, manager: str) -> Object:
        """Take ownership of fields that we or kubectl wrote without server-side apply."""
        kind = self.kind(live)
        for left in range(ADOPTIONS - 1, -1, -1):
            managed = objects.metadata(live).get("managedFields") or []
            merged = merged_managers(managed, manager)
            if merged == managed:
                break
            patch = [
                {"op": "replace", "path": "/metadata/managedFields", "value": merged},
                # The server refuses the patch when the object has changed since: its managers would be out of date.
                {"op": "replace", "path": "/metadata/resourceVersion", "value": live["metadata"]["resourceVersion"]},
            ]
            try:
                return self.client.request("PATCH", _path(kind, live), None, patch, content=JSON_PATCH, attempts=1)
            except ApiError as error:
                if not error.conflict or not left:
                    raise
            live = self.get(kind, objects.namespace(live), objects.name(live))
        return live

    def delete(self, kind: Kind, namespace: str, name: str, propagation: str) -> None:
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        self.client.request("DELETE", kind.path(namespace, name), None, options)

    def retry(self, action: Callable[[], T], report: Callable[[str], None], wait_seconds: float = PATIENCE) -> T:
        """Retry an action while its kind or its namespace does not exist yet, until the timeout."""
        end, pause = time.monotonic() + wait_seconds, FIRST_PAUSE
        while True:
            try:
                return action()
            except (UnknownKind, ApiError) as error:
                if isinstance(error, ApiError) and not error.not_found:
                    raise
                if time.monotonic() + pause > end:
                    raise
                report(f"not yet possible: {error}")
                if self.cancelled.wait(pause):
                    raise Cancelled(str(error)) from None
                pause = min(pause * 2, LONGEST_PAUSE)

    def follow(
        self, kind: Kind, namespace: str, selectors: Mapping[str, str], end: float
    ) -> Iterator[dict[str, Object]]:
        """Yield the selected objects by name: the current ones, then again after each change, until `end`."""
        while True:
            listed = self.client.request("GET", kind.path(namespace), selectors)
            objects_by_name = {objects.name(i): _kinded(kind, i) for i in listed.get("items") or []}
            version = str(objects.metadata(listed).get("resourceVersion", ""))
            yield dict(objects_by_name)
            for event in self._changes(kind, namespace, selectors, version, end):
                obj = _kinded(kind, event["object"])
                if event["type"] == "DELETED":
                    objects_by_name.pop(objects.name(obj), None)
                else:
                    objects_by_name[objects.name(obj)] = obj
                yield dict(objects_by_name)
            if self.cancelled.is_set() or time.monotonic() >= end:
                return

    def _changes(
        self, kind: Kind, namespace: str, selectors: Mapping[str, str], version: str, end: float
    ) -> Iterator[dict[str, Any]]:
        """Yield the events since a resource version, over several watches, until the version has expired."""
        pause = FIRST_PAUSE
        while (left := end - time.monotonic()) > 0 and not self.cancelled.is_set():
            query = {**selectors, "resourceVersion": version, "allowWatchBookmarks": "true"}
            try:
                with self.client.watch(kind.path(namespace), query, min(left, WATCH)) as events:
                    for event in events:
                        if event.get("type") == "ERROR":
                            return
                        pause = FIRST_PAUSE
                        version = str(objects.metadata(event["object"]).get("resourceVersion", version))
                        if event.get("type") != "BOOKMARK":
                            yield event
                        if time.monotonic() >= end or self.cancelled.is_set():
                            return
            except ApiError as error:
                if error.status == 410:
                    return
                raise
            except Unreachable:
                if time.monotonic() + pause >= end:
                    return
            # A connection that breaks at once must not become a busy loop.
            self.cancelled.wait(min(pause, max(0.0, end - time.monotonic())))
            pause = min(pause * 2, LONGEST_PAUSE)


def merged_managers(managed: list[dict[str, Any]], manager: str) -> list[dict[str, Any]]:
    """Return an object's managed fields, with those of the legacy managers moved to ours."""
    ours: dict[str, Any] | None = None
    rest: list[dict[str, Any]] = []
    for entry in managed:
        applied = entry.get("operation") == "Apply"
        own = entry.get("manager") == manager
        before = not applied and not entry.get("subresource") and (own or entry.get("manager") in LEGACY_MANAGERS)
        if before or (own and applied and not entry.get("subresource")):
            ours = {
                **entry,
                "manager": manager,
                "operation": "Apply",
                "fieldsV1": _union(ours["fieldsV1"] if ours else {}, entry.get("fieldsV1") or {}),
            }
        else:
            rest.append(entry)
    if ours is None or (len(rest) + 1 == len(managed) and ours in managed):
        return managed
    return [ours, *rest]


def _union(left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, Any]:
    return {k: _union(left.get(k) or {}, right.get(k) or {}) for k in {**left, **right}}


def _how(manager: str, dry: bool) -> dict[str, str]:
    return {"fieldManager": manager, **({"dryRun": "All"} if dry else {})}


def _place(kind: Kind, obj: Mapping[str, Any]) -> str:
    return (objects.namespace(obj) or "default") if kind.namespaced else ""


def _path(kind: Kind, obj: Mapping[str, Any]) -> str:
    return kind.path(_place(kind, obj), objects.name(obj))


def _sent(kind: Kind, obj: Object) -> Object:
    """Return the object to send: with a namespace if the kind is namespaced, without one otherwise."""
    placed = objects.with_metadata(obj, namespace=_place(kind, obj) or None)
    return {**placed, "apiVersion": canonical(objects.api_version(obj))}


def _kinded(kind: Kind, obj: Object) -> Object:
    return {**obj, "apiVersion": kind.api_version, "kind": kind.kind}
