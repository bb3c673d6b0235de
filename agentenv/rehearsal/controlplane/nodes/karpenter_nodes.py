"""The simulated Karpenter: nodes for every NodePool while its controller is up.

It reads NodePools and EC2NodeClasses from the cluster, and the subnets that a class selects from EC2. Each node has a
NodeClaim, which blocks the deletion of its pool. Without a Ready karpenter Deployment nothing is launched or deleted,
as on AWS: a controller that is destroyed before its pools leaves nodes behind. Spot nodes are interrupted by messages
in the controller's queue (`interruptions.py`). Simplified: a pool has one node in each zone from the start, whatever
pods wait; nothing is consolidated; no EC2 instances are created.
Spot capacity needs the account's service-linked role, which EC2 creates with the controller's permission.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from agentenv.core.iam.principals import SPOT
from agentenv.rehearsal.controlplane.auth.account import Account
from agentenv.rehearsal.controlplane.auth.pod_credentials import NoCredentials, PodCredentials
from agentenv.rehearsal.controlplane.client import ApiError, Client
from agentenv.rehearsal.controlplane.nodes import ec2_queries, karpenter_launches, node_claims
from agentenv.rehearsal.controlplane.nodes.interruptions import Interruptions, queue_of
from agentenv.rehearsal.controlplane.nodes.kwok_nodes import NodeShape

Object = dict[str, Any]

_LOG = logging.getLogger(__name__)
_POOLS = "/apis/karpenter.sh/v1/nodepools"
_CLASSES = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses"
_CONTROLLERS = "/apis/apps/v1/deployments"
_SELECTOR = "app.kubernetes.io/name=karpenter"
_CORES = 8
_INTERVAL_SECONDS = 1.0
_CACHE_SECONDS = 10.0


class Launcher:
    """Reconciles the nodes of one cluster's pools."""

    def __init__(self, client: Client, account: Account) -> None:
        self._client = client
        self._account = account
        self._types: Sequence[karpenter_launches.InstanceType] = ()
        self._launched: dict[str, NodeShape] = {}  # by node name
        self._shapes: dict[str, tuple[object, list[NodeShape]]] = {}  # by the uid of a pool
        self._zones_cache: dict[str, tuple[float, list[str]]] = {}
        self._spot_role_exists = False
        self._interruptions = Interruptions(client)
        self._credentials: PodCredentials | None = None

    def run(self, ended: threading.Event) -> None:
        """Reconcile repeatedly until told to end."""
        while not ended.wait(_INTERVAL_SECONDS):
            try:
                self._reconcile()
            except (ApiError, OSError) as error:
                _LOG.warning("Karpenter's nodes: %s", error)

    def _reconcile(self) -> None:
        pools, node_classes = self._active(_POOLS), self._active(_CLASSES)
        if not pools and not node_classes and not self._launched:
            return
        controller = self._controller()
        if controller is None:
            return
        self._receive_interruptions(controller)
        self._delete_released()
        classes = {row["metadata"]["name"]: row for row in node_classes}
        zones = {name: self._zones(row) for name, row in classes.items()}
        desired: dict[str, tuple[Object, NodeShape]] = {}
        for pool in pools:
            reference = pool["spec"]["template"]["spec"]["nodeClassRef"]["name"]
            shapes = self._shapes_of(pool, zones.get(reference, []))
            desired |= {shape.name: (pool, shape) for shape in map(self._interruptions.placed, shapes)}
        for name, shape in self._launched.items():
            if name not in desired or desired[name][1] != shape:
                self._client.delete(f"{node_claims.PATH}/{name}")
        self._delete_released()
        for name, (pool, shape) in desired.items():
            if name not in self._launched and (_is_on_demand(shape) or self._may_use_spot(controller)):
                self._launch(pool, shape)
        for name, row in classes.items():
            self._set_ready(f"{_CLASSES}/{name}", row, ready=bool(zones[name]), reason="SubnetsOrImagesNotFound")
        for pool in pools:
            ready = bool(zones.get(pool["spec"]["template"]["spec"]["nodeClassRef"]["name"]))
            self._set_ready(f"{_POOLS}/{pool['metadata']['name']}", pool, ready=ready, reason="NodeClassNotReady")

    def _launch(self, pool: Object, shape: NodeShape) -> None:
        """Create a node for a pool, checking before and after that the pool exists: else the node would never be
        deleted.
        """
        if not self._exists(pool):
            return
        self._client.create_if_missing(node_claims.node_claim(pool, shape))
        self._client.create_if_missing(shape.node())
        self._launched[shape.name] = shape
        if not self._exists(pool):
            self._client.delete(f"{node_claims.PATH}/{shape.name}")
            self._release(shape.name)

    def _exists(self, pool: Object) -> bool:
        existing = self._client.find(f"{_POOLS}/{pool['metadata']['name']}")
        metadata: Object = existing["metadata"] if existing else {}
        return metadata.get("uid") == pool["metadata"]["uid"] and "deletionTimestamp" not in metadata

    def _release(self, name: str, *, lost: bool = False) -> None:
        """Delete a node, and remove its claim's finalizer if the claim still exists.

        The pods of an instance that is lost are left: nobody reports their end.
        """
        if lost:
            self._client.delete(f"/api/v1/nodes/{name}")
        else:
            self._delete_node(name)
        if self._client.find(f"{node_claims.PATH}/{name}"):
            self._client.merge(f"{node_claims.PATH}/{name}", {"metadata": {"finalizers": None}})
        self._launched.pop(name, None)

    def _delete_released(self) -> None:
        """Delete the nodes of claims that are being deleted, and release these claims."""
        response = self._client.find(node_claims.PATH)
        for claim in response["items"] if response else []:
            name = claim["metadata"]["name"]
            if "deletionTimestamp" not in claim["metadata"]:
                continue
            interrupted = self._interruptions.is_interrupted(name)
            if self._interruptions.is_over(name):
                self._release(name, lost=interrupted)

    def _active(self, path: str) -> list[Object]:
        """Return the objects that are not being deleted; none if the kind does not exist."""
        response = self._client.find(path)
        rows: list[Object] = response["items"] if response else []
        return [row for row in rows if "deletionTimestamp" not in row["metadata"]]

    def _controller(self) -> Object | None:
        """Return the controller's Deployment while a replica is Ready."""
        deployments = self._client.get(_CONTROLLERS, labelSelector=_SELECTOR)["items"]
        return next((row for row in deployments if (row.get("status") or {}).get("readyReplicas")), None)

    def _service(self, controller: Object, name: str) -> Any:
        """Return a client of a service with the credentials of the controller."""
        if self._credentials is None:
            namespace = controller["metadata"]["namespace"]
            service_account = controller["spec"]["template"]["spec"].get("serviceAccountName", "default")
            self._credentials = PodCredentials(self._client, self._account, namespace, service_account)
        return self._credentials.service(name)

    def _receive_interruptions(self, controller: Object) -> None:
        """Read the controller's queue, if it has one and there are Spot nodes to interrupt."""
        from botocore.exceptions import ClientError

        queue = queue_of(controller)
        if not queue or all(map(_is_on_demand, self._launched.values())):
            return
        try:
            self._interruptions.receive(self._service(controller, "sqs"), queue)
        except (NoCredentials, ClientError) as error:
            _LOG.warning("Karpenter's nodes: the queue %s cannot be read: %s", queue, error)

    def _may_use_spot(self, controller: Object) -> bool:
        """Return whether the account's role for Spot exists, or can be created as the controller."""
        from botocore.exceptions import ClientError

        if not self._spot_role_exists:
            try:
                self._service(controller, "iam").create_service_linked_role(AWSServiceName=SPOT)
            except NoCredentials as error:
                _LOG.warning("Karpenter's nodes: %s", error)
                return False
            except ClientError as error:
                if error.response["Error"]["Code"] != "InvalidInput":  # it exists
                    code = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
                    _LOG.warning("Karpenter's nodes: launching node claim, creating instance, %s: %s", code, error)
                    return False
            self._spot_role_exists = True
        return True

    def _zones(self, node_class: Object) -> list[str]:
        """Return the zones of the subnets that a class selects, none without an image; cached for a while."""
        metadata = node_class["metadata"]
        key, now = f"{metadata['uid']}/{metadata.get('generation')}", time.monotonic()
        cached = self._zones_cache.get(key)
        if cached is None or now - cached[0] > (_CACHE_SECONDS if cached[1] else _INTERVAL_SECONDS):
            spec = node_class["spec"]
            names = ec2_queries.zones(self._account, spec.get("subnetSelectorTerms") or [])
            if not ec2_queries.images_exist(self._account, spec.get("amiSelectorTerms") or []):
                names = []
            cached = self._zones_cache[key] = (now, names)
        return cached[1]

    def _shapes_of(self, pool: Object, zones: list[str]) -> list[NodeShape]:
        """Return the nodes of a pool, chosen again only when the pool or its zones change."""
        metadata, types = pool["metadata"], self._instance_types()
        state = metadata.get("generation"), zones, bool(types)
        cached = self._shapes.get(metadata["uid"])
        if cached is None or cached[0] != state:
            shapes = karpenter_launches.launch(pool, types, zones, cpu=_CORES)
            cached = self._shapes[metadata["uid"]] = state, shapes
        return cached[1]

    def _instance_types(self) -> Sequence[karpenter_launches.InstanceType]:
        if not self._types:
            self._types = ec2_queries.instance_types(self._account)
        return self._types

    def _delete_node(self, name: str) -> None:
        """Drain a node and delete it."""
        for pod in self._client.get("/api/v1/pods", fieldSelector=f"spec.nodeName={name}")["items"]:
            metadata = pod["metadata"]
            self._client.delete(
                f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}", gracePeriodSeconds=0
            )
        self._client.delete(f"/api/v1/nodes/{name}")

    def _set_ready(self, path: str, resource: Object, *, ready: bool, reason: str) -> None:
        """Write the Ready condition when it changes."""
        status, generation = "True" if ready else "False", resource["metadata"].get("generation", 1)
        conditions = (resource.get("status") or {}).get("conditions") or []
        if any(
            (row["type"], row["status"], row.get("observedGeneration")) == ("Ready", status, generation)
            for row in conditions
        ):
            return
        condition = {
            "type": "Ready",
            "status": status,
            "reason": "Ready" if ready else reason,
            "message": "" if ready else "no subnet or no image is selected",
            "observedGeneration": generation,
            "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        self._client.merge(f"{path}/status", {"status": {"conditions": [condition]}})


def _is_on_demand(shape: NodeShape) -> bool:
    return shape.labels.get(karpenter_launches.CAPACITY) != "spot"
