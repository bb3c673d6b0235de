"""An in-memory API server with a controller of sandboxes and a driver of volumes, for tests of swarms."""

from __future__ import annotations

from typing import Any

from agentenv.core.classes.storage_classes import DRIVER
from agentenv.core.values.timestamps import format_timestamp
from agentenv.core.workspaces.workspace import DELETED_AT
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
from tests.fast.service.fake_api_server import FakeApiServer
from tests.fast.service.loops.cluster import START

NAMESPACE = "sandbox-box"


class SimulatedCluster(FakeApiServer):
    """Starts sandboxes during waits, up to `capacity`; volumes follow their claims at once."""

    def __init__(self, capacity: int = 100) -> None:
        super().__init__()
        self.capacity, self.waited = capacity, 0.0
        self._provisioned = 0
        self.put(NAMESPACES, {"metadata": {"name": NAMESPACE, "labels": {"sandbox.users.io/class": "box"}}})
        data = {"storage": "shared", "retainDeletedFor": "2592000", "releases": "stable/box-t"}
        self.put(CONFIGURATIONS, {"metadata": {"name": "sandbox-class", "namespace": NAMESPACE}, "data": data})

    def pause(self, seconds: float) -> None:
        """Do what the controller does during a wait."""
        self.waited += seconds
        claims = sorted((key, document) for key, document in self.objects.items() if key[0] is CLAIMS)
        for number, ((_, namespace, name), claim) in enumerate(claims):
            fits = number < self.capacity
            if fits and (SANDBOXES, namespace, name) not in self.objects:
                self._start(namespace, name, claim)
            ready = {"type": "Ready", "status": str(fits), "message": "" if fits else "no node"}
            claim["status"] = {"conditions": [ready], "sandbox": {"name": name}}

    def create(self, kind: Any, document: Document) -> bool:
        created = super().create(kind, document)
        key = (kind, document["metadata"].get("namespace", ""), document["metadata"]["name"])
        if created:
            self.objects[key]["metadata"]["creationTimestamp"] = format_timestamp(START)
        if created and kind is VOLUME_CLAIMS:
            self._bind(self.objects[key])
        return created

    def delete(self, kind: Any, existing: Document) -> bool:
        removed = super().delete(kind, existing)
        metadata = existing["metadata"]
        if removed and kind is CLAIMS:
            self.objects.pop((SANDBOXES, metadata["namespace"], metadata["name"]), None)
            home = self.objects.pop((VOLUME_CLAIMS, metadata["namespace"], f"home-{metadata['name']}"), None)
            if home is not None:
                self._release(home)
        if removed and kind is VOLUME_CLAIMS:
            self._release(existing)
        return removed

    def _start(self, namespace: str, name: str, claim: Document) -> None:
        owners = [{"uid": claim["metadata"]["uid"], "kind": "SandboxClaim"}]
        metadata = {"name": name, "namespace": namespace, "ownerReferences": owners}
        self.put(SANDBOXES, {"metadata": metadata, "spec": {"operatingMode": "Running"}})
        key = (VOLUME_CLAIMS, namespace, f"home-{name}")
        if key not in self.objects:
            metadata = {"name": key[2], "namespace": namespace, "labels": {"sandbox.users.io/class": "box"}}
            self.put(VOLUME_CLAIMS, {"metadata": metadata, "spec": {}})
            self._bind(self.objects[key])
        uid = self.objects[SANDBOXES, namespace, name]["metadata"]["uid"]
        self.objects[key]["metadata"]["ownerReferences"] = [{"uid": uid}]

    def _bind(self, claim: Document) -> None:
        metadata = claim["metadata"]
        metadata["creationTimestamp"] = format_timestamp(START)
        ref = {"namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"]}
        name = claim["spec"].get("volumeName")
        if name is None:
            self._provisioned += 1
            name = claim["spec"]["volumeName"] = f"pvc-{self._provisioned}"
            spec: Document = {"persistentVolumeReclaimPolicy": "Delete", "accessModes": ["ReadWriteMany"]}
            spec |= {"csi": {"driver": DRIVER, "volumeHandle": f"fs-1::fsap-{name}"}, "capacity": {"storage": "5Gi"}}
            annotations = {"pv.kubernetes.io/provisioned-by": DRIVER}
            spec |= {"storageClassName": "efs-box"}
            self.put(VOLUMES, {"metadata": {"name": name, "annotations": annotations}, "spec": spec})
        volume = self.objects[VOLUMES, "", name]
        status = {"phase": "Bound", "lastPhaseTransitionTime": format_timestamp(START)}
        self.put(VOLUMES, {**volume, "spec": {**volume["spec"], "claimRef": ref}, "status": status})

    def _release(self, claim: Document) -> None:
        name = claim["spec"].get("volumeName")
        volume = self.objects.get((VOLUMES, "", name))
        if volume is None:
            return
        if volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete":
            del self.objects[VOLUMES, "", name]
        else:
            status = {"phase": "Released", "lastPhaseTransitionTime": format_timestamp(START)}
            self.put(VOLUMES, {**volume, "status": status})

    def volume(self, namespace: str, volume_claim: str) -> str:
        """Return the name of a volume claim's volume."""
        return self.objects[VOLUME_CLAIMS, namespace, volume_claim]["spec"]["volumeName"]

    def deleted(self) -> dict[str, bool]:
        """Return for each volume whether it records a deletion."""
        volumes = {name: document for (kind, _, name), document in self.objects.items() if kind is VOLUMES}
        return {name: DELETED_AT in section(document["metadata"], "annotations") for name, document in volumes.items()}
