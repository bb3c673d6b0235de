"""Declared workspaces under the real engine, on the real API server: they stay through changes, their data for good."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentenv.core.classes.objects import DeploymentValues, class_objects
from agentenv.core.values.posix_ids import seat_id
from agentenv.rehearsal.controlplane.client import until
from tests.live.conftest import REGION, World
from tests.live.controlplane.things import PATIENCE, becomes_ready
from tests.live.kubernetes.engines import Engine, engine_in
from tests.live.service.conftest import IMAGES, Box

Object = dict[str, Any]
PROGRAM = """
import json
import os

import pulumi
import pulumi_kubernetes

from agentenv.components.sandboxes.workspace import Workspace, check_seat_conflicts
from agentenv.core.environment import EnvironmentFacts
from agentenv.core.workspaces.seats import SeatPlan

space = os.environ["SPACE"]
facts = EnvironmentFacts(space, space, {"environment": space, "owner": "platform", "cost-center": "cc-1"})
seats = [SeatPlan(**seat) for seat in json.loads(os.environ["SEATS"])]
check_seat_conflicts(seats, space, pulumi.InvokeOptions())
cluster = pulumi_kubernetes.Provider("cluster", kubeconfig=os.environ["PLANE"])
for seat in seats:
    Workspace(
        seat.name,
        seat,
        facts,
        file_system_id=os.environ["SYSTEM"],
        template=json.loads(os.environ["TEMPLATE"]),
        opts=pulumi.ResourceOptions(providers=[cluster]),
    )
"""


class Stack:
    """A stack that declares seats of a class, and what it is told."""

    def __init__(self, engine: Engine, box: Box, world: World) -> None:
        self.engine, self.box, self.world = engine, box, world
        names = ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
        self._around = {name: world.environment[name] for name in names}
        self._around |= {"AWS_REGION": REGION, "SPACE": box.space}
        self.system, self.image = box.system, IMAGES[0]
        engine.plays(PROGRAM)

    def config(self, *seats: Object) -> dict[str, str]:
        common = {"sandbox_class": self.box.name, "size": "1Gi"}
        objects = class_objects(self.box.plan(self.image), DeploymentValues([self.box.system], self.box.system))
        template = json.dumps(objects.seat)
        declared = json.dumps([{**common, **seat} for seat in seats])
        return {**self._around, "SYSTEM": self.system, "SEATS": declared, "TEMPLATE": template}

    def up(self, *seats: Object) -> dict[str, int]:
        return self.engine.changes("up", **self.config(*seats))

    def points(self, name: str) -> dict[str, Object]:
        """The access points of a seat, by id."""
        found = self.world.aws("efs").describe_access_points(FileSystemId=self.box.system)["AccessPoints"]
        rows = [row for row in found if {"Key": "sandbox-workspace", "Value": name} in row["Tags"]]
        return {row["AccessPointId"]: row for row in rows}

    def pod(self, name: str) -> Object:
        return self.box.get("pods", name, "/api/v1")


@pytest.fixture
def stack(box: Box, world: World, tmp_path: Path) -> Stack:
    box.size = 0
    box.deploy(IMAGES[0])
    return Stack(engine_in(tmp_path, world.plane), box, world)


def test_a_seat_stays_through_changes_and_its_data_after_it(stack: Stack) -> None:
    desk: Object = {"name": "desk", "user": "u-1", "budget": "25"}
    side: Object = {"name": "side", "user": "u-2", "destroy_data": True}
    # The stack, its provider, and for each seat the component and its four resources.
    assert stack.up(desk, side) == {"create": 12}
    running = comes_up_with_its_own_ids(stack)
    assert stack.up(desk, side) == {}
    assert stack.engine.changes("refresh", **stack.config(desk, side)) == {}

    # A new release of the class, and seats in another order: what runs goes on, and what sleeps is not woken.
    path = f"/apis/agents.x-k8s.io/v1beta1/namespaces/{stack.box.space}/sandboxes/side"
    asleep = {"spec": {"operatingMode": "Suspended"}}
    stack.box.client.request("PATCH", path, asleep, content="application/merge-patch+json")
    assert until(lambda: stack.box.client.find(f"/api/v1/namespaces/{stack.box.space}/pods/side") is None, PATIENCE)
    stack.image = IMAGES[1]
    assert stack.up(side, desk) == {"update": 2}
    assert stack.pod("desk")["metadata"]["uid"] == running
    assert stack.box.client.get(path)["spec"]["operatingMode"] == "Suspended"

    (retained,), (gone,) = stack.points("desk"), stack.points("side")
    assert stack.up() == {"delete": 10}
    assert stack.box.all("persistentvolumeclaims", "/api/v1") == []
    assert stack.points("side") == {}
    assert list(stack.points("desk")) == [retained]
    assert gone != retained
    refused_to_others_and_found_again(stack, desk, retained)
    moves_to_another_file_system(stack, desk)
    other = moves_to_another_class(stack, desk)
    stack.engine.changes("destroy", **stack.config())
    stack.box.client.delete(f"/api/v1/namespaces/{other}")
    assert retained in stack.points("desk")


def comes_up_with_its_own_ids(stack: Stack) -> str:
    """The uid of its pod, which has the seat's ids and volume and the class's hardening."""
    where = f"/apis/agents.x-k8s.io/v1beta1/namespaces/{stack.box.space}/sandboxes/desk"
    assert becomes_ready(stack.box.client, where), stack.box.client.get(where)
    pod = stack.pod("desk")
    ids = seat_id("desk")
    security = pod["spec"]["securityContext"]
    assert (security["runAsUser"], security["runAsGroup"], security["runAsNonRoot"]) == (ids, ids, True)
    home = next(volume for volume in pod["spec"]["volumes"] if volume["name"] == "home")
    assert home["persistentVolumeClaim"]["claimName"] == "home-desk"
    assert pod["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["metadata"]["annotations"]["sandbox.users.io/budget"] == "25"
    claim = stack.box.get("persistentvolumeclaims", "home-desk", "/api/v1")
    volume = stack.box.client.get(f"/api/v1/persistentvolumes/{claim['spec']['volumeName']}")
    ((point, row),) = stack.points("desk").items()
    assert volume["spec"]["csi"]["volumeHandle"] == f"{stack.box.system}::{point}"
    assert (volume["status"]["phase"], volume["spec"]["persistentVolumeReclaimPolicy"]) == ("Bound", "Retain")
    assert row["PosixUser"] == {"Uid": ids, "Gid": ids}
    return pod["metadata"]["uid"]


def refused_to_others_and_found_again(stack: Stack, desk: Object, retained: str) -> None:
    """Somebody else is refused under that name before anything is registered; its user has the same folder again."""
    error = stack.engine.fails("preview", **stack.config({**desk, "user": "u-9"}))
    assert f"{retained} has the data of u-1" in error
    assert "Traceback" not in error
    assert "Workspace" not in error
    assert stack.up(desk) == {"create": 5}
    found = stack.points("desk")
    assert len(found) == 2
    assert len({(row["RootDirectory"]["Path"], row["PosixUser"]["Uid"]) for row in found.values()}) == 1


def moves_to_another_file_system(stack: Stack, desk: Object) -> None:
    """The objects that use a volume are deleted before it, and created again with the new one."""
    stack.system = stack.world.aws("efs").create_file_system(CreationToken=stack.box.space)["FileSystemId"]
    assert stack.up(desk) == {"replace": 4}
    assert becomes_ready(stack.box.client, f"/apis/agents.x-k8s.io/v1beta1/namespaces/{stack.box.space}/sandboxes/desk")
    volume = stack.box.client.get("/api/v1/persistentvolumes/seat-desk")
    assert volume["spec"]["csi"]["volumeHandle"].startswith(f"{stack.system}::")
    assert volume["status"]["phase"] == "Bound"


def moves_to_another_class(stack: Stack, desk: Object) -> str:
    """Its files come along: the volume is made anew on the same access point, for the claim in the other namespace."""
    other = replace(stack.box, name=f"{stack.box.name}-b")
    other.deploy(stack.image)
    points = stack.points("desk")
    before = stack.box.client.get("/api/v1/persistentvolumes/seat-desk")["spec"]["csi"]
    moved = {**desk, "sandbox_class": other.name}
    # The access point is told of its class; the volume, its claim and the sandbox are others.
    assert stack.up(moved) == {"update": 1, "replace": 3}
    where = f"/apis/agents.x-k8s.io/v1beta1/namespaces/{other.space}/sandboxes/desk"
    assert becomes_ready(stack.box.client, where), stack.box.client.get(where)
    volume = stack.box.client.get("/api/v1/persistentvolumes/seat-desk")
    assert (volume["status"]["phase"], volume["spec"]["claimRef"]["namespace"]) == ("Bound", other.space)
    assert volume["spec"]["csi"] == before
    assert stack.points("desk").keys() == points.keys()
    assert stack.up(moved) == {}
    return other.space
