"""Measure the warm pools: wait until they are full, and time a workspace from the first until it is Ready.

The stack's own service creates the workspace where it is deployed (`service_probe.py`); else the probe creates the
claim itself. A stack without classes has no pool. Then the probe creates a temporary namespace with a pool of its
own, on nodes of the stack and filled by its controller.
"""

from __future__ import annotations

import json
import secrets
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import EXTENSIONS, SANDBOXES
from agentenv.core.service.deployment import FILE
from agentenv.core.service.rbac import NAME
from agentenv.core.workspaces.claims import claim
from agentenv.rehearsal.controlplane.client import Client, has_condition, until
from agentenv.rehearsal.scenario import command_probe, gateway_probe, service_probe, storage_probe
from agentenv.rehearsal.scenario.storage_probe import ProbeFailed

Object = dict[str, Any]

PROBE = "rehearsal-probe"
_POOLS = f"/apis/{EXTENSIONS}/sandboxwarmpools"
_SIZE = 3
_TIMEOUT_SECONDS = 60.0
_TICK_SECONDS = 0.005


@dataclass(frozen=True)
class Measurement:
    """The pools as they are, and the time that a workspace took."""

    pools: list[dict[str, Any]]
    new_workspace_ms: float
    slot: storage_probe.Slot | None  # its storage, the same after a suspension; None where its class has none
    through_service: bool = False
    first_command_ms: float | None = None
    entry: service_probe.Entry | None = None


def measure(
    client: Client,
    plane: Path | None = None,
    sign: command_probe.Signer | None = None,
    balancers: Mapping[str, Any] | None = None,
) -> Measurement:
    """Wait until every pool is full, and create a workspace from the first that has members.

    `plane` is the control plane's folder, which records the addresses where pod processes listen. `sign` signs tokens
    for commands in the workspace, as the stack's service does. `balancers` says where the listeners of load balancers
    are served.
    """
    own = [pool for pool in client.get(_POOLS)["items"] if pool["spec"].get("replicas")]
    if own and plane is not None and service_probe.is_deployed(client):
        return _measure_through_service(client, own, plane, sign, balancers or {})
    if own:
        return _measure_with_claim(client, own)
    with temporary_pool(client) as pool:
        return _measure_with_claim(client, [pool])


def _measure_through_service(
    client: Client, pools: list[Object], plane: Path, sign: command_probe.Signer | None, balancers: Mapping[str, Any]
) -> Measurement:
    rows = [wait_until_full(client, pool) for pool in pools]
    settings = _service_settings(client)
    audience, front = settings.get("audience"), gateway_probe.front_of(settings, balancers)
    with (
        service_probe.service_client(client, plane, audience) as service,
        service_probe.service_client(client, plane, audience) as stranger,
    ):
        visit = service_probe.Visit(front, stranger) if front is not None else None
        created = service_probe.probe_workspace(client, service, pools[0], sign, visit)
    if created.slot is not None:
        storage_probe.check_distinct(created.slot, _next_slot(client, pools[0]))
    return Measurement(rows, created.milliseconds, created.slot, True, created.first_command_ms, created.entry)


def audience_of(client: Client) -> str | None:
    """Return the audience that the service's settings require in tokens."""
    return _service_settings(client).get("audience")


def _service_settings(client: Client) -> dict[str, Any]:
    """Return the settings of the deployed service."""
    settings = client.get(f"/api/v1/namespaces/{NAME}/configmaps/{NAME}")["data"][FILE]
    return json.loads(settings)["config"].get("agent-environment:service") or {}


def _measure_with_claim(client: Client, pools: list[Object]) -> Measurement:
    rows = [wait_until_full(client, pool) for pool in pools]
    with ready_claim(client, pools[0]) as (ready, seconds):
        slot = storage_probe.slot_over_suspension(client, ready)
        if slot is not None:
            storage_probe.check_distinct(slot, _next_slot(client, pools[0]))
    return Measurement(rows, round(seconds * 1000, 1), slot)


def _next_slot(client: Client, pool: Object) -> storage_probe.Slot | None:
    with ready_claim(client, pool) as (ready, _):
        return storage_probe.slot_of(client, ready)


def wait_until_full(client: Client, pool: Object, timeout: float = _TIMEOUT_SECONDS) -> dict[str, Any]:
    """Wait until a pool has all its members; ProbeFailed with the reasons once none became Ready for that long."""
    size, ready = pool["spec"]["replicas"], 0
    while ready < size:
        if not until(lambda before=ready: ready_members(client, pool) > before, timeout):
            raise ProbeFailed(
                f"of the pool {_pool_name(pool)} {ready} of {size} sandboxes are Ready, and no other within "
                f"{timeout:.0f} s:\n{_not_ready_reasons(client, pool)}"
            )
        ready = ready_members(client, pool)
    return {"class": _class_of(pool), "ready": ready, "size": size}


def ready_members(client: Client, pool: Object) -> int:
    """Return the number of a pool's Ready sandboxes."""
    return (client.get(client.path(pool)).get("status") or {}).get("readyReplicas", 0)


@contextmanager
def ready_claim(client: Client, pool: Object) -> Iterator[tuple[Object, float]]:
    """Yield a claim that is Ready and the seconds that it took; it is deleted at the end."""
    document = _claim_document(pool)
    path = client.path(document)
    began = time.monotonic()
    client.create(document)
    try:
        ready = until(lambda: has_condition(client.get(path)), _TIMEOUT_SECONDS, every=_TICK_SECONDS)
        seconds = time.monotonic() - began
        if not ready:
            conditions = (client.get(path).get("status") or {}).get("conditions") or "nothing"
            raise ProbeFailed(f"a claim against {_pool_name(pool)} did not become Ready; its conditions: {conditions}")
        yield client.get(path), seconds
    finally:
        client.delete(path)
        until(lambda: client.find(path) is None, _TIMEOUT_SECONDS)


def _claim_document(pool: Object) -> Object:
    """Return a claim as the workspace service creates it; for the probe's own pool, a minimal one."""
    name = f"{PROBE}-{secrets.token_hex(3)}"
    metadata = pool["metadata"]
    if (of := (metadata.get("labels") or {}).get(CLASS_LABEL)) is not None:
        return claim(of, metadata["name"], name, owner=PROBE, workspace=name)
    claim_metadata = {"name": name, "namespace": metadata["namespace"]}
    spec = {"warmPoolRef": {"name": metadata["name"]}}
    return {"apiVersion": EXTENSIONS, "kind": "SandboxClaim", "metadata": claim_metadata, "spec": spec}


@contextmanager
def temporary_pool(client: Client, size: int = _SIZE) -> Iterator[Object]:
    """Yield a temporary pool of that size in a namespace of its own."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PROBE}}
    metadata = {"name": PROBE, "namespace": PROBE}
    template = {"spec": {**_placement(client), "containers": [{"name": "main", "image": "registry.example.com/probe"}]}}
    try:
        client.create(namespace)
        until(lambda: client.find(f"/api/v1/namespaces/{PROBE}/serviceaccounts/default"), _TIMEOUT_SECONDS)
        for kind, spec in (
            ("SandboxTemplate", {"podTemplate": template}),
            ("SandboxWarmPool", {"replicas": size, "sandboxTemplateRef": {"name": PROBE}}),
        ):
            pool = client.create({"apiVersion": EXTENSIONS, "kind": kind, "metadata": metadata, "spec": spec})
        yield pool
    finally:
        for kind in ("SandboxWarmPool", "SandboxTemplate"):
            client.delete(client.path({"apiVersion": EXTENSIONS, "kind": kind, "metadata": metadata}))
        # Deleted seconds later; if it remains, the census lists it
        client.delete(client.path(namespace))


def _placement(client: Client) -> Object:
    """Return the node selector and tolerations of the first pool that has taints, if the stack has one."""
    pools = client.get("/apis/karpenter.sh/v1/nodepools")["items"]
    for pool in pools:
        if taints := pool["spec"]["template"]["spec"].get("taints"):
            tolerations = [{"operator": "Equal", **taint} for taint in taints]
            return {"nodeSelector": {"karpenter.sh/nodepool": pool["metadata"]["name"]}, "tolerations": tolerations}
    return {}


def _class_of(pool: Object) -> str:
    return (pool["metadata"].get("labels") or {}).get(CLASS_LABEL) or pool["metadata"]["name"]


def _pool_name(pool: Object) -> str:
    return f"{pool['metadata']['namespace']}/{pool['metadata']['name']}"


def _not_ready_reasons(client: Client, pool: Object) -> str:
    """Return what the pool's sandboxes and pods lack: how often each reason, and what the last of them says.

    For a pod that a quota rejected only the sandbox has one. Another size than the pool was given is a reason too.
    """
    about, current = f"namespaces/{pool['metadata']['namespace']}", client.get(client.path(pool))
    reasons = defaultdict[str, list[str]](list)
    for kind, path in (("Sandbox", f"apis/{SANDBOXES}/{about}/sandboxes"), ("Pod", f"api/v1/{about}/pods")):
        for resource in client.get(f"/{path}")["items"]:
            for row in (resource.get("status") or {}).get("conditions") or ():
                if row["status"] != "True" and row["type"] != "Suspended":
                    reasons[f"{kind} {row.get('reason') or row['type']}"].append(row.get("message") or "")
    for event in client.get(f"/api/v1/{about}/events", fieldSelector="type=Warning")["items"]:
        reasons[f"{event['involvedObject']['kind']} {event['reason']}"].append(event["message"])
    lines = [f"  {len(messages)} {reason}: {messages[-1]}" for reason, messages in sorted(reasons.items())]
    if (size := current["spec"].get("replicas")) != pool["spec"]["replicas"]:
        writers = [row["manager"] for row in current["metadata"].get("managedFields") or () if "f:replicas" in str(row)]
        lines.insert(0, f"  its size is {size}, written by {' or '.join(writers)}")
    return "\n".join(lines) or "  it has no sandboxes"
