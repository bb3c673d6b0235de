"""Why there is no swarm any more, as events where it was: for every replica to tell, as long as events are kept."""

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
    """An event of a task's pool; one that cannot be told is no reason to stop."""
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
        _LOG.warning("an event was not told", extra={"facts": {"why": str(refusal), "task": task}})


async def last_failure(cluster: KubeApi, namespaces: Iterable[str], task: str) -> str | None:
    """Why the last swarm of a task did not come up; None where it did, or nobody knows any more."""
    events = [event for namespace in namespaces async for event in cluster.list(EVENTS, namespace, {TASK_LABEL: task})]
    # Of what happened in the same second, that it was taken away is what counts.
    latest = max(events, key=lambda event: (text(event, "lastTimestamp"), event.get("reason") == ENDED), default=None)
    return None if latest is None or latest.get("reason") == ENDED else text(latest, "message")
