"""The replica that leads, with a crowd there: another takes over, makes all of its passes at once, and what it took at
its highest is told.

A pass looks at everybody, so a replica that leads holds more than one that answers, for a moment and every ten minutes.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from agentenv.cli.main import CommandError
from agentenv.core.service.rbac import NAME
from agentenv.rehearsal.controlplane.client import Client, until
from agentenv.rehearsal.controlplane.pods import listen_addresses
from agentenv.rehearsal.controlplane.ports import DIRECTLY

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAME}/leases/workspace-service-loops"
PODS = f"/api/v1/namespaces/{NAME}/pods"
PASSES = (
    "waking",
    "idle",
    "ending",
    "keeping",
    "releases",
    "retention",
    "slots",
    "audit",
    "sizes",
    "ledger",
    "budgets",
)
# The first pass over a crowd has a row to write for each of them.
_PATIENCE_SECONDS = 900.0


def take_over(client: Client, folder: Path) -> None:
    """End the replica that leads, and wait until another has made each of its passes."""
    before = _leader(client)
    client.delete(f"{PODS}/{before}")

    def passed() -> bool:
        now = _leader(client)
        return now not in {"", before} and all(_passes(client, folder, now).get(name) for name in PASSES)

    if not until(passed, _PATIENCE_SECONDS):
        found = _passes(client, folder, _leader(client))
        raise CommandError(f"the replica that leads has made these passes in {_PATIENCE_SECONDS:.0f} s: {found}")


def passes(client: Client, folder: Path) -> dict[str, int]:
    """How many passes of each loop the replica that leads has made."""
    return _passes(client, folder, _leader(client))


def _leader(client: Client) -> str:
    found: dict[str, Any] = client.find(LEASE) or {}
    return str((found.get("spec") or {}).get("holderIdentity") or "")


def _passes(client: Client, folder: Path, pod: str) -> dict[str, int]:
    """How many passes of each loop a replica has made, as its metrics say."""
    found = client.find(f"{PODS}/{pod}") if pod else None
    address = listen_addresses.address(folder, found["metadata"]["uid"], "--metrics-port") if found else None
    if address is None:
        return {}
    try:
        with DIRECTLY.open(f"{address}/metrics", timeout=5) as answer:
            told = answer.read().decode()
    except OSError:
        return {}
    return {name: int(float(count)) for name, count in _COUNTS.findall(told)}


_COUNTS = re.compile(r'^agentenv_loop_seconds_count\{loop="([a-z]+)"\} ([0-9.e+]+)$', re.MULTILINE)
