"""The objects of a claimed sandbox: claim, sandbox, pod and home."""

from __future__ import annotations

from typing import Any

from agentenv.service.kube.client import CLAIMS, PODS, SANDBOXES, VOLUME_CLAIMS, VOLUMES
from tests.fast.service.fake_api_server import FakeApiServer

Document = dict[str, Any]
NAMESPACE = "sandbox-standard"
CLAIMED, PLACED = "2026-11-17T12:01:00Z", "2026-11-17T12:00:00Z"


def owned(uid: str, kind: str, name: str) -> list[Document]:
    return [{"kind": kind, "name": name, "uid": uid, "controller": True}]


def labels_of(owner: str, name: str) -> Document:
    return {
        "sandbox.users.io/user": owner,
        "sandbox.users.io/workspace": name,
        "sandbox.users.io/mode": "user",
        "sandbox.users.io/class": "standard",
    }


def claim(api: FakeApiServer, owner: str = "u-1", name: str = "w-1", **annotations: str) -> Document:
    """Create a claim with a running sandbox."""
    labels = labels_of(owner, name)
    claim_document: Document = {
        "apiVersion": "extensions.agents.x-k8s.io/v1beta1",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"claim-{name}",
            "creationTimestamp": CLAIMED,
            "annotations": dict(annotations),
        },
        "spec": {"additionalPodMetadata": {"labels": labels}},
        "status": {"sandbox": {"name": f"box-{name}"}},
    }
    api.put(CLAIMS, claim_document)
    metadata = {"name": f"box-{name}", "namespace": NAMESPACE, "uid": f"box-{name}"}
    metadata |= {"ownerReferences": owned(f"claim-{name}", "SandboxClaim", name)}
    api.put(SANDBOXES, {"metadata": metadata, "spec": {"operatingMode": "Running", "podTemplate": {"spec": {}}}})
    home = {"name": f"home-box-{name}", "namespace": NAMESPACE, "uid": f"pvc-{name}"}
    spec = {"volumeName": f"pv-{name}", "resources": {"requests": {"storage": "5Gi"}}}
    api.put(VOLUME_CLAIMS, {"metadata": home, "spec": spec})
    volume = {"name": f"pv-{name}", "uid": f"pv-{name}", "labels": labels}
    claim_ref = {"namespace": NAMESPACE, "name": f"home-box-{name}"}
    api.put(VOLUMES, {"metadata": volume, "spec": {"claimRef": claim_ref, "capacity": {"storage": "5Gi"}}})
    pod(api, name, owner)
    return claim_document


def pod(
    api: FakeApiServer, name: str = "w-1", owner: str = "u-1", uid: str | None = None, placed: str = PLACED
) -> None:
    """Create the pod of a claim's sandbox."""
    metadata = {
        "name": f"box-{name}",
        "namespace": NAMESPACE,
        "uid": uid or f"pod-{name}",
        "labels": labels_of(owner, name),
    }
    metadata |= {"ownerReferences": owned(f"box-{name}", "Sandbox", f"box-{name}")}
    api.objects.pop((PODS, NAMESPACE, f"box-{name}"), None)
    api.put(
        PODS,
        {
            "metadata": metadata,
            "spec": {
                "containers": [{"resources": {"requests": {"cpu": "100m", "memory": "512Mi"}}}],
                "overhead": {"cpu": "100m", "memory": "512Mi"},
            },
            "status": {
                "phase": "Running",
                "podIPs": [{"ip": "10.40.1.7"}],
                "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": placed}],
            },
        },
    )


def suspend(api: FakeApiServer, name: str = "w-1", since: str = "2026-11-17T14:00:00Z") -> None:
    """Suspend a sandbox and delete its pod."""
    api.objects.pop((PODS, NAMESPACE, f"box-{name}"), None)
    box = api.objects[SANDBOXES, NAMESPACE, f"box-{name}"]
    box["spec"]["operatingMode"] = "Suspended"
    box["status"] = {"conditions": [{"type": "Suspended", "status": "True", "lastTransitionTime": since}]}


def start_deletion(api: FakeApiServer, name: str = "w-1", at: str = "2026-11-17T15:00:00Z") -> None:
    """Record the deletion on the volume, with the claim still being deleted."""
    volume = api.objects[VOLUMES, "", f"pv-{name}"]
    volume["metadata"]["annotations"] = {"sandbox.users.io/deleted-at": at}
    claim = api.objects[CLAIMS, NAMESPACE, name]
    claim["metadata"]["deletionTimestamp"] = at


def delete(api: FakeApiServer, name: str = "w-1", at: str | None = "2026-11-17T15:00:00Z") -> None:
    """Delete everything but the volume, which records the deletion."""
    for kind, object_name in ((CLAIMS, name), (SANDBOXES, f"box-{name}"), (PODS, f"box-{name}")):
        api.objects.pop((kind, NAMESPACE, object_name), None)
    api.objects.pop((VOLUME_CLAIMS, NAMESPACE, f"home-box-{name}"), None)
    if at is not None:
        volume = api.objects[VOLUMES, "", f"pv-{name}"]
        volume["metadata"]["annotations"] = {"sandbox.users.io/deleted-at": at}
