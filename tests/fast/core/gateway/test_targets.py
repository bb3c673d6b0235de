"""Tests of the targets of the load balancer."""

from __future__ import annotations

from typing import Any

import pytest

from agentenv.core.gateway.documents import REGISTERED
from agentenv.core.gateway.targets import Changes, Pod, changes, pod_of

A, B = "10.40.1.10", "10.40.2.20"


def pod(
    name: str = "a", address: str = A, *, serves: bool = True, registered: bool = False, ending: bool = False
) -> Pod:
    return Pod(name, address, serves=serves, registered=registered, ending=ending)


@pytest.mark.parametrize(
    ("pods", "targets", "expected"),
    [
        ([], {}, Changes()),
        ([pod()], {}, Changes(register=(A,))),
        ([pod(serves=False)], {}, Changes()),
        ([pod(address="")], {}, Changes()),
        ([pod()], {A: "initial"}, Changes()),
        ([pod()], {A: "healthy"}, Changes(ready=("a",))),
        ([pod(registered=True)], {A: "healthy"}, Changes()),
        # It recovers, or is ended: the balancer's own checks leave it out until then.
        ([pod(serves=False, registered=True)], {A: "unhealthy"}, Changes()),
        ([pod(ending=True, registered=True)], {A: "healthy"}, Changes(deregister=(A,))),
        ([pod(ending=True, registered=True)], {A: "draining"}, Changes()),
        # Another pod has the address of one that was deregistered.
        ([pod("b")], {A: "draining"}, Changes(register=(A,))),
        ([], {A: "unhealthy", B: "draining"}, Changes(deregister=(A,))),
        (
            [pod(ending=True, registered=True), pod("b", B)],
            {A: "healthy", B: "healthy"},
            Changes(deregister=(A,), ready=("b",)),
        ),
    ],
)
def test_what_changes(pods: list[Pod], targets: dict[str, str], expected: Changes) -> None:
    assert changes(pods, targets) == expected


def test_a_pod_is_read_from_its_object() -> None:
    conditions = [{"type": "ContainersReady", "status": "True"}, {"type": REGISTERED, "status": "False"}]
    document: dict[str, Any] = {"metadata": {"name": "a"}, "status": {"podIP": A, "conditions": conditions}}
    assert pod_of(document) == pod()
    document["metadata"]["deletionTimestamp"] = "2026-11-19T12:00:00Z"
    conditions[1]["status"] = "True"
    assert pod_of(document) == pod(ending=True, registered=True)
    assert pod_of({"metadata": {"name": "a"}}) == pod(address="", serves=False)
