"""List what exists in a cluster, by kind, and what has been added since an earlier census.

Every kind that the API server can list counts, custom ones included. `_IGNORED_KINDS` names the kinds that are
records of events, or that the control plane creates beside the objects they belong to.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from agentenv.rehearsal.controlplane.client import ApiError, Client

Census = dict[str, frozenset[str]]

_IGNORED_KINDS = frozenset(
    {
        "events",
        "leases",
        "componentstatuses",
        "ipaddresses",  # one for each service, counted there
    }
)
# Each controller gets a service account when it first reconciles something
_CONTROLLERS_ACCOUNTS = ("serviceaccounts", "kube-system")
# Created in every namespace eventually; deleted with the namespace, which is counted
_IN_EVERY_NAMESPACE = frozenset({("configmaps", "kube-root-ca.crt"), ("serviceaccounts", "default")})
_STALL_SECONDS = 20.0  # without any object disappearing
_MOST_SECONDS = 90.0


def census(client: Client) -> Census:
    """Return every object in the cluster."""
    names_by_kind: dict[str, set[str]] = {}
    for base, resource in _kinds(client):
        try:
            response = client.get(f"{base}/{resource}")
        except ApiError as error:
            if error.status in {404, 405}:  # a definition being deleted, or a kind that cannot be listed
                continue
            raise
        for item in response.get("items") or ():
            metadata: Mapping[str, Any] = item["metadata"]
            of_controllers = (resource, metadata.get("namespace")) == _CONTROLLERS_ACCOUNTS
            if not of_controllers and (resource, metadata["name"]) not in _IN_EVERY_NAMESPACE:
                name = "/".join(part for part in (metadata.get("namespace"), metadata["name"]) if part)
                names_by_kind.setdefault(resource, set()).add(name)
    return {kind: frozenset(names) for kind, names in names_by_kind.items()}


def leftovers(client: Client, before: Census) -> list[str]:
    """Return the objects that exist now and did not exist before.

    Waits for objects to disappear: pods, replica sets and nodes follow their owners once their controllers reconcile.
    """
    began = last_decrease = time.monotonic()
    remaining = _leftovers_or_none(client, before)
    while (
        remaining != [] and (now := time.monotonic()) - last_decrease < _STALL_SECONDS and now - began < _MOST_SECONDS
    ):
        time.sleep(0.2)
        latest = _leftovers_or_none(client, before)
        if latest is not None and (remaining is None or len(latest) < len(remaining)):
            last_decrease = time.monotonic()
        remaining = remaining if latest is None else latest
    return _added(client, before) if remaining is None else remaining


def _leftovers_or_none(client: Client, before: Census) -> list[str] | None:
    """Return the same, or None while the server cannot answer."""
    try:
        return _added(client, before)
    except (ApiError, OSError):
        return None


def _added(client: Client, before: Census) -> list[str]:
    now = census(client)
    return [
        f"kubernetes {kind} {name}"
        for kind in sorted(now)
        for name in sorted(now[kind] - before.get(kind, frozenset()))
    ]


def _kinds(client: Client) -> Iterator[tuple[str, str]]:
    """Yield the API path and name of each kind that can be listed, in the server's preferred version."""
    groups = client.get("/apis")["groups"]
    bases = ["/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups)]
    for base in bases:
        discovery = client.find(base) or {}
        for row in discovery.get("resources") or ():
            if "list" in row["verbs"] and "/" not in row["name"] and row["name"] not in _IGNORED_KINDS:
                yield base, row["name"]
