"""Check the storage of a claimed sandbox: an access point of its own, kept over a suspension and never shared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentenv.core.classes.names import SANDBOXES
from agentenv.rehearsal.controlplane.client import Client, has_condition, until

Object = dict[str, Any]

_TIMEOUT_SECONDS = 60.0


class ProbeFailed(Exception):
    """A workspace did not come up, or was not what it should be."""


@dataclass(frozen=True)
class Slot:
    """A home: its PersistentVolumeClaim and the access point behind it."""

    claim: str
    handle: str


def slot_of(client: Client, ready: Object) -> Slot | None:
    """Return the home of a Ready claim; None for a class without homes of its own."""
    sandbox = _sandbox(client, ready)
    homes = (sandbox["spec"].get("volumeClaimTemplates")) or ()
    if not homes:
        return None
    namespace, name = sandbox["metadata"]["namespace"], f"{homes[0]['metadata']['name']}-{sandbox['metadata']['name']}"
    volume = client.get(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}")["spec"].get("volumeName")
    if not volume:
        raise ProbeFailed(f"{namespace}/{name} is not bound, and the sandbox with it is Ready")
    return Slot(name, client.get(f"/api/v1/persistentvolumes/{volume}")["spec"]["csi"]["volumeHandle"])


def slot_over_suspension(client: Client, ready: Object) -> Slot | None:
    """Suspend and resume a claim and return its home, which must be the same before and after."""
    before = slot_of(client, ready)
    if before is None:
        return None
    _set_operating_mode(client, ready, "Suspended")
    _set_operating_mode(client, ready, "Running")
    if (after := slot_of(client, ready)) != before:
        raise ProbeFailed(f"a sandbox was suspended with {before} and resumed with {after}")
    return before


def check_distinct(first: Slot, second: Slot | None) -> None:
    """Check that two sandboxes do not share a home."""
    if second is None or second.handle == first.handle or second.claim == first.claim:
        raise ProbeFailed(f"two sandboxes of one pool have {first} and {second}")


def _set_operating_mode(client: Client, ready: Object, mode: str) -> None:
    sandbox = _sandbox(client, ready)
    path = client.path(sandbox)
    client.merge(path, {"spec": {"operatingMode": mode}})
    condition = "Suspended" if mode == "Suspended" else "Ready"
    if not until(lambda: has_condition(client.get(path), condition), _TIMEOUT_SECONDS):
        conditions = (client.get(path).get("status") or {}).get("conditions") or "nothing"
        raise ProbeFailed(f"{sandbox['metadata']['name']} was set to {mode} and is not; its conditions: {conditions}")


def _sandbox(client: Client, ready: Object) -> Object:
    metadata = ready["metadata"]
    name = ready["status"]["sandbox"]["name"]
    return client.get(f"/apis/{SANDBOXES}/namespaces/{metadata['namespace']}/sandboxes/{name}")
