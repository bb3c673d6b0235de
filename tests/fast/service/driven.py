"""An API server of one process with what makes swarms real: a controller of sandboxes, and a driver of volumes."""

from __future__ import annotations

from typing import Any

from agentenv.core.classes.storage_classes import DRIVER
from agentenv.core.values.timestamps import format_timestamp
from agentenv.core.workspaces.workspace import DELETED_AT
from agentenv.service.kube.sync_client import (
    CLAIMS,
    CONFIGURATIONS,
    NAMESPACES,
    SANDBOXES,
    VOLUME_CLAIMS,
    VOLUMES,
    Document,
    section,
)
from tests.fast.service.fake_dynamodb import Shelf
from tests.fast.service.loops.cluster import START

SPACE = "sandbox-box"


class Driven(Shelf):
    """Sandboxes come up while somebody waits, up to so many; volumes follow their claims at once."""

    def __init__(self, able: int = 100) -> None:
        super().__init__()
        self.able, self.waited = able, 0.0
        self._made = 0
        self.put(NAMESPACES, {"metadata": {"name": SPACE, "labels": {"sandbox.users.io/class": "box"}}})
        data = {"storage": "shared", "retainDeletedFor": "2592000", "releases": "stable/box-t"}
        self.put(CONFIGURATIONS, {"metadata": {"name": "sandbox-class", "namespace": SPACE}, "data": data})

    def pause(self, seconds: float) -> None:
        """What the controller does meanwhile."""
        self.waited += seconds
        claims = sorted((key, one) for key, one in self.things.items() if key[0] is CLAIMS)
        for number, ((_, space, name), claim) in enumerate(claims):
            able = number < self.able
            if able and (SANDBOXES, space, name) not in self.things:
                self._start(space, name, claim)
            ready = {"type": "Ready", "status": str(able), "message": "" if able else "no node"}
            claim["status"] = {"conditions": [ready], "sandbox": {"name": name}}

    def create(self, kind: Any, document: Document) -> bool:
        made = super().create(kind, document)
        key = (kind, document["metadata"].get("namespace", ""), document["metadata"]["name"])
        if made:
            self.things[key]["metadata"]["creationTimestamp"] = format_timestamp(START)
        if made and kind is VOLUME_CLAIMS:
            self._bind(self.things[key])
        return made

    def delete(self, kind: Any, existing: Document) -> bool:
        removed = super().delete(kind, existing)
        about = existing["metadata"]
        if removed and kind is CLAIMS:
            self.things.pop((SANDBOXES, about["namespace"], about["name"]), None)
            home = self.things.pop((VOLUME_CLAIMS, about["namespace"], f"home-{about['name']}"), None)
            if home is not None:
                self._release(home)
        if removed and kind is VOLUME_CLAIMS:
            self._release(existing)
        return removed

    def _start(self, space: str, name: str, claim: Document) -> None:
        owners = [{"uid": claim["metadata"]["uid"], "kind": "SandboxClaim"}]
        about = {"name": name, "namespace": space, "ownerReferences": owners}
        self.put(SANDBOXES, {"metadata": about, "spec": {"operatingMode": "Running"}})
        key = (VOLUME_CLAIMS, space, f"home-{name}")
        if key not in self.things:
            of = {"name": key[2], "namespace": space, "labels": {"sandbox.users.io/class": "box"}}
            self.put(VOLUME_CLAIMS, {"metadata": of, "spec": {}})
            self._bind(self.things[key])
        uid = self.things[SANDBOXES, space, name]["metadata"]["uid"]
        self.things[key]["metadata"]["ownerReferences"] = [{"uid": uid}]

    def _bind(self, claim: Document) -> None:
        about = claim["metadata"]
        about["creationTimestamp"] = format_timestamp(START)
        ref = {"namespace": about["namespace"], "name": about["name"], "uid": about["uid"]}
        name = claim["spec"].get("volumeName")
        if name is None:
            self._made += 1
            name = claim["spec"]["volumeName"] = f"pvc-{self._made}"
            spec: Document = {"persistentVolumeReclaimPolicy": "Delete", "accessModes": ["ReadWriteMany"]}
            spec |= {"csi": {"driver": DRIVER, "volumeHandle": f"fs-1::fsap-{name}"}, "capacity": {"storage": "5Gi"}}
            notes = {"pv.kubernetes.io/provisioned-by": DRIVER}
            spec |= {"storageClassName": "efs-box"}
            self.put(VOLUMES, {"metadata": {"name": name, "annotations": notes}, "spec": spec})
        volume = self.things[VOLUMES, "", name]
        status = {"phase": "Bound", "lastPhaseTransitionTime": format_timestamp(START)}
        self.put(VOLUMES, {**volume, "spec": {**volume["spec"], "claimRef": ref}, "status": status})

    def _release(self, claim: Document) -> None:
        name = claim["spec"].get("volumeName")
        volume = self.things.get((VOLUMES, "", name))
        if volume is None:
            return
        if volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete":
            del self.things[VOLUMES, "", name]
        else:
            status = {"phase": "Released", "lastPhaseTransitionTime": format_timestamp(START)}
            self.put(VOLUMES, {**volume, "status": status})

    def volume(self, space: str, volume_claim: str) -> str:
        """The volume that a volume claim has."""
        return self.things[VOLUME_CLAIMS, space, volume_claim]["spec"]["volumeName"]

    def deleted(self) -> dict[str, bool]:
        """All volumes, and whether each says that it was deleted."""
        found = {name: one for (kind, _, name), one in self.things.items() if kind is VOLUMES}
        return {name: DELETED_AT in section(one["metadata"], "annotations") for name, one in found.items()}
