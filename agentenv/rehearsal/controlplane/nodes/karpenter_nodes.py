"""Karpenter's stand-in: nodes for every NodePool, as long as its controller is up.

It looks at NodePools and EC2NodeClasses as the cluster has them, and at the subnets that a class selects. Each node
has a NodeClaim, which holds its pool. Without a Ready karpenter Deployment nothing is launched and nothing is taken
away, as on AWS: whoever destroys the controller before its pools is left with nodes. Simplified: a pool has a node in
each zone from the start and no more, instead of what the waiting pods ask for; nothing is consolidated or interrupted;
no EC2 instances are made.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from agentenv.rehearsal.controlplane.auth.account import Account
from agentenv.rehearsal.controlplane.client import ApiError, Client
from agentenv.rehearsal.controlplane.nodes import ec2_queries as ec2
from agentenv.rehearsal.controlplane.nodes import karpenter_launches as launches
from agentenv.rehearsal.controlplane.nodes import node_claims
from agentenv.rehearsal.controlplane.nodes.kwok_nodes import NodeShape

Object = dict[str, Any]

_LOG = logging.getLogger(__name__)
_POOLS = "/apis/karpenter.sh/v1/nodepools"
_CLASSES = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses"
_CONTROLLERS = "/apis/apps/v1/deployments"
_SELECTOR = "app.kubernetes.io/name=karpenter"
_CORES = 8
_EVERY_SECONDS = 1.0
_MEMORY_SECONDS = 10.0


class Launcher:
    """Keeps the nodes of one cluster's pools."""

    def __init__(self, client: Client, account: Account) -> None:
        self._client = client
        self._account = account
        self._types: Sequence[launches.InstanceType] = ()
        self._launched: dict[str, NodeShape] = {}  # by the node's name
        self._zones_known: dict[str, tuple[float, list[str]]] = {}

    def attend(self, ended: threading.Event) -> None:
        """Look again and again until told to end."""
        while not ended.wait(_EVERY_SECONDS):
            try:
                self._look()
            except (ApiError, OSError) as error:
                _LOG.warning("Karpenter's nodes: %s", error)

    def _look(self) -> None:
        pools, known = self._there(_POOLS), self._there(_CLASSES)
        if not pools and not known and not self._launched:
            return
        if not self._controller_is_up():
            return
        self._end_released()
        classes = {row["metadata"]["name"]: row for row in known}
        zones = {name: self._zones(row) for name, row in classes.items()}
        wanted: dict[str, tuple[Object, NodeShape]] = {}
        for pool in pools:
            reference = pool["spec"]["template"]["spec"]["nodeClassRef"]["name"]
            offered = zones.get(reference, [])
            launched = launches.launch(pool, self._known_types(), offered, cpu=_CORES)
            wanted |= {shape.name: (pool, shape) for shape in launched}
        for name, shape in self._launched.items():
            if name not in wanted or wanted[name][1] != shape:
                self._client.delete(f"{node_claims.PATH}/{name}")
        self._end_released()
        for name, (pool, shape) in wanted.items():
            if name not in self._launched:
                self._launch(pool, shape)
        for name, row in classes.items():
            self._tell(f"{_CLASSES}/{name}", row, ready=bool(zones[name]), why="SubnetsNotFound")
        for pool in pools:
            ready = bool(zones.get(pool["spec"]["template"]["spec"]["nodeClassRef"]["name"]))
            self._tell(f"{_POOLS}/{pool['metadata']['name']}", pool, ready=ready, why="NodeClassNotReady")

    def _launch(self, pool: Object, shape: NodeShape) -> None:
        """A node for a pool that stands, before and after: one for a pool that went meanwhile would stay for ever."""
        if not self._stands(pool):
            return
        self._client.make(node_claims.node_claim(pool, shape))
        self._client.make(shape.node())
        self._launched[shape.name] = shape
        if not self._stands(pool):
            self._client.delete(f"{node_claims.PATH}/{shape.name}")
            self._release(shape.name)

    def _stands(self, pool: Object) -> bool:
        found = self._client.find(f"{_POOLS}/{pool['metadata']['name']}")
        about: Object = found["metadata"] if found else {}
        return about.get("uid") == pool["metadata"]["uid"] and "deletionTimestamp" not in about

    def _release(self, name: str) -> None:
        """Take a node away, and let its claim go, if that has not gone by itself."""
        self._take_away(name)
        if self._client.find(f"{node_claims.PATH}/{name}"):
            self._client.merge(f"{node_claims.PATH}/{name}", {"metadata": {"finalizers": None}})
        self._launched.pop(name, None)

    def _end_released(self) -> None:
        """Take away the nodes whose claims are on their way out, whoever deleted those, and let the claims go."""
        listed = self._client.find(node_claims.PATH)
        for claim in listed["items"] if listed else []:
            if "deletionTimestamp" in claim["metadata"]:
                self._release(claim["metadata"]["name"])

    def _there(self, path: str) -> list[Object]:
        """What is there and not on its way out; nothing, too, where the kind itself is not there."""
        listed = self._client.find(path)
        rows: list[Object] = listed["items"] if listed else []
        return [row for row in rows if "deletionTimestamp" not in row["metadata"]]

    def _controller_is_up(self) -> bool:
        found = self._client.get(_CONTROLLERS, labelSelector=_SELECTOR)["items"]
        return any((row.get("status") or {}).get("readyReplicas") for row in found)

    def _zones(self, node_class: Object) -> list[str]:
        """The zones of the subnets that a class selects; asked again now and then, as the subnets may change."""
        about = node_class["metadata"]
        which, now = f"{about['uid']}/{about.get('generation')}", time.monotonic()
        known = self._zones_known.get(which)
        if known is None or now - known[0] > (_MEMORY_SECONDS if known[1] else _EVERY_SECONDS):
            found = ec2.zones(self._account, node_class["spec"].get("subnetSelectorTerms") or [])
            known = self._zones_known[which] = (now, found)
        return known[1]

    def _known_types(self) -> Sequence[launches.InstanceType]:
        if not self._types:
            self._types = ec2.instance_types(self._account)
        return self._types

    def _take_away(self, name: str) -> None:
        """Drain a node and let it go."""
        for pod in self._client.get("/api/v1/pods", fieldSelector=f"spec.nodeName={name}")["items"]:
            about = pod["metadata"]
            self._client.delete(f"/api/v1/namespaces/{about['namespace']}/pods/{about['name']}", gracePeriodSeconds=0)
        self._client.delete(f"/api/v1/nodes/{name}")

    def _tell(self, path: str, thing: Object, *, ready: bool, why: str) -> None:
        """The condition that everybody waits for, written when it changes."""
        status, generation = "True" if ready else "False", thing["metadata"].get("generation", 1)
        known = (thing.get("status") or {}).get("conditions") or []
        if any(
            (row["type"], row["status"], row.get("observedGeneration")) == ("Ready", status, generation)
            for row in known
        ):
            return
        condition = {
            "type": "Ready",
            "status": status,
            "reason": "Ready" if ready else why,
            "message": "" if ready else "no subnet is selected",
            "observedGeneration": generation,
            "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        self._client.merge(f"{path}/status", {"status": {"conditions": [condition]}})
