"""The simulated Fargate scheduler: a node for each marked pod, deleted with the pod."""

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


def run(client: Client, zone: str, ended: threading.Event) -> None:
    """Schedule the pods that are marked for Fargate until told to end."""
    scheduled: dict[str, str] = {}  # pod uid to node name
    selector = f"spec.schedulerName={fargate.SCHEDULER}"
    for kind, pod in client.watch(_PODS, ended, fieldSelector=selector):
        uid = pod["metadata"]["uid"]
        finished = kind == "DELETED" or (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}
        try:
            if finished:
                if node := scheduled.pop(uid, (pod["spec"].get("nodeName") or "")):
                    client.delete(f"/api/v1/nodes/{node}")
            elif uid not in scheduled and not pod["spec"].get("nodeName") and (node := _schedule(client, pod, zone)):
                scheduled[uid] = node
        except ApiError as error:
            # 404 and 409: the pod was deleted or bound meanwhile
            if error.status not in {404, 409}:
                _LOG.warning("Fargate: %s/%s: %s", pod["metadata"]["namespace"], pod["metadata"]["name"], error)


def _schedule(client: Client, pod: Object, zone: str) -> str | None:
    metadata, spec = pod["metadata"], pod["spec"]
    if fargate.LABEL not in (metadata.get("labels") or {}):
        return None
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
    if fields := fargate.unsupported(spec):
        _set_unschedulable(
            client, path, pod, f"Pod not supported on Fargate: fields not supported: {', '.join(fields)}"
        )
        return None
    provided = fargate.size(spec)
    if provided is None:
        _set_unschedulable(
            client, path, pod, "Pod not supported on Fargate: it requests more than the largest size has"
        )
        return None
    shape = NodeShape(
        name=f"fargate-{metadata['uid'][:13]}",
        zone=zone,
        instance_type="",
        cpu=str(provided.cpu),
        memory=f"{int(provided.memory * 1024)}Mi",
        pods=1,
        labels={fargate.COMPUTE: "fargate"},
        taints=(f"{fargate.COMPUTE}=fargate:NoSchedule",),
    )
    client.create_if_missing(shape.node())
    client.merge(path, {"metadata": {"annotations": {"CapacityProvisioned": fargate.capacity(provided)}}})
    client.request(
        "POST",
        f"{path}/binding",
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": metadata["name"], "uid": metadata["uid"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": shape.name},
        },
    )
    return shape.name


def _set_unschedulable(client: Client, path: str, pod: Object, message: str) -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    conditions = (pod.get("status") or {}).get("conditions") or []
    if not any(existing.get("message") == message for existing in conditions):
        client.request(
            "PATCH",
            f"{path}/status",
            {"status": {"conditions": [condition]}},
            content="application/strategic-merge-patch+json",
        )
