"""A claimed sandbox with its pod and home, as the cluster has them."""

from __future__ import annotations

from typing import Any

from agentenv.service.kube.client import CLAIMS, PODS, SANDBOXES, VOLUME_CLAIMS, VOLUMES
from tests.fast.service.fake_api_server import FakeApiServer

Document = dict[str, Any]
SPACE = "sandbox-standard"
CLAIMED, PLACED = "2026-11-17T12:01:00Z", "2026-11-17T12:00:00Z"


def owned(uid: str, kind: str, name: str) -> list[Document]:
    return [{"kind": kind, "name": name, "uid": uid, "controller": True}]


def whose(owner: str, name: str) -> Document:
    return {
        "sandbox.users.io/user": owner,
        "sandbox.users.io/workspace": name,
        "sandbox.users.io/mode": "user",
        "sandbox.users.io/class": "standard",
    }


def claim(api: FakeApiServer, owner: str = "u-1", name: str = "w-1", **notes: str) -> Document:
    """A claim with its sandbox, which runs."""
    labels = whose(owner, name)
    made: Document = {
        "apiVersion": "extensions.agents.x-k8s.io/v1beta1",
        "metadata": {
            "name": name,
            "namespace": SPACE,
            "uid": f"claim-{name}",
            "creationTimestamp": CLAIMED,
            "annotations": dict(notes),
        },
        "spec": {"additionalPodMetadata": {"labels": labels}},
        "status": {"sandbox": {"name": f"box-{name}"}},
    }
    api.put(CLAIMS, made)
    metadata = {"name": f"box-{name}", "namespace": SPACE, "uid": f"box-{name}"}
    metadata |= {"ownerReferences": owned(f"claim-{name}", "SandboxClaim", name)}
    api.put(SANDBOXES, {"metadata": metadata, "spec": {"operatingMode": "Running", "podTemplate": {"spec": {}}}})
    home = {"name": f"home-box-{name}", "namespace": SPACE, "uid": f"pvc-{name}"}
    asked = {"volumeName": f"pv-{name}", "resources": {"requests": {"storage": "5Gi"}}}
    api.put(VOLUME_CLAIMS, {"metadata": home, "spec": asked})
    volume = {"name": f"pv-{name}", "uid": f"pv-{name}", "labels": labels}
    bound = {"namespace": SPACE, "name": f"home-box-{name}"}
    api.put(VOLUMES, {"metadata": volume, "spec": {"claimRef": bound, "capacity": {"storage": "5Gi"}}})
    pod(api, name, owner)
    return made


def pod(
    api: FakeApiServer, name: str = "w-1", owner: str = "u-1", uid: str | None = None, placed: str = PLACED
) -> None:
    """The pod of a claim's sandbox."""
    metadata = {"name": f"box-{name}", "namespace": SPACE, "uid": uid or f"pod-{name}", "labels": whose(owner, name)}
    metadata |= {"ownerReferences": owned(f"box-{name}", "Sandbox", f"box-{name}")}
    api.objects.pop((PODS, SPACE, f"box-{name}"), None)
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
    """Its pod goes, and its sandbox says since when."""
    api.objects.pop((PODS, SPACE, f"box-{name}"), None)
    box = api.objects[SANDBOXES, SPACE, f"box-{name}"]
    box["spec"]["operatingMode"] = "Suspended"
    box["status"] = {"conditions": [{"type": "Suspended", "status": "True", "lastTransitionTime": since}]}


def going(api: FakeApiServer, name: str = "w-1", at: str = "2026-11-17T15:00:00Z") -> None:
    """Its volume says when it was deleted, and its claim waits for what hangs on it."""
    volume = api.objects[VOLUMES, "", f"pv-{name}"]
    volume["metadata"]["annotations"] = {"sandbox.users.io/deleted-at": at}
    claim = api.objects[CLAIMS, SPACE, name]
    claim["metadata"]["deletionTimestamp"] = at


def delete(api: FakeApiServer, name: str = "w-1", at: str | None = "2026-11-17T15:00:00Z") -> None:
    """All of it goes but its volume, which says when."""
    for kind, named in ((CLAIMS, name), (SANDBOXES, f"box-{name}"), (PODS, f"box-{name}")):
        api.objects.pop((kind, SPACE, named), None)
    api.objects.pop((VOLUME_CLAIMS, SPACE, f"home-box-{name}"), None)
    if at is not None:
        volume = api.objects[VOLUMES, "", f"pv-{name}"]
        volume["metadata"]["annotations"] = {"sandbox.users.io/deleted-at": at}
