"""A workspace says why it does not run, in the words of its pod, as a kubelet reports them.

The statuses are those of a kubelet 1.35 with gVisor and of the Kubernetes documentation, "Pod Lifecycle".
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from agentenv.core.workspaces.pod_report import pod_report, why_failed, with_report
from agentenv.core.workspaces.records import SUSPENDING, workspace_of_claim
from agentenv.core.workspaces.workspace import SUSPENDED_BECAUSE, LastEnd

AT = "2026-11-19T12:00:00Z"
KILLED = {"terminated": {"reason": "OOMKilled", "exitCode": 137, "finishedAt": AT}}
CRASHED = {"terminated": {"reason": "Error", "exitCode": 1, "finishedAt": AT, "message": "no such file: /app/start"}}
BACK_OFF = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container=sandbox"}}
RUNNING = {"running": {"startedAt": AT}}


def container(state: dict[str, Any], *, name: str = "sandbox", **more: Any) -> dict[str, Any]:
    return {"name": name, "state": state, "ready": False, "restartCount": 0, **more}


def pod(status: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    labels = {"sandbox.users.io/workspace": "w-1"}
    return {"metadata": {"name": "box", "uid": "pod-1", "labels": labels, **metadata}, "status": status}


def claim(ready: bool, reason: str = "", message: str = "", because: str | None = None) -> dict[str, Any]:
    condition = {"type": "Ready", "status": str(ready), "reason": reason, "message": message}
    notes = {} if because is None else {SUSPENDED_BECAUSE: because}
    about = {"name": "w-1", "namespace": "sandbox-box", "uid": "claim-1", "annotations": notes}
    about["labels"] = {"sandbox.users.io/user": "u-1"}
    return {
        "metadata": about,
        "status": {"conditions": [condition], "sandbox": {"name": "box", "podIPs": ["10.0.0.9"]}},
    }


def reported(claim_: dict[str, Any], pod_: dict[str, Any]) -> tuple[str, str, int]:
    workspace = workspace_of_claim(claim_)
    assert workspace is not None
    row = with_report(workspace, pod_report(pod_))
    return row.state, row.why, row.restarts


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Pending"},
        {"phase": "Pending", "containerStatuses": [container({"waiting": {"reason": "PodInitializing"}})]},
        {"phase": "Running", "containerStatuses": [container(RUNNING, ready=True)]},
        {"phase": "Pending", "initContainerStatuses": [container(RUNNING, name="gate")]},
    ],
)
def test_a_pod_that_starts_or_runs_well_reports_nothing(status: dict[str, Any]) -> None:
    assert pod_report(pod(status)) is None


def test_an_end_for_lack_of_memory_is_known_while_the_workspace_runs_again() -> None:
    status = {
        "phase": "Running",
        "containerStatuses": [container(RUNNING, ready=True, restartCount=1, lastState=KILLED)],
    }
    workspace = workspace_of_claim(claim(ready=True))
    assert workspace is not None
    reported = with_report(workspace, pod_report(pod(status)))
    assert (reported.state, reported.restarts, reported.addresses) == ("running", 1, ("10.0.0.9",))
    assert reported.last_end == LastEnd("OOMKilled", 137, datetime(2026, 11, 19, 12, tzinfo=UTC))


def test_crash_loop_is_no_creation_and_has_its_exit_reason() -> None:
    waiting = container(BACK_OFF, restartCount=3, lastState=CRASHED)
    state, why, restarts = reported(
        claim(ready=False, message="Pod is Running but not Ready"),
        pod({"phase": "Running", "containerStatuses": [waiting]}),
    )
    assert (state, restarts) == ("restarting", 3)
    assert why == (
        "CrashLoopBackOff: back-off 40s restarting failed container=sandbox; it last ended with Error, exit code 1,"
        " no such file: /app/start"
    )


def test_a_gate_that_fails_is_named_in_place_of_the_phase() -> None:
    end = {"reason": "Error", "exitCode": 1, "finishedAt": AT, "message": "the metadata address answers still"}
    waiting = container(BACK_OFF, name="gate", lastState={"terminated": end})
    status = {"phase": "Pending", "initContainerStatuses": [container(KILLED, name="layout", ready=True), waiting]}
    state, why, _ = reported(claim(ready=False, message="Pod exists with phase: Pending"), pod(status))
    assert state == "creating"
    assert why.startswith("init container gate: CrashLoopBackOff")
    assert why.endswith("the metadata address answers still")


def test_pod_without_a_node_has_the_message_of_the_scheduler() -> None:
    message = "0/3 nodes are available: 3 Insufficient memory."
    scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    state, why, _ = reported(
        claim(ready=False, message="Pod exists with phase: Pending"), pod({"conditions": [scheduled]})
    )
    assert (state, why) == ("creating", f"Unschedulable: {message}")


@pytest.mark.parametrize(
    ("message", "unscheduled"),
    [
        ("0/3 nodes are available: 3 Insufficient memory. preemption: 0/3 nodes are available", True),
        ("0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Too many pods.", True),
        ("0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.", True),
        ("0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found", False),
        ('0/3 nodes are available: persistentvolumeclaim "home-box" not found. not found', False),
        ('0/3 nodes are available: persistentvolumeclaim "home-box" is being deleted. not found', False),
    ],
)
def test_pod_that_waits_for_its_volume_does_not_wait_for_a_node(message: str, *, unscheduled: bool) -> None:
    scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    report = pod_report(pod({"conditions": [scheduled]}))
    assert report is not None
    assert (report.unscheduled, report.trouble) == (unscheduled, f"Unschedulable: {message}")


def test_workspace_with_a_deleted_pod_does_not_run_at_its_address() -> None:
    workspace = workspace_of_claim(claim(ready=True))
    assert workspace is not None
    ending = pod({"phase": "Running", "containerStatuses": [container(RUNNING, ready=True)]}, deletionTimestamp=AT)
    reported = with_report(workspace, pod_report(ending))
    assert (reported.state, reported.addresses) == ("restarting", ())


@pytest.mark.parametrize(
    ("document", "state"),
    [
        (claim(ready=True), "running"),
        (claim(ready=True, because="asked"), "suspending"),
        (claim(ready=False, reason="SandboxSuspended", message=SUSPENDING), "suspending"),
        (claim(ready=False, reason="SandboxSuspended", message="Sandbox is suspended", because="asked"), "suspended"),
        (claim(ready=True, because="moving"), "moving"),
        (claim(ready=False, reason="SandboxSuspended", message="Sandbox is suspended", because="moving"), "moving"),
    ],
)
def test_a_workspace_that_is_being_suspended_has_no_address(document: dict[str, Any], state: str) -> None:
    """`Sandbox is suspending` is what agent-sandbox 1.0.3 says while the pod ends (`computeReadyCondition`)."""
    workspace = workspace_of_claim(document)
    assert workspace is not None
    assert (workspace.state, bool(workspace.addresses)) == (state, state == "running")


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ({"reason": "NodeShutdown", "message": "Node is shutting down"}, "NodeShutdown: Node is shutting down"),
        ({"containerStatuses": [{"state": KILLED}]}, "out of memory (OOMKilled), exit code 137"),
        ({}, "no reason is known"),
    ],
)
def test_the_reason_is_that_of_the_kubelet_or_of_the_container(status: dict[str, Any], why: str) -> None:
    assert why_failed({"status": status}) == why
