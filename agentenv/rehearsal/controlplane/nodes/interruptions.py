"""Spot interruptions as Karpenter handles them: a warning in its queue, a taint, a drain, and the end of the instance.

A warning comes two minutes before EC2 takes an instance. Karpenter deletes the NodeClaim: the node is tainted and
drained, but pods that may not be disrupted are not evicted. They end with the instance, without a signal, and their
objects stay until Kubernetes finds that their node is gone. A node that is drained earlier ends earlier.
"""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from agentenv.core.lifecycle.moving import DISRUPTED
from agentenv.core.workspaces.claims import DO_NOT_DISRUPT
from agentenv.rehearsal.controlplane.client import ApiError, Client
from agentenv.rehearsal.controlplane.events import Recorder
from agentenv.rehearsal.controlplane.nodes import node_claims
from agentenv.rehearsal.controlplane.nodes.kwok_nodes import NodeShape

Object = dict[str, Any]

QUEUE: Final = "INTERRUPTION_QUEUE"  # the variable of Karpenter's controller with the name of its queue
WARNING: Final = "EC2 Spot Instance Interruption Warning"
SECONDS: Final = 120.0
_LOG = logging.getLogger(__name__)
_CONTINUE = 429  # an eviction that a disruption budget refuses


def send_warning(sqs: Any, queue_url: str, instance_id: str) -> None:
    """Send the warning of one instance to a queue, as EventBridge does."""
    detail = {"instance-id": instance_id, "instance-action": "terminate"}
    message = {"version": "0", "source": "aws.ec2", "detail-type": WARNING, "detail": detail}
    sqs.send_message(QueueUrl=queue_url, MessageBody=json.dumps(message))


def queue_of(controller: Object) -> str:
    """Return the name of the queue that a controller reads; empty without one."""
    containers = controller["spec"]["template"]["spec"].get("containers") or ()
    variables = [row for container in containers for row in container.get("env") or ()]
    return next((row.get("value") or "" for row in variables if row["name"] == QUEUE), "")


class Interruptions:
    """The interrupted nodes of a cluster, until their instances end."""

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._clock = client, clock
        self._ends: dict[str, float] = {}  # when the instance of a node ends
        self._counts: Counter[str] = Counter()  # of the interruptions of a place, by the name of its first node
        self._first: dict[str, str] = {}

    def receive(self, sqs: Any, queue: str) -> None:
        """Read the warnings in a queue, and begin with each."""
        url = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
        for message in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", ()):
            body = json.loads(message["Body"])
            if body.get("detail-type") == WARNING:
                self._begin(body["detail"]["instance-id"])
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    def placed(self, shape: NodeShape) -> NodeShape:
        """Return the shape of the node that a place has now: another one after each interruption."""
        count = self._counts[shape.name]
        current = replace(shape, name=f"{shape.name}-{count}") if count else shape
        self._first[current.name] = shape.name
        return current

    def is_interrupted(self, name: str) -> bool:
        """Return whether a node was warned."""
        return name in self._ends

    def is_over(self, name: str) -> bool:
        """Return whether a node is drained or its instance has ended; drain it further if not. True for other nodes."""
        end = self._ends.get(name)
        if end is None:
            return True
        path = f"/api/v1/nodes/{name}"
        node = self._client.find(path)
        if node is not None and not any(row["key"] == DISRUPTED for row in node["spec"].get("taints") or ()):
            taints = [*(node["spec"].get("taints") or ()), {"key": DISRUPTED, "effect": "NoSchedule"}]
            self._client.merge(path, {"spec": {"taints": taints}})
        if node is not None and self._clock() < end and not self._is_drained(name):
            return False
        del self._ends[name]
        return True

    def _begin(self, instance_id: str) -> None:
        for node in self._client.get("/api/v1/nodes")["items"]:
            name: str = node["metadata"]["name"]
            if node["spec"].get("providerID", "").endswith(f"/{instance_id}") and name not in self._ends:
                node |= {"apiVersion": "v1", "kind": "Node"}
                message = "Spot interruption warning was triggered"
                Recorder(self._client, "karpenter").record(node, "SpotInterrupted", message, warning=True)
                self._ends[name] = self._clock() + SECONDS
                self._counts[self._first.get(name, name)] += 1
                self._client.delete(f"{node_claims.PATH}/{name}")

    def _is_drained(self, name: str) -> bool:
        """Evict the pods of a node that may be; return whether none is left but those of DaemonSets."""
        left = [
            pod
            for pod in self._client.get("/api/v1/pods", fieldSelector=f"spec.nodeName={name}")["items"]
            if not any(row["kind"] == "DaemonSet" for row in pod["metadata"].get("ownerReferences") or ())
        ]
        for pod in left:
            metadata = pod["metadata"]
            if (metadata.get("annotations") or {}).get(DO_NOT_DISRUPT) == "true" or "deletionTimestamp" in metadata:
                continue
            self._evict(metadata)
        return not left

    def _evict(self, metadata: Object) -> None:
        about = {"name": metadata["name"], "namespace": metadata["namespace"]}
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": about}
        path = f"/api/v1/namespaces/{about['namespace']}/pods/{about['name']}/eviction"
        try:
            self._client.request("POST", path, eviction)
        except ApiError as error:
            if error.status not in {404, _CONTINUE}:
                raise
            _LOG.info("%s is evicted later: %s", about["name"], error)
