"""Read the events of a workspace: Kubernetes retains those of its claim, sandbox and pod for an hour."""

from __future__ import annotations

import asyncio

from agentenv.core.values.object_fields import number, section, text
from agentenv.core.values.timestamps import parse_timestamp
from agentenv.core.workspaces.workspace import Event, Workspace
from agentenv.service.kube.client import EVENTS, Document, KubeClient

KINDS = frozenset({"SandboxClaim", "Sandbox", "Pod", "PersistentVolumeClaim"})
MOST = 100


async def events_of(kube: KubeClient, workspace: Workspace) -> list[Event]:
    """Return the events of a workspace, the latest first."""
    names = {name for name in (workspace.id, workspace.sandbox) if name}
    # A sandbox and its pod have the same name, and the name of its home's volume claim contains it.
    names |= {f"home-{workspace.sandbox}"} if workspace.sandbox else set()
    results = await asyncio.gather(*(_named(kube, workspace.namespace, name) for name in sorted(names)))
    rows = [event for events in results for event in events]
    rows.sort(key=lambda event: event.at, reverse=True)
    return rows[:MOST]


async def _named(kube: KubeClient, namespace: str, name: str) -> list[Event]:
    rows: list[Event] = []
    async for document in kube.list(EVENTS, namespace, fields=f"involvedObject.name={name}"):
        rows += [event] if (event := event_of(document)) else []
    return rows


def event_of(document: Document) -> Event | None:
    """Return the event of a Kubernetes event; None for one that is about something else."""
    involved = section(document, "involvedObject")
    at = next(
        (
            timestamp
            for text in (
                section(document, "series").get("lastObservedTime"),
                document.get("lastTimestamp"),
                document.get("eventTime"),
                section(document, "metadata").get("creationTimestamp"),
            )
            if (timestamp := parse_timestamp(text))
        ),
        None,
    )
    kind = text(involved, "kind")
    if kind not in KINDS or at is None:
        return None
    return Event(
        at=at,
        about=f"{kind}/{text(involved, 'name')}",
        reason=text(document, "reason"),
        message=text(document, "message"),
        count=number(document, "count") or number(section(document, "series"), "count") or 1,
        warning=document.get("type") == "Warning",
    )
