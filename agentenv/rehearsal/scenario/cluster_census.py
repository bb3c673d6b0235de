"""What exists in a cluster, by kind, and what of it did not exist before.

Every kind that the API server can list counts, custom ones too, so one that nobody thought of is counted. `_TRACES`
says which kinds are records of what went on, or are kept by the control plane beside what they belong to.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from agentenv.rehearsal.controlplane.client import ApiError, Client

Census = dict[str, frozenset[str]]

_TRACES = frozenset(
    {
        "events",
        "leases",
        "componentstatuses",
        "ipaddresses",  # one a service, counted there
    }
)
# Controllers get an account of their own the first time that they have something to do
_CONTROLLERS_ACCOUNTS = ("serviceaccounts", "kube-system")
# Into every namespace, sooner or later; it goes with the namespace, which is counted
_EVERYWHERE = frozenset({("configmaps", "kube-root-ca.crt"), ("serviceaccounts", "default")})
_PATIENCE_SECONDS = 20.0  # without anything going
_MOST_SECONDS = 90.0


def census(client: Client) -> Census:
    """Everything that is there."""
    found: dict[str, set[str]] = {}
    for base, resource in _kinds(client):
        try:
            listed = client.get(f"{base}/{resource}")
        except ApiError as error:
            if error.status in {404, 405}:  # a definition that goes at this moment, or nothing that can be listed
                continue
            raise
        for item in listed.get("items") or ():
            about: Mapping[str, Any] = item["metadata"]
            of_controllers = (resource, about.get("namespace")) == _CONTROLLERS_ACCOUNTS
            if not of_controllers and (resource, about["name"]) not in _EVERYWHERE:
                name = "/".join(part for part in (about.get("namespace"), about["name"]) if part)
                found.setdefault(resource, set()).add(name)
    return {kind: frozenset(names) for kind, names in found.items()}


def left(client: Client, before: Census) -> list[str]:
    """What is there and was not before.

    Waits a moment for it to go: pods, replica sets and nodes follow what they belong to when their controllers get to
    them.
    """
    began = less = time.monotonic()
    found = _seen(client, before)
    # Patience is for what goes on: nobody waits long for what stays.
    while found != [] and (now := time.monotonic()) - less < _PATIENCE_SECONDS and now - began < _MOST_SECONDS:
        time.sleep(0.2)
        again = _seen(client, before)
        if again is not None and (found is None or len(again) < len(found)):
            less = time.monotonic()
        found = found if again is None else again
    return _beyond(client, before) if found is None else found


def _seen(client: Client, before: Census) -> list[str] | None:
    """The same, or nothing where the server cannot say just now."""
    try:
        return _beyond(client, before)
    except (ApiError, OSError):
        return None


def _beyond(client: Client, before: Census) -> list[str]:
    now = census(client)
    return [
        f"kubernetes {kind} {name}"
        for kind in sorted(now)
        for name in sorted(now[kind] - before.get(kind, frozenset()))
    ]


def _kinds(client: Client) -> Iterator[tuple[str, str]]:
    """Where each kind that can be listed lives, in the version that the server prefers."""
    groups = client.get("/apis")["groups"]
    bases = ["/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups)]
    for base in bases:
        known = client.find(base) or {}
        for row in known.get("resources") or ():
            if "list" in row["verbs"] and "/" not in row["name"] and row["name"] not in _TRACES:
                yield base, row["name"]
