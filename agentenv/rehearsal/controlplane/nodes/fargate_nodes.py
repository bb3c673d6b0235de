"""The Fargate scheduler's stand-in: a node for each marked pod, gone when the pod is."""

from __future__ import annotations

import logging
import threading
from typing import Any

from agentenv.rehearsal.controlplane.client import ApiError, Client
from agentenv.rehearsal.controlplane.nodes import fargate
from agentenv.rehearsal.controlplane.nodes.kwok_nodes import NodeShape

Object = dict[str, Any]

_LOG = logging.getLogger(__name__)
_PODS = "/api/v1/pods"


def attend(client: Client, zone: str, ended: threading.Event) -> None:
    """Watch the pods that are marked for Fargate until told to end."""
    scheduled: dict[str, str] = {}  # the pod's uid and its node
    selector = f"spec.schedulerName={fargate.SCHEDULER}"
    for kind, pod in client.watch(_PODS, ended, fieldSelector=selector):
        uid = pod["metadata"]["uid"]
        over = kind == "DELETED" or (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}
        try:
            if over:
                if node := scheduled.pop(uid, (pod["spec"].get("nodeName") or "")):
                    client.delete(f"/api/v1/nodes/{node}")
            elif uid not in scheduled and not pod["spec"].get("nodeName") and (node := _place(client, pod, zone)):
                scheduled[uid] = node
        except ApiError as error:
            # 404 and 409: somebody else was faster, and the pod is gone or bound
            if error.status not in {404, 409}:
                _LOG.warning("Fargate: %s/%s: %s", pod["metadata"]["namespace"], pod["metadata"]["name"], error)


def _place(client: Client, pod: Object, zone: str) -> str | None:
    about, spec = pod["metadata"], pod["spec"]
    path = f"/api/v1/namespaces/{about['namespace']}/pods/{about['name']}"
    if refused := fargate.unsupported(spec):
        _unplaced(client, path, pod, f"Pod not supported on Fargate: fields not supported: {', '.join(refused)}")
        return None
    provided = fargate.size(spec)
    if provided is None:
        _unplaced(client, path, pod, "Pod not supported on Fargate: it requests more than the largest size has")
        return None
    shape = NodeShape(
        name=f"fargate-{about['uid'][:13]}",
        zone=zone,
        instance_type="",
        cpu=str(provided.cpu),
        memory=f"{int(provided.memory * 1024)}Mi",
        pods=1,
        labels={fargate.COMPUTE: "fargate"},
        taints=(f"{fargate.COMPUTE}=fargate:NoSchedule",),
    )
    client.make(shape.node())
    client.merge(path, {"metadata": {"annotations": {"CapacityProvisioned": fargate.capacity(provided)}}})
    client.request(
        "POST",
        f"{path}/binding",
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": about["name"], "uid": about["uid"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": shape.name},
        },
    )
    return shape.name


def _unplaced(client: Client, path: str, pod: Object, words: str) -> None:
    told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}
    known = (pod.get("status") or {}).get("conditions") or []
    if not any(one.get("message") == words for one in known):
        client.request(
            "PATCH",
            f"{path}/status",
            {"status": {"conditions": [told]}},
            content="application/strategic-merge-patch+json",
        )
