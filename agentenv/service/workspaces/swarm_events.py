"""Record the end of a swarm as an event, so that every replica can return the reason while events are retained."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from agentenv.core.classes.names import TASK_LABEL
from agentenv.core.values.object_fields import text
from agentenv.service.kube.client import EVENTS, KubeApi
from agentenv.service.kube.record_event import record_event

FAILED, ENDED = "SwarmFailed", "SwarmEnded"


async def record_swarm_event(
    cluster: KubeApi,
    namespace: str,
    task: str,
    reason: str,
    message: str,
    *,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> None:
    """Create an event of a task's pool; a failure is logged only."""
    about = {"kind": "SandboxWarmPool", "name": task, "namespace": namespace}
    failed = reason == FAILED
    await record_event(cluster, about, reason, message, now(), warning=failed, labels={TASK_LABEL: task})


async def last_failure(cluster: KubeApi, namespaces: Iterable[str], task: str) -> str | None:
    """Return why the last swarm of a task failed; None if it did not, or its events have expired."""
    events = [event for namespace in namespaces async for event in cluster.list(EVENTS, namespace, {TASK_LABEL: task})]
    # Of events in the same second, the one that the swarm was deleted takes precedence.
    latest = max(events, key=lambda event: (text(event, "lastTimestamp"), event.get("reason") == ENDED), default=None)
    return None if latest is None or latest.get("reason") == ENDED else text(latest, "message")
