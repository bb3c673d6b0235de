"""Declared workspaces under the real engine and API server: they survive changes, and their data is retained."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentenv.core.classes.objects import DeploymentValues, class_objects
from agentenv.core.values.posix_ids import seat_id
from agentenv.rehearsal.controlplane.client import until
from tests.live.conftest import REGION, LiveCluster
from tests.live.controlplane.objects import TIMEOUT, becomes_ready
from tests.live.kubernetes.engine import Engine, engine_in
from tests.live.service.conftest import IMAGES, LiveClass

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


class SeatStack:
    """A stack that declares seats of a class, and its configuration."""

    def __init__(self, engine: Engine, live_class: LiveClass, live: LiveCluster) -> None:
        self.engine, self.live_class, self.live = engine, live_class, live
        names = ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
        self._environment = {name: live.environment[name] for name in names}
        self._environment |= {"AWS_REGION": REGION, "SPACE": live_class.namespace}
        self.file_system, self.image = live_class.file_system, IMAGES[0]
        engine.set_program(PROGRAM)

    def config(self, *seats: Object) -> dict[str, str]:
        common = {"sandbox_class": self.live_class.name, "size": "1Gi"}
        objects = class_objects(
            self.live_class.plan(self.image),
            DeploymentValues([self.live_class.file_system], self.live_class.file_system),
        )
        template = json.dumps(objects.seat)
        declared = json.dumps([{**common, **seat} for seat in seats])
        return {**self._environment, "SYSTEM": self.file_system, "SEATS": declared, "TEMPLATE": template}

    def up(self, *seats: Object) -> dict[str, int]:
        return self.engine.changes("up", **self.config(*seats))

    def points(self, name: str) -> dict[str, Object]:
        """Return the access points of a seat, by id."""
        found = self.live.aws("efs").describe_access_points(FileSystemId=self.live_class.file_system)["AccessPoints"]
        rows = [row for row in found if {"Key": "sandbox-workspace", "Value": name} in row["Tags"]]
        return {row["AccessPointId"]: row for row in rows}

    def pod(self, name: str) -> Object:
        return self.live_class.get("pods", name, "/api/v1")


@pytest.fixture
def stack(live_class: LiveClass, live: LiveCluster, tmp_path: Path) -> SeatStack:
    live_class.size = 0
    live_class.deploy(IMAGES[0])
    return SeatStack(engine_in(tmp_path, live.plane), live_class, live)


def test_seat_survives_changes_and_its_data_survives_the_seat(stack: SeatStack) -> None:
    desk: Object = {"name": "desk", "user": "u-1", "budget": "25"}
    side: Object = {"name": "side", "user": "u-2", "destroy_data": True}
    # The stack, its provider, and for each seat the component and its four resources.
    assert stack.up(desk, side) == {"create": 12}
    running = check_own_ids(stack)
    assert stack.up(desk, side) == {}
    assert stack.engine.changes("refresh", **stack.config(desk, side)) == {}

    # A new release of the class, and seats in another order: running ones go on, and suspended ones stay so.
    path = f"/apis/agents.x-k8s.io/v1beta1/namespaces/{stack.live_class.namespace}/sandboxes/side"
    is_suspended = {"spec": {"operatingMode": "Suspended"}}
    stack.live_class.client.request("PATCH", path, is_suspended, content="application/merge-patch+json")
    assert until(
        lambda: stack.live_class.client.find(f"/api/v1/namespaces/{stack.live_class.namespace}/pods/side") is None,
        TIMEOUT,
    )
    stack.image = IMAGES[1]
    assert stack.up(side, desk) == {"update": 2}
    assert stack.pod("desk")["metadata"]["uid"] == running
    assert stack.live_class.client.get(path)["spec"]["operatingMode"] == "Suspended"

    (retained,), (destroyed,) = stack.points("desk"), stack.points("side")
    assert stack.up() == {"delete": 10}
    assert stack.live_class.all("persistentvolumeclaims", "/api/v1") == []
    assert stack.points("side") == {}
    assert list(stack.points("desk")) == [retained]
    assert destroyed != retained
    check_refused_to_others_and_readopted(stack, desk, retained)
    check_move_to_file_system(stack, desk)
    other = check_move_to_class(stack, desk)
    stack.engine.changes("destroy", **stack.config())
    stack.live_class.client.delete(f"/api/v1/namespaces/{other}")
    assert retained in stack.points("desk")


def check_own_ids(stack: SeatStack) -> str:
    """Return the uid of the seat's pod, which has the ids and volume of the seat and the hardening of the class."""
    where = f"/apis/agents.x-k8s.io/v1beta1/namespaces/{stack.live_class.namespace}/sandboxes/desk"
    assert becomes_ready(stack.live_class.client, where), stack.live_class.client.get(where)
    pod = stack.pod("desk")
    ids = seat_id("desk")
    security = pod["spec"]["securityContext"]
    assert (security["runAsUser"], security["runAsGroup"], security["runAsNonRoot"]) == (ids, ids, True)
    home = next(volume for volume in pod["spec"]["volumes"] if volume["name"] == "home")
    assert home["persistentVolumeClaim"]["claimName"] == "home-desk"
    assert pod["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["metadata"]["annotations"]["sandbox.users.io/budget"] == "25"
    claim = stack.live_class.get("persistentvolumeclaims", "home-desk", "/api/v1")
    volume = stack.live_class.client.get(f"/api/v1/persistentvolumes/{claim['spec']['volumeName']}")
    ((point, row),) = stack.points("desk").items()
    assert volume["spec"]["csi"]["volumeHandle"] == f"{stack.live_class.file_system}::{point}"
    assert (volume["status"]["phase"], volume["spec"]["persistentVolumeReclaimPolicy"]) == ("Bound", "Retain")
    assert row["PosixUser"] == {"Uid": ids, "Gid": ids}
    return pod["metadata"]["uid"]


def check_refused_to_others_and_readopted(stack: SeatStack, desk: Object, retained: str) -> None:
    """Another user is refused before anything is registered; the former user gets the same folder again."""
    error = stack.engine.fails("preview", **stack.config({**desk, "user": "u-9"}))
    assert f"{retained} has the data of u-1" in error
    assert "Traceback" not in error
    assert "Workspace" not in error
    assert stack.up(desk) == {"create": 5}
    found = stack.points("desk")
    assert len(found) == 2
    assert len({(row["RootDirectory"]["Path"], row["PosixUser"]["Uid"]) for row in found.values()}) == 1


def check_move_to_file_system(stack: SeatStack, desk: Object) -> None:
    """The objects that use a volume are deleted before it, and created again with the new one."""
    stack.file_system = stack.live.aws("efs").create_file_system(CreationToken=stack.live_class.namespace)[
        "FileSystemId"
    ]
    assert stack.up(desk) == {"replace": 4}
    assert becomes_ready(
        stack.live_class.client, f"/apis/agents.x-k8s.io/v1beta1/namespaces/{stack.live_class.namespace}/sandboxes/desk"
    )
    volume = stack.live_class.client.get("/api/v1/persistentvolumes/seat-desk")
    assert volume["spec"]["csi"]["volumeHandle"].startswith(f"{stack.file_system}::")
    assert volume["status"]["phase"] == "Bound"


def check_move_to_class(stack: SeatStack, desk: Object) -> str:
    """Keep the access point: its volume is replaced by one for the claim in the other namespace."""
    other = replace(stack.live_class, name=f"{stack.live_class.name}-b")
    other.deploy(stack.image)
    points = stack.points("desk")
    before = stack.live_class.client.get("/api/v1/persistentvolumes/seat-desk")["spec"]["csi"]
    moved = {**desk, "sandbox_class": other.name}
    # The tags of the access point are updated; the volume, its claim and the sandbox are replaced.
    assert stack.up(moved) == {"update": 1, "replace": 3}
    where = f"/apis/agents.x-k8s.io/v1beta1/namespaces/{other.namespace}/sandboxes/desk"
    assert becomes_ready(stack.live_class.client, where), stack.live_class.client.get(where)
    volume = stack.live_class.client.get("/api/v1/persistentvolumes/seat-desk")
    assert (volume["status"]["phase"], volume["spec"]["claimRef"]["namespace"]) == ("Bound", other.namespace)
    assert volume["spec"]["csi"] == before
    assert stack.points("desk").keys() == points.keys()
    assert stack.up(moved) == {}
    return other.namespace
