"""A class with a workspace, on an API server of one process, and the loops' view of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from agentenv.core.classes.storage_classes import DRIVER
from agentenv.core.values.timestamps import format_timestamp
from agentenv.core.workspaces.workspace import DELETED_AT, LAST_ACTIVE
from agentenv.service.kube.client import (
    CLAIMS,
    CONFIGURATIONS,
    NAMESPACES,
    SANDBOXES,
    VOLUME_CLAIMS,
    VOLUMES,
    Document,
    section,
)
from agentenv.service.loops.context import Context, cluster_context
from tests.fast.service.fake_api_server import Api, FakeApiServer

SPACE = "sandbox-box"
START = datetime(2026, 11, 18, 12, tzinfo=UTC)
OWNER = "u-1"


@dataclass
class RecordedMetrics:
    slept: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    restarts: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    missed: list[str] = field(default_factory=list[str])
    found: dict[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])

    def suspended(self, sandbox_class: str, because: str) -> None:
        self.slept.append((sandbox_class, because))

    def restarted(self, sandbox_class: str, why: str) -> None:
        self.restarts.append((sandbox_class, why))

    def missed_pod(self, namespace: str) -> None:
        self.missed.append(namespace)

    def findings(self, loop: str, counts: Mapping[str, int]) -> None:
        self.found[loop] = counts


@dataclass
class StubClock:
    """A clock that a test sets."""

    now: Callable[[], datetime]
    known: bool = True


class Cluster:
    def __init__(self, server: FakeApiServer | None = None) -> None:
        self.server, self.now, self.metrics = server or FakeApiServer(), START, RecordedMetrics()
        self.server.put(NAMESPACES, {"metadata": {"name": SPACE, "labels": {"sandbox.users.io/class": "box"}}})
        data = {"suspendAfter": "1200", "maxLifetime": "", "retainDeletedFor": "2592000", "sessionRetention": "604800"}
        about = {"name": "sandbox-class", "namespace": SPACE}
        self.server.put(CONFIGURATIONS, {"metadata": about, "data": {**data, "storage": "slot"}})

    def limit(self, **data: str) -> None:
        """Change the limits of the class."""
        found = self.server.find(CONFIGURATIONS, "sandbox-class", SPACE) or {}
        self.server.put(CONFIGURATIONS, {**found, "data": {**found["data"], **data}})

    def context(self, **options: Any) -> Context:
        clock = options.pop("clock", None) or StubClock(lambda: self.now)
        # Nothing is remembered from one pass to the next.
        return cluster_context(Api(self.server), clock, self.metrics, "default", "r1", **options)

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def workspace(self, name: str = "w-1", **notes: str) -> None:
        labels = {
            "sandbox.users.io/user": OWNER,
            "sandbox.users.io/workspace": name,
            "sandbox.users.io/mode": "user",
            "sandbox.users.io/class": "box",
        }
        about = {"name": name, "namespace": SPACE, "labels": labels, "creationTimestamp": format_timestamp(self.now)}
        marks = {LAST_ACTIVE: format_timestamp(self.now), "sandbox.users.io/kept": "true", **notes}
        spec = {"warmPoolRef": {"name": "box-1"}, "additionalPodMetadata": {"labels": labels}}
        claim: Document = {"metadata": {**about, "annotations": marks}, "spec": spec}
        claim["status"] = {"sandbox": {"name": f"box-{name}"}, "conditions": [ready(self.now)]}
        self.server.put(CLAIMS, claim)
        uid = claim["metadata"]["uid"]
        owner = {"kind": "SandboxClaim", "uid": uid}
        inside: Document = {"name": f"box-{name}", "namespace": SPACE, "ownerReferences": [owner]}
        self.server.put(SANDBOXES, {"metadata": inside, "spec": {"operatingMode": "Running"}})
        of: Document = {"name": f"home-box-{name}", "namespace": SPACE, "labels": {"sandbox.users.io/class": "box"}}
        home: Document = {"metadata": of, "spec": {"volumeName": f"pv-{name}"}}
        home["metadata"] |= {"creationTimestamp": format_timestamp(self.now), "ownerReferences": [{"uid": "s"}]}
        self.server.put(VOLUME_CLAIMS, home)
        self.volume(name, "Bound", uid=home["metadata"]["uid"])

    def volume(self, name: str, phase: str, uid: str = "gone", **notes: str) -> None:
        labels = {f"sandbox.users.io/{key}": value for key, value in (("user", OWNER), ("workspace", name))}
        marks = {"pv.kubernetes.io/provisioned-by": DRIVER, **notes}
        about: Document = {"name": f"pv-{name}", "labels": {**labels, "sandbox.users.io/mode": "user"}}
        ref = {"namespace": SPACE, "name": f"home-box-{name}", "uid": uid}
        spec: Document = {"persistentVolumeReclaimPolicy": "Retain", "claimRef": ref, "accessModes": ["ReadWriteMany"]}
        spec |= {"csi": {"driver": DRIVER, "volumeHandle": f"fs-1::fsap-{name}"}, "capacity": {"storage": "5Gi"}}
        # Kubernetes saw it let go of when it was deleted, by a clock that is right.
        status = {"phase": phase, "lastPhaseTransitionTime": notes.get(DELETED_AT, format_timestamp(self.now))}
        self.server.put(VOLUMES, {"metadata": {**about, "annotations": marks}, "spec": spec, "status": status})

    def notes(self, kind: Any = CLAIMS, name: str = "w-1") -> Document:
        found = self.server.find(kind, name, None if kind is VOLUMES else SPACE)
        return section((found or {"metadata": {}})["metadata"], "annotations")

    def destruction_record(self, volume: str) -> dict[str, Any]:
        """Return the record of a volume's destruction; an empty one without it."""
        pages = self.server.list(CONFIGURATIONS, "default")
        rows = {name: json.loads(text) for page in pages for name, text in section(page, "data").items()}
        return rows.get(volume, {})

    def mode(self, name: str = "w-1") -> str:
        return self.server.objects[SANDBOXES, SPACE, f"box-{name}"]["spec"]["operatingMode"]

    def note(self, name: str = "w-1", **notes: str | None) -> None:
        """Annotate a claim, as another client would."""
        found = self.server.find(CLAIMS, name, SPACE)
        assert found is not None
        annotations = {f"sandbox.users.io/{key.replace('_', '-')}": value for key, value in notes.items()}
        assert self.server.patch(CLAIMS, found, {"metadata": {"annotations": annotations}})

    def settle(self) -> None:
        """Do the work of the controller: set the claim's condition from the mode of its sandbox."""
        for (kind, space, name), claim in [*self.server.objects.items()]:
            if kind is CLAIMS:
                asleep = self.mode(name) == "Suspended"
                before = claim["status"]["conditions"][0]
                row = {**ready(self.now), "status": str(not asleep)}
                row["reason"] = "SandboxSuspended" if asleep else "SandboxReady"
                rows = [before if before["reason"] == row["reason"] else row]
                self.server.put(kind, {**claim, "status": {**claim["status"], "conditions": rows}})
                assert space == SPACE


def ready(at: datetime) -> Document:
    return {"type": "Ready", "status": "True", "reason": "SandboxReady", "lastTransitionTime": format_timestamp(at)}


def always() -> bool:
    return True
