"""Putting a chart's objects into the cluster, as helm does: in order, marked as the release's, and out again."""

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
from agentenv.rehearsal.providers.kubernetes.words import Impossible

MANAGER: Final = "helm"
OWNER: Final = ("meta.helm.sh/release-name", "meta.helm.sh/release-namespace")
KEEP: Final = "helm.sh/resource-policy"
WAITED_FOR: Final = frozenset(
    {"CustomResourceDefinition", "DaemonSet", "Deployment", "PersistentVolumeClaim", "Pod", "StatefulSet"}
)

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Installation:
    """Where a release goes, what was asked of it, and who is told how far it is."""

    cluster: Cluster
    asked: Mapping[str, Any]
    tell: Tell

    def define(self, definitions: list[Object]) -> None:
        """The definitions of a chart's `crds` folder; helm makes them before all else, and never takes them away."""
        for definition in definitions:
            try:
                self._define(self.cluster.create(definition, MANAGER))
            except ApiError as error:
                if not error.exists:  # and never changes them
                    raise

    def _define(self, live: Object) -> None:
        waiting.until_ready(self.cluster, live, live, 0, self.tell)
        self.cluster.discovery.forget()

    def house(self) -> None:
        """The release's namespace."""
        place = str(self.asked["namespace"])
        self.cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place}}, MANAGER)

    def apply(self, found: list[Object], made: list[Object]) -> None:
        """Apply the objects one after the other; `made` grows with them, so that a failure leaves its traces there."""
        for one in manifests.ordered(found):
            obj = owned(one.obj, self.asked)
            self.cluster.patiently(lambda o=obj: free(self.cluster, o, self.asked), self.tell)
            live = self.cluster.patiently(lambda o=obj: self.cluster.apply(o, MANAGER, force=True), self.tell)
            made.append(live)
            if objects.is_definition(live):
                self._define(live)

    def wait(self, made: list[Object], patience: float) -> None:
        """Wait for what helm waits for, all within one span of time."""
        end = time.monotonic() + patience
        for obj in made:
            if objects.kind(obj) in WAITED_FOR or (objects.kind(obj) == "Job" and self.asked.get("waitForJobs")):
                waiting.until_ready(self.cluster, obj, obj, max(1.0, end - time.monotonic()), self.tell)


def until_gone(cluster: Cluster, deleted: list[Object], patience: float, tell: Tell) -> None:
    end = time.monotonic() + patience
    for obj in deleted:
        try:
            kind = cluster.kind(obj)
        except UnknownKind:
            continue
        at = (objects.namespace(obj), objects.name(obj))
        waiting.until_gone(cluster, kind, at, max(1.0, end - time.monotonic()), tell)


def owned(obj: Object, asked: Mapping[str, Any]) -> Object:
    """The object with helm's marks of ownership."""
    labels = {**(objects.metadata(obj).get("labels") or {}), "app.kubernetes.io/managed-by": "Helm"}
    marks = dict(zip(OWNER, (str(asked["name"]), str(asked["namespace"])), strict=True))
    annotations = {**(objects.metadata(obj).get("annotations") or {}), **marks}
    return objects.with_metadata(obj, labels=labels, annotations=annotations)


def free(cluster: Cluster, obj: Object, asked: Mapping[str, Any]) -> None:
    """Refuse an object that exists and is not the release's: helm does not take over what is others'."""
    try:
        live = cluster.get(cluster.kind(obj), objects.namespace(obj), objects.name(obj))
    except ApiError as error:
        if error.gone:
            return
        raise
    found = tuple(objects.annotation(live, mark) for mark in OWNER)
    if found != (str(asked["name"]), str(asked["namespace"])) and not asked.get("takeOwnership"):
        owner = f"release {found[1]}/{found[0]}" if found[0] else "no release"
        raise Impossible(
            f"{words.what(obj)} exists already and belongs to {owner}; set takeOwnership to take it over, or delete it"
        )


def delete(cluster: Cluster, made: list[Object]) -> list[Object]:
    """Ask for the deletion of objects, the last made first; those that helm is told to keep stay."""
    deleted: list[Object] = []
    for obj in reversed(made):
        try:
            kind = cluster.kind(obj)
            live = cluster.get(kind, objects.namespace(obj), objects.name(obj))
            if objects.annotation(live, KEEP) == "keep":
                continue
            cluster.delete(kind, objects.namespace(obj), objects.name(obj), "Background")
        except UnknownKind:
            continue
        except ApiError as error:
            if not error.gone:
                raise Impossible(f"{words.what(obj)} could not be deleted: {error}") from None
            continue
        deleted.append(obj)
        if objects.is_definition(obj):
            cluster.discovery.forget()
    return deleted


def is_there(cluster: Cluster, obj: Object) -> bool:
    try:
        cluster.get(cluster.kind(obj), objects.namespace(obj), objects.name(obj))
    except UnknownKind:
        return False
    except ApiError as error:
        if error.gone:
            return False
        raise Impossible(f"{words.what(obj)} could not be read: {error}") from None
    return True


def place(obj: Object) -> dict[str, str]:
    place = objects.namespace(obj)
    return {"name": objects.name(obj), **({"namespace": place} if place else {})}


def key(obj: Object) -> tuple[str, str, str]:
    return obj["apiVersion"], obj["kind"], objects.identity(obj)
