"""Record the end of a swarm as an event, so that every replica can return the reason while events are retained."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from agentenv.core.classes.names import TASK_LABEL
from agentenv.core.values.object_fields import text
from agentenv.service.kube.client import EVENTS, KubeApi, KubeApiError

FAILED, ENDED = "SwarmFailed", "SwarmEnded"
_LOG = logging.getLogger(__name__)


async def record_event(
    cluster: KubeApi,
    namespace: str,
    task: str,
    reason: str,
    message: str,
    *,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> None:
    """Create an event of a task's pool; a failure is logged only."""
    at = now().strftime("%Y-%m-%dT%H:%M:%SZ")
    header = {"apiVersion": "v1", "kind": "Event", "type": "Warning" if reason == FAILED else "Normal"}
    metadata = {"name": f"{task}.{reason.lower()}.{secrets.token_hex(4)}", "namespace": namespace}
    event = {
        **header,
        "metadata": {**metadata, "labels": {TASK_LABEL: task}},
        "involvedObject": {"kind": "SandboxWarmPool", "name": task, "namespace": namespace},
        "reason": reason,
        "message": message[:1024],
        "source": {"component": "workspace-service"},
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }
    try:
        await cluster.create(EVENTS, event)
    except KubeApiError as refusal:
        _LOG.warning("an event was not created", extra={"facts": {"why": str(refusal), "task": task}})


async def last_failure(cluster: KubeApi, namespaces: Iterable[str], task: str) -> str | None:
    """Return why the last swarm of a task failed; None if it did not, or its events have expired."""
    events = [event for namespace in namespaces async for event in cluster.list(EVENTS, namespace, {TASK_LABEL: task})]
    # Of events in the same second, the one that the swarm was deleted takes precedence.
    latest = max(events, key=lambda event: (text(event, "lastTimestamp"), event.get("reason") == ENDED), default=None)
    return None if latest is None or latest.get("reason") == ENDED else text(latest, "message")
