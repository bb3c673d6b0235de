"""A declared workspace's graph: what it makes, in which order, and what outlives it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pulumi
import pytest
from pulumi_aws import resourcegroupstaggingapi

from agentenv.components.sandboxes.workspace import SeatConflictError, Workspace, check_seat_conflicts
from agentenv.core.environment import EnvironmentFacts
from agentenv.core.values.posix_ids import seat_id
from agentenv.core.workspaces.seats import SeatPlan
from tests.fast.components.graph import Graph, registered
from tests.fast.components.shapes import FACTS
from tests.fast.core.workspaces.test_seats import ARN, DESK, TEMPLATE

SEARCH = "aws:resourcegroupstaggingapi/getResources:getResources"


def workspace(
    seat: SeatPlan = DESK, environment: EnvironmentFacts = FACTS, template: dict[str, Any] = TEMPLATE
) -> Workspace:
    return Workspace("agents-desk", seat, environment, file_system_id="fs-1", template=template)


def build_graph(**args: Any) -> Graph:
    return registered(lambda: workspace(**args))


def test_access_point_enforces_its_ids_and_is_tagged_with_its_owner() -> None:
    point = build_graph().resource("AccessPoint").inputs
    uid = seat_id("desk")
    assert point["posixUser"] == {"uid": uid, "gid": uid}
    assert point["rootDirectory"] == {
        "path": DESK.path,
        "creationInfo": {"ownerUid": uid, "ownerGid": uid, "permissions": "0700"},
    }
    assert {"sandbox-workspace": "desk", "sandbox-user": "u-1", "sandbox-class": "standard"}.items() <= point[
        "tags"
    ].items()
    assert {"environment", "component", "owner", "cost-center"} <= set(point["tags"])


def test_volume_and_claim_are_created_before_the_sandbox_and_deleted_after() -> None:
    graph = build_graph()
    point, volume = graph.resource("AccessPoint"), graph.resource("PersistentVolume")
    claim, sandbox = graph.resource("PersistentVolumeClaim"), graph.resource("Sandbox")
    assert volume.inputs["spec"]["csi"]["volumeHandle"] == "fs-1::agents-desk-id"
    for first, second in ((point, volume), (volume, claim), (claim, sandbox)):
        assert graph.comes_before(first, second)
    # Otherwise a pod that takes its time would hold the claim for as long as a destroy waits for that.
    annotations = sandbox.inputs["metadata"]["annotations"]
    assert annotations["pulumi.com/deletionPropagationPolicy"] == "foreground"


def test_data_is_retained_by_default_and_protected_where_configured() -> None:
    keeping = replace(FACTS, keep_data=True)
    for graph, protect, retain in (
        (build_graph(), False, True),
        (build_graph(seat=replace(DESK, destroy_data=True)), False, False),
        (build_graph(environment=keeping), True, True),
    ):
        point = graph.resource("AccessPoint")
        assert (bool(point.protect), bool(point.retain)) == (protect, retain)
        # What can be made again from the stack alone is in nobody's way.
        assert not any(
            resource.protect or resource.retain for resource in graph.resources if resource.type != point.type
        )


def test_a_new_release_of_its_class_changes_the_sandbox_alone() -> None:
    newer = {"podTemplate": {**TEMPLATE["podTemplate"], "metadata": {"labels": {"sandbox.users.io/tier": "new"}}}}
    before = {resource.key: resource.inputs for resource in build_graph().resources}
    after = {resource.key: resource.inputs for resource in build_graph(template=newer).resources}
    assert {key[0].rpartition(":")[2] for key in before if before[key] != after[key]} == {"Sandbox"}


def test_retained_data_of_another_user_is_refused_before_anything_is_registered() -> None:
    found = {"resourceTagMappingLists": [{"resourceArn": ARN, "tags": DESK.tags}]}

    def program(user: str) -> None:
        check_seat_conflicts([replace(DESK, user=user)], "dev", pulumi.InvokeOptions())
        workspace(replace(DESK, user=user))

    assert registered(lambda: program("u-1"), existing={SEARCH: found}).of("AccessPoint")
    with pytest.raises(SeatConflictError, match="fsap-1 has the data of u-1"):
        registered(lambda: program("u-2"), existing={SEARCH: found})


def test_colliding_seats_are_refused_without_a_request() -> None:
    with pytest.raises(SeatConflictError, match="declared twice"):
        registered(lambda: check_seat_conflicts([DESK, DESK], "dev", pulumi.InvokeOptions()))
    assert registered(lambda: check_seat_conflicts([], "dev", pulumi.InvokeOptions())).invokes == []


def test_a_denied_search_for_retained_data_names_the_missing_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(**_: Any) -> Any:
        raise RuntimeError("invoke of getResources failed: it returned an error: AccessDeniedException: not you.")

    monkeypatch.setattr(resourcegroupstaggingapi, "get_resources", refused)
    with pytest.raises(SeatConflictError, match="AccessDeniedException: not you; allow the caller tag:GetResources"):
        registered(lambda: check_seat_conflicts([DESK], "dev", pulumi.InvokeOptions()))
