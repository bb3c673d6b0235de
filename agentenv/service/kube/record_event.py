"""Record Kubernetes events about objects that the service acts on; one that is refused does not stop the action."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime

from agentenv.service.kube.client import EVENTS, Document, KubeApi, KubeApiError

_LOG = logging.getLogger(__name__)
_LONGEST_MESSAGE = 1024


async def record_event(
    api: KubeApi,
    about: Mapping[str, str],
    reason: str,
    message: str,
    now: datetime,
    *,
    warning: bool = False,
    suffix: str = "",
    labels: Mapping[str, str] | None = None,
) -> bool:
    """Create an event about an object, given by its reference, unless it exists; with a `suffix` it exists once."""
    timestamp = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    name = f"{about['name']}.{reason.lower()}.{suffix or secrets.token_hex(4)}"
    event: Document = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": about["namespace"], **({"labels": dict(labels)} if labels else {})},
        "involvedObject": dict(about),
        "reason": reason,
        "message": message[:_LONGEST_MESSAGE],
        "type": "Warning" if warning else "Normal",
        "source": {"component": "workspace-service"},
        "firstTimestamp": timestamp,
        "lastTimestamp": timestamp,
        "count": 1,
    }
    try:
        return await api.create(EVENTS, event) is not None
    except KubeApiError as refusal:
        _LOG.warning("an event was not recorded", extra={"facts": {"why": str(refusal), "event": name}})
        return False


def claim_reference(claim: Document) -> dict[str, str]:
    """Return the reference to a claim."""
    metadata = claim["metadata"]
    return {
        "apiVersion": str(claim.get("apiVersion")),
        "kind": "SandboxClaim",
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "uid": metadata["uid"],
    }
