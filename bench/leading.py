"""Fail over the leader of the service's loops, and wait until the new leader has run every loop once.

A loop processes all workspaces, so the leader uses more memory than other replicas, for a moment every ten minutes.
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
# The first run of the ledger loop writes a row for each workspace.
_TIMEOUT_SECONDS = 900.0


def take_over(client: Client, folder: Path) -> None:
    """Delete the leader's pod, and wait until another replica has run each loop."""
    before = _leader(client)
    client.delete(f"{PODS}/{before}")

    def complete() -> bool:
        now = _leader(client)
        return now not in {"", before} and all(_passes(client, folder, now).get(name) for name in PASSES)

    if not until(complete, _TIMEOUT_SECONDS):
        found = _passes(client, folder, _leader(client))
        raise CommandError(f"the new leader has run only these loops in {_TIMEOUT_SECONDS:.0f} s: {found}")


def passes(client: Client, folder: Path) -> dict[str, int]:
    """Return how often the leader has run each loop."""
    return _passes(client, folder, _leader(client))


def _leader(client: Client) -> str:
    found: dict[str, Any] = client.find(LEASE) or {}
    return str((found.get("spec") or {}).get("holderIdentity") or "")


def _passes(client: Client, folder: Path, pod: str) -> dict[str, int]:
    """Return how often a replica has run each loop, from its metrics."""
    found = client.find(f"{PODS}/{pod}") if pod else None
    address = listen_addresses.address(folder, found["metadata"]["uid"], "--metrics-port") if found else None
    if address is None:
        return {}
    try:
        with DIRECTLY.open(f"{address}/metrics", timeout=5) as response:
            metrics = response.read().decode()
    except OSError:
        return {}
    return {name: int(float(count)) for name, count in _COUNTS.findall(metrics)}


_COUNTS = re.compile(r'^agentenv_loop_seconds_count\{loop="([a-z]+)"\} ([0-9.e+]+)$', re.MULTILINE)
