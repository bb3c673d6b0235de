"""The report of a workspace's pod: restarts, the last exit of its processes, and why it is not ready."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Literal

from agentenv.core.classes.names import WORKSPACE_LABEL
from agentenv.core.values.object_fields import Document, number, required, rows, section, strings, text
from agentenv.core.values.timestamps import parse_timestamp
from agentenv.core.workspaces.workspace import LastEnd, Workspace

OUT_OF_MEMORY: Final = "OOMKilled"
# Reasons of containers that wait for their turn, as in every start.
_STARTING = frozenset({"ContainerCreating", "PodInitializing", ""})
# In what the scheduler says before it looks at any node: a claim is missing, not bound or being deleted.
_HOME_MISSING = "persistentvolumeclaim"
_LONGEST = 512


@dataclass(frozen=True, slots=True)
class PodReport:
    """The report of a pod that differs from one that has just started well."""

    uid: str
    workspace: str
    restarts: int = 0
    last_end: LastEnd | None = None
    trouble: str = ""  # why it is not ready
    stopping: bool = False
    unscheduled: bool = False  # whether no node has room for it


def pod_report(pod: Document) -> PodReport | None:
    """Return the report of a pod; None for one that starts or runs as it should."""
    status = section(pod, "status")
    containers = rows(status, "containerStatuses")
    ends = [end for row in containers if (end := _last_end(row)) is not None]
    ordinary = PodReport(
        required(pod, "metadata", "uid"), strings(section(pod, "metadata"), "labels").get(WORKSPACE_LABEL, "")
    )
    report = replace(
        ordinary,
        restarts=max([number(row, "restartCount") for row in containers], default=0),
        last_end=max(ends, key=_ended_at, default=None),
        trouble=_trouble(status),
        stopping=bool(section(pod, "metadata").get("deletionTimestamp")),
        unscheduled=_lacks_node(_scheduled(status)),
    )
    return None if report == ordinary else report


def with_report(workspace: Workspace, report: PodReport | None) -> Workspace:
    """Return a workspace with what its pod reports, which is more than its claim knows."""
    if report is None or workspace.state not in {"creating", "running", "failed"}:
        return workspace
    workspace = replace(workspace, restarts=report.restarts, last_end=report.last_end)
    if workspace.state == "running":
        # Its address is that of a pod that ends.
        why = "its pod is being replaced"
        return replace(workspace, state="restarting", addresses=(), why=why) if report.stopping else workspace
    state = "restarting" if workspace.state == "creating" and report.restarts else workspace.state
    return replace(workspace, state=state, why=report.trouble or workspace.why)


def end_text(end: LastEnd) -> str:
    """Return how a container ended, in words."""
    reason = f"out of memory ({OUT_OF_MEMORY})" if end.reason == OUT_OF_MEMORY else end.reason
    parts = [reason, f"exit code {end.exit_code}" if end.exit_code else "", end.message]
    return ", ".join(part for part in parts if part)


def restart_reason(report: PodReport) -> Literal["out-of-memory", "ended"]:
    """Return the reason of a restart as the label of a metric."""
    return "out-of-memory" if report.last_end is not None and report.last_end.reason == OUT_OF_MEMORY else "ended"


def why_failed(pod: Document) -> str:
    """Return why a pod failed: its kubelet's reason and message, else those of its container."""
    status = section(pod, "status")
    parts = [text(status, "reason"), text(status, "message")]
    if not any(parts):
        parts = [end_text(end) for row in rows(status, "containerStatuses") if (end := _last_end(row))]
    return ": ".join(part for part in parts if part) or "no reason is known"


def _last_end(container: Document) -> LastEnd | None:
    """Return how the last run of a container ended; None for one that has not ended yet."""
    ended = section(section(container, "state"), "terminated") or section(section(container, "lastState"), "terminated")
    if not ended:
        return None
    return LastEnd(
        reason=text(ended, "reason"),
        exit_code=number(ended, "exitCode"),
        at=parse_timestamp(ended.get("finishedAt")),
        message=_short(text(ended, "message")),
    )


def _ended_at(end: LastEnd) -> float:
    return end.at.timestamp() if isinstance(end.at, datetime) else 0.0


def _trouble(status: dict[str, Any]) -> str:
    """Return why a pod is not ready, from the first of its parts that says so."""
    if text(status, "phase") == "Failed":
        return ""
    scheduled = _scheduled(status)
    if scheduled.get("status") == "False":
        return _joined(text(scheduled, "reason"), text(scheduled, "message"))
    for row in rows(status, "initContainerStatuses"):
        if row.get("ready") is not True and (why := _why_waiting(row)):
            return f"init container {text(row, 'name')}: {why}"
    return next((why for row in rows(status, "containerStatuses") if (why := _why_waiting(row))), "")


def _scheduled(status: dict[str, Any]) -> dict[str, Any]:
    """Return what the scheduler says of a pod that it has not placed."""
    conditions = (row for row in rows(status, "conditions") if row.get("type") == "PodScheduled")
    return next((row for row in conditions if row.get("status") == "False"), dict[str, Any]())


def _lacks_node(scheduled: dict[str, Any]) -> bool:
    """Return whether a pod waits for a node; one whose home is not provisioned yet has no need of another."""
    return scheduled.get("reason") == "Unschedulable" and _HOME_MISSING not in text(scheduled, "message").lower()


def _why_waiting(container: Document) -> str:
    """Return why a container does not run; nothing for one that runs or is about to."""
    state, end = section(container, "state"), _last_end(container)
    waiting, reason = section(state, "waiting"), text(section(state, "waiting"), "reason")
    last = f"it last ended with {end_text(end)}" if end else ""
    if reason not in _STARTING:
        return "; ".join(part for part in (_joined(reason, text(waiting, "message")), last) if part)
    if "running" in state:
        # It runs again; what ended it is the news until it is ready.
        return last if end and container.get("ready") is not True else ""
    return last if end and end.exit_code else ""


def _joined(reason: str, message: str) -> str:
    return ": ".join(part for part in (reason, _short(message)) if part)


def _short(message: str) -> str:
    return message.strip()[-_LONGEST:]
