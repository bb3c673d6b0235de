"""A workspace made for real: the stack's warm pools looked at, and one of them asked for, timed until it is Ready.

The stack's own service is asked (`service_probe.py`), where it has one; else a claim is made as the service would.

A stack without classes has no pool. Then a namespace with a pool of the rehearsal's own is made for the time being,
on nodes of the stack and filled by its controller, and told as what it is.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import EXTENSIONS, SANDBOXES
from agentenv.core.service.deployment import FILE
from agentenv.core.service.rbac import NAME
from agentenv.core.workspaces.claims import claim
from agentenv.rehearsal.controlplane.client import Client, until
from agentenv.rehearsal.scenario import service_probe as serving
from agentenv.rehearsal.scenario import storage_probe as slots
from agentenv.rehearsal.scenario.storage_probe import ProbeFailed

Object = dict[str, Any]

PROBE = "rehearsal-probe"
_POOLS = f"/apis/{EXTENSIONS}/sandboxwarmpools"
_SIZE = 3
_PATIENCE_SECONDS = 60.0
_TICK_SECONDS = 0.005


@dataclass(frozen=True)
class Measured:
    """The pools as they are, and how long a workspace took."""

    pools: list[dict[str, Any]]
    new_workspace_ms: float
    slot: slots.Slot | None  # its storage, which it kept over a sleep; None where its class has none
    through_service: bool = False


def measure(client: Client, plane: Path | None = None) -> Measured:
    """Wait until every pool is full, and take from the first that has members: by the service, where there is one.

    `plane` is the control plane's folder, which knows where residents listen.
    """
    own = [pool for pool in client.get(_POOLS)["items"] if pool["spec"].get("replicas")]
    if own and plane is not None and serving.deployed(client):
        return _served(client, own, plane)
    if own:
        return _measured(client, own)
    with pool_of_our_own(client) as pool:
        return _measured(client, [pool])


def _served(client: Client, pools: list[Object], plane: Path) -> Measured:
    told = [filled(client, pool) for pool in pools]
    with serving.caller(client, plane, audience_of(client)) as service:
        made = serving.workspace(client, service, pools[0])
    if made.slot is not None:
        slots.differs(made.slot, _next(client, pools[0]))
    return Measured(told, made.milliseconds, made.slot, through_service=True)


def audience_of(client: Client) -> str | None:
    """Whom the service's tokens are for, as its settings say."""
    settings = client.get(f"/api/v1/namespaces/{NAME}/configmaps/{NAME}")["data"][FILE]
    return (json.loads(settings)["config"].get("agent-environment:service") or {}).get("audience")


def _measured(client: Client, pools: list[Object]) -> Measured:
    told = [filled(client, pool) for pool in pools]
    with claimed(client, pools[0]) as (ready, took):
        slot = slots.kept_over_sleep(client, ready)
        if slot is not None:
            slots.differs(slot, _next(client, pools[0]))
    return Measured(told, round(took * 1000, 1), slot)


def _next(client: Client, pool: Object) -> slots.Slot | None:
    with claimed(client, pool) as (ready, _):
        return slots.slot_of(client, ready)


def filled(client: Client, pool: Object, patience: float = _PATIENCE_SECONDS) -> dict[str, Any]:
    """Wait until a pool has all its members; one that does not get them is told with what keeps them."""
    size = pool["spec"]["replicas"]
    until(lambda: ready_members(client, pool) >= size, patience)
    found = ready_members(client, pool)
    if found < size:
        raise ProbeFailed(
            f"of the pool {_named(pool)} {found} of {size} sandboxes are Ready:\n{_why_not(client, pool)}"
        )
    return {"class": _class_of(pool), "ready": found, "size": size}


def ready_members(client: Client, pool: Object) -> int:
    """How many of a pool's sandboxes are Ready."""
    return (client.get(client.path(pool)).get("status") or {}).get("readyReplicas", 0)


@contextmanager
def claimed(client: Client, pool: Object) -> Iterator[tuple[Object, float]]:
    """A claim that is Ready, and the seconds that it took; it goes again."""
    document = _document(pool)
    path = client.path(document)
    began = time.monotonic()
    client.create(document)
    try:
        ready = until(lambda: is_ready(client.get(path)), _PATIENCE_SECONDS, every=_TICK_SECONDS)
        took = time.monotonic() - began
        if not ready:
            conditions = (client.get(path).get("status") or {}).get("conditions") or "nothing"
            raise ProbeFailed(f"a claim against {_named(pool)} did not become Ready; it says {conditions}")
        yield client.get(path), took
    finally:
        client.delete(path)
        until(lambda: client.find(path) is None, _PATIENCE_SECONDS)


def _document(pool: Object) -> Object:
    """A claim as the workspace service writes it; of a pool of the rehearsal's own, the least there is."""
    name = f"{PROBE}-{secrets.token_hex(3)}"
    about = pool["metadata"]
    if (of := (about.get("labels") or {}).get(CLASS_LABEL)) is not None:
        return claim(of, about["name"], name, owner=PROBE, workspace=name)
    where = {"name": name, "namespace": about["namespace"]}
    spec = {"warmPoolRef": {"name": about["name"]}}
    return {"apiVersion": EXTENSIONS, "kind": "SandboxClaim", "metadata": where, "spec": spec}


@contextmanager
def pool_of_our_own(client: Client, size: int = _SIZE) -> Iterator[Object]:
    """A pool of that size in a namespace for the time being."""
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PROBE}}
    about = {"name": PROBE, "namespace": PROBE}
    template = {"spec": {**_placed(client), "containers": [{"name": "main", "image": "registry.example.com/probe"}]}}
    try:
        client.create(space)
        until(lambda: client.find(f"/api/v1/namespaces/{PROBE}/serviceaccounts/default"), _PATIENCE_SECONDS)
        for kind, spec in (
            ("SandboxTemplate", {"podTemplate": template}),
            ("SandboxWarmPool", {"replicas": size, "sandboxTemplateRef": {"name": PROBE}}),
        ):
            made = client.create({"apiVersion": EXTENSIONS, "kind": kind, "metadata": about, "spec": spec})
        yield made
    finally:
        for kind in ("SandboxWarmPool", "SandboxTemplate"):
            client.delete(client.path({"apiVersion": EXTENSIONS, "kind": kind, "metadata": about}))
        # It is gone seconds later; should it stay, it is found among what is left
        client.delete(client.path(space))


def _placed(client: Client) -> Object:
    """Onto nodes for sandboxes, where the stack has some: those of the first pool that keeps other pods away."""
    pools = client.get("/apis/karpenter.sh/v1/nodepools")["items"]
    for pool in pools:
        if taints := pool["spec"]["template"]["spec"].get("taints"):
            tolerated = [{"operator": "Equal", **taint} for taint in taints]
            return {"nodeSelector": {"karpenter.sh/nodepool": pool["metadata"]["name"]}, "tolerations": tolerated}
    return {}


def is_ready(thing: Object) -> bool:
    """Whether its conditions say Ready."""
    rows = (thing.get("status") or {}).get("conditions") or []
    return any((row["type"], row["status"]) == ("Ready", "True") for row in rows)


def _class_of(pool: Object) -> str:
    return (pool["metadata"].get("labels") or {}).get(CLASS_LABEL) or pool["metadata"]["name"]


def _named(pool: Object) -> str:
    return f"{pool['metadata']['namespace']}/{pool['metadata']['name']}"


def _why_not(client: Client, pool: Object) -> str:
    """What its sandboxes say of themselves, and their pods: a pod that a quota kept away can say nothing."""
    space = pool["metadata"]["namespace"]
    kinds = (f"/apis/{SANDBOXES}/namespaces/{space}/sandboxes", f"/api/v1/namespaces/{space}/pods")
    said = {
        row.get("message") or row["type"]
        for path in kinds
        for thing in client.get(path)["items"]
        for row in (thing.get("status") or {}).get("conditions") or ()
        if row["status"] != "True"
    }
    return "\n".join(f"  {words}" for words in sorted(said)) or "  there are no sandboxes of it"
