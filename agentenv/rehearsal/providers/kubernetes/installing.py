"""Install and uninstall the objects of a chart as helm does: in order, with ownership metadata."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from agentenv.rehearsal.providers.kubernetes import manifests, objects, waiting, words
from agentenv.rehearsal.providers.kubernetes.client import ApiError
from agentenv.rehearsal.providers.kubernetes.cluster import Cluster
from agentenv.rehearsal.providers.kubernetes.discovery import UnknownKind
from agentenv.rehearsal.providers.kubernetes.objects import Object
from agentenv.rehearsal.providers.kubernetes.words import InvalidRequest

MANAGER: Final = "helm"
OWNER: Final = ("meta.helm.sh/release-name", "meta.helm.sh/release-namespace")
KEEP: Final = "helm.sh/resource-policy"
WAITED_KINDS: Final = frozenset(
    {"CustomResourceDefinition", "DaemonSet", "Deployment", "PersistentVolumeClaim", "Pod", "StatefulSet"}
)

Report = Callable[[str], None]


@dataclass(frozen=True)
class Installation:
    """The installation of a release: its cluster, its options, and the progress callback."""

    cluster: Cluster
    release: Mapping[str, Any]
    report: Report

    def define(self, definitions: list[Object]) -> None:
        """Create the definitions in the chart's `crds` folder. Helm creates them first and never deletes them."""
        for definition in definitions:
            try:
                self._define(self.cluster.create(definition, MANAGER))
            except ApiError as error:
                if not error.already_exists:  # and never changes them
                    raise

    def _define(self, live: Object) -> None:
        waiting.until_ready(self.cluster, live, live, 0, self.report)
        self.cluster.discovery.forget()

    def create_namespace(self) -> None:
        """Create the release's namespace."""
        place = str(self.release["namespace"])
        self.cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place}}, MANAGER)

    def apply(self, chart_objects: list[Object], applied: list[Object]) -> None:
        """Apply the objects in order, and add each to `applied`, which also has the result after an error."""
        for item in manifests.in_order(chart_objects):
            obj = with_ownership(item.obj, self.release)
            self.cluster.retry(lambda o=obj: check_ownership(self.cluster, o, self.release), self.report)
            live = self.cluster.retry(lambda o=obj: self.cluster.apply(o, MANAGER, force=True), self.report)
            applied.append(live)
            if objects.is_definition(live):
                self._define(live)

    def wait(self, applied: list[Object], wait_seconds: float) -> None:
        """Wait for the kinds that helm waits for, within one timeout."""
        end = time.monotonic() + wait_seconds
        for obj in applied:
            if objects.kind(obj) in WAITED_KINDS or (objects.kind(obj) == "Job" and self.release.get("waitForJobs")):
                waiting.until_ready(self.cluster, obj, obj, max(1.0, end - time.monotonic()), self.report)


def until_deleted(cluster: Cluster, deleted: list[Object], wait_seconds: float, report: Report) -> None:
    end = time.monotonic() + wait_seconds
    for obj in deleted:
        try:
            kind = cluster.kind(obj)
        except UnknownKind:
            continue
        at = (objects.namespace(obj), objects.name(obj))
        waiting.until_deleted(cluster, kind, at, max(1.0, end - time.monotonic()), report)


def with_ownership(obj: Object, release: Mapping[str, Any]) -> Object:
    """Return the object with helm's ownership metadata."""
    labels = {**(objects.metadata(obj).get("labels") or {}), "app.kubernetes.io/managed-by": "Helm"}
    marks = dict(zip(OWNER, (str(release["name"]), str(release["namespace"])), strict=True))
    annotations = {**(objects.metadata(obj).get("annotations") or {}), **marks}
    return objects.with_metadata(obj, labels=labels, annotations=annotations)


def check_ownership(cluster: Cluster, obj: Object, release: Mapping[str, Any]) -> None:
    """Refuse an existing object that the release does not own: helm does not adopt it."""
    try:
        live = cluster.get(cluster.kind(obj), objects.namespace(obj), objects.name(obj))
    except ApiError as error:
        if error.not_found:
            return
        raise
    owner_marks = tuple(objects.annotation(live, mark) for mark in OWNER)
    if owner_marks != (str(release["name"]), str(release["namespace"])) and not release.get("takeOwnership"):
        owner = f"release {owner_marks[1]}/{owner_marks[0]}" if owner_marks[0] else "no release"
        raise InvalidRequest(
            f"{words.describe(obj)} already exists and belongs to {owner}; set takeOwnership to adopt it, or delete it"
        )


def delete(cluster: Cluster, applied: list[Object]) -> list[Object]:
    """Delete the objects in reverse order, except those with helm's policy to keep them."""
    deleted: list[Object] = []
    for obj in reversed(applied):
        try:
            kind = cluster.kind(obj)
            live = cluster.get(kind, objects.namespace(obj), objects.name(obj))
            if objects.annotation(live, KEEP) == "keep":
                continue
            cluster.delete(kind, objects.namespace(obj), objects.name(obj), "Background")
        except UnknownKind:
            continue
        except ApiError as error:
            if not error.not_found:
                raise InvalidRequest(f"{words.describe(obj)} could not be deleted: {error}") from None
            continue
        deleted.append(obj)
        if objects.is_definition(obj):
            cluster.discovery.forget()
    return deleted


def object_exists(cluster: Cluster, obj: Object) -> bool:
    try:
        cluster.get(cluster.kind(obj), objects.namespace(obj), objects.name(obj))
    except UnknownKind:
        return False
    except ApiError as error:
        if error.not_found:
            return False
        raise InvalidRequest(f"{words.describe(obj)} could not be read: {error}") from None
    return True


def object_metadata(obj: Object) -> dict[str, str]:
    place = objects.namespace(obj)
    return {"name": objects.name(obj), **({"namespace": place} if place else {})}


def key(obj: Object) -> tuple[str, str, str]:
    return obj["apiVersion"], obj["kind"], objects.identity(obj)
