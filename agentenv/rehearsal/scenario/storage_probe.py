"""The storage of a claimed sandbox: its own access point, the same after a sleep, and never the next one's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentenv.core.classes.names import SANDBOXES
from agentenv.rehearsal.controlplane.client import Client, until

Object = dict[str, Any]

_PATIENCE_SECONDS = 60.0


class ProbeFailed(Exception):
    """What kept a workspace from coming up, or from being what it should."""


@dataclass(frozen=True)
class Slot:
    """A home: its claim for storage, and the access point that it leads to."""

    claim: str
    handle: str


def slot_of(client: Client, ready: Object) -> Slot | None:
    """The home of a claim that is Ready; None for a class without homes of its own."""
    sandbox = _sandbox(client, ready)
    homes = (sandbox["spec"].get("volumeClaimTemplates")) or ()
    if not homes:
        return None
    space, name = sandbox["metadata"]["namespace"], f"{homes[0]['metadata']['name']}-{sandbox['metadata']['name']}"
    volume = client.get(f"/api/v1/namespaces/{space}/persistentvolumeclaims/{name}")["spec"].get("volumeName")
    if not volume:
        raise ProbeFailed(f"{space}/{name} is not bound, and the sandbox with it is Ready")
    return Slot(name, client.get(f"/api/v1/persistentvolumes/{volume}")["spec"]["csi"]["volumeHandle"])


def kept_over_sleep(client: Client, ready: Object) -> Slot | None:
    """The home of a claim, which was put to sleep and woken; it has to be there before and after."""
    before = slot_of(client, ready)
    if before is None:
        return None
    _mode(client, ready, "Suspended")
    _mode(client, ready, "Running")
    if (after := slot_of(client, ready)) != before:
        raise ProbeFailed(f"a sandbox went to sleep with {before} and woke up with {after}")
    return before


def differs(one: Slot, other: Slot | None) -> None:
    """Two sandboxes never share a home."""
    if other is None or other.handle == one.handle or other.claim == one.claim:
        raise ProbeFailed(f"two sandboxes of one pool were given {one} and {other}")


def _mode(client: Client, ready: Object, mode: str) -> None:
    sandbox = _sandbox(client, ready)
    path = client.path(sandbox)
    client.merge(path, {"spec": {"operatingMode": mode}})
    word = "Suspended" if mode == "Suspended" else "Ready"
    if not until(lambda: _says(client.get(path), word), _PATIENCE_SECONDS):
        conditions = (client.get(path).get("status") or {}).get("conditions") or "nothing"
        raise ProbeFailed(f"{sandbox['metadata']['name']} was told to be {mode} and is not; it says {conditions}")


def _sandbox(client: Client, ready: Object) -> Object:
    about = ready["metadata"]
    name = ready["status"]["sandbox"]["name"]
    return client.get(f"/apis/{SANDBOXES}/namespaces/{about['namespace']}/sandboxes/{name}")


def _says(thing: Object, word: str) -> bool:
    rows = (thing.get("status") or {}).get("conditions") or []
    return any((row["type"], row["status"]) == (word, "True") for row in rows)
