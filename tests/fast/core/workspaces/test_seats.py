"""Tests of seats: their objects, ids and paths depend on the seat alone; conflicts are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agentenv.config import read
from agentenv.core.values.names import KINDS
from agentenv.core.values.posix_ids import SEAT_IDS, class_id, seat_id
from agentenv.core.workspaces import seats
from agentenv.core.workspaces.seats import RetainedSeat, SeatPlan, seat_plans
from tests.fast.config.stack_samples import sandbox
from tests.fast.core.classes.strategies import objects_of, plan_of

DESK = SeatPlan("desk", "standard", "u-1", "5Gi")
IDS = class_id("standard")
TEMPLATE: dict[str, Any] = {
    "podTemplate": {
        "metadata": {
            "labels": {
                "sandbox.users.io/class": "standard",
                "sandbox.users.io/tier": "standard",
            }
        },
        "spec": {
            "runtimeClassName": "gvisor",
            "securityContext": {"runAsNonRoot": True, "runAsUser": IDS, "runAsGroup": IDS, "fsGroup": IDS},
            "initContainers": [{"name": "gate", "securityContext": {"capabilities": {"drop": ["ALL"]}}}],
            "containers": [
                {
                    "name": "sandbox",
                    "securityContext": {"runAsUser": IDS, "readOnlyRootFilesystem": True},
                    "volumeMounts": [
                        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - of a container
                        {"name": "home", "mountPath": "/home/agent", "subPath": "current"},
                    ],
                }
            ],
            "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}}],
        },
    },
    "service": False,
}


def declared(*workspaces: dict[str, Any], **cost: Any) -> tuple[SeatPlan, ...]:
    image = f"registry.example.com/sandbox@sha256:{'0' * 64}"
    standard = {"name": "standard", "image": image, "storage": {"size": "5Gi", "mountPath": "/home/agent"}}
    config = {
        "aws:region": "us-east-1",
        "agent-environment:cluster": {"publicAccessCidrs": ["203.0.113.0/24"]},
        "agent-environment:sandboxClasses": [standard],
        "agent-environment:workspaces": list(workspaces),
        "agent-environment:cost": cost,
    }
    return seat_plans(read(config, "dev"))


def test_a_seat_does_not_depend_on_other_seats() -> None:
    desk: dict[str, Any] = {"name": "desk", "class": "standard", "user": "u-1"}
    other: dict[str, Any] = {"name": "other", "class": "standard", "user": "u-2"}
    (alone,) = declared(desk)
    assert alone == declared(desk, other)[0] == declared(other, desk)[1] == DESK
    assert (alone.uid, alone.namespace, alone.claim, alone.volume) == (
        seat_id("desk"),
        "sandbox-standard",
        "home-desk",
        "seat-desk",
    )
    assert alone.uid in SEAT_IDS


def test_size_and_budget_default_to_those_of_the_class() -> None:
    desk: dict[str, Any] = {"name": "desk", "class": "standard", "user": "u-1"}
    (seat_,) = declared({**desk, "size": "20Gi", "budget": 25}, perUserCap=3)
    (left,) = declared(desk, perUserCap="3.50")
    assert (seat_.size, seat_.budget) == ("20Gi", "25")
    assert (left.size, left.budget) == ("5Gi", "3.50")
    assert seats.sandbox(seat_, TEMPLATE)["metadata"]["annotations"] == {"sandbox.users.io/budget": "25"}
    assert "annotations" not in seats.sandbox(DESK, TEMPLATE)["metadata"]


def test_another_owner_of_the_same_name_gets_another_folder() -> None:
    mine, theirs = DESK, replace(DESK, user="u-2")
    assert mine.path != theirs.path
    assert mine.path.startswith("/seats/desk-")
    # Neither is above the other, nor is a seat whose name only begins the same.
    assert not replace(DESK, name="desk-a").path.startswith(f"{mine.path}/")


def test_the_longest_names_are_valid() -> None:
    longest = replace(DESK, name="s" * 58, sandbox_class="c" * 30)
    assert KINDS["kubernetes-label"].accepts(longest.claim)
    assert KINDS["kubernetes-subdomain"].accepts(longest.volume)
    # EFS takes a hundred characters, and four levels.
    assert len(longest.path) <= 100
    assert longest.path.count("/") <= 4


def test_volume_and_claim_are_bound_to_each_other_and_retained() -> None:
    volume, claim = seats.volume(DESK, "fs-1::fsap-1"), seats.claim(DESK)
    assert volume["spec"]["csi"] == {"driver": "efs.csi.aws.com", "volumeHandle": "fs-1::fsap-1"}
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    reference = volume["spec"]["claimRef"]
    assert (reference["namespace"], reference["name"]) == (claim["metadata"]["namespace"], claim["metadata"]["name"])
    assert claim["spec"]["volumeName"] == volume["metadata"]["name"]
    for key in ("storageClassName", "accessModes"):
        assert volume["spec"][key] == claim["spec"][key]
    # A class of storage would make a volume of its own.
    assert claim["spec"]["storageClassName"] == ""
    assert volume["spec"]["capacity"]["storage"] == claim["spec"]["resources"]["requests"]["storage"] == "5Gi"


def test_a_seat_has_the_hardening_of_its_class_with_its_own_ids() -> None:
    pod = seats.seat_pod_template(DESK, TEMPLATE)
    spec = pod["spec"]
    assert spec["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": DESK.uid,
        "runAsGroup": DESK.uid,
        "fsGroup": DESK.uid,
    }
    container = spec["containers"][0]
    assert container["securityContext"] == {"runAsUser": DESK.uid, "readOnlyRootFilesystem": True}
    assert spec["initContainers"] == TEMPLATE["podTemplate"]["spec"]["initContainers"]
    assert spec["runtimeClassName"] == "gvisor"
    assert {"name": "home", "persistentVolumeClaim": {"claimName": "home-desk"}} in spec["volumes"]
    assert {"name": "home", "mountPath": "/home/agent", "subPath": "current"} in container["volumeMounts"]
    assert len({mount["mountPath"] for mount in container["volumeMounts"]}) == len(container["volumeMounts"]) == 2
    assert "volumeClaimTemplates" not in seats.sandbox(DESK, TEMPLATE)["spec"]
    assert pod["metadata"]["labels"] == {
        "sandbox.users.io/class": "standard",
        "sandbox.users.io/tier": "standard",
        "sandbox.users.io/user": "u-1",
        "sandbox.users.io/workspace": "desk",
        "sandbox.users.io/mode": "user",
    }
    assert pod["metadata"]["annotations"] == {"karpenter.sh/do-not-disrupt": "true"}


@pytest.mark.parametrize("kind", ["slot", "scratch", "none"])
def test_a_seat_mounts_its_volume_as_home(kind: str) -> None:
    plan = plan_of(
        sandbox(storage={"kind": kind, "mountPath": "/work"}, capabilities=["dns"]),
        capacity={"families": ["m8gd"]},
        workspaces=[{"name": "desk", "class": "standard", "user": "u-1"}],
    )
    document = seats.sandbox(DESK, objects_of(plan).seat)
    assert document["spec"]["service"] is False
    assert "volumeClaimTemplates" not in document["spec"]
    spec = document["spec"]["podTemplate"]["spec"]
    (container,) = spec["containers"]
    assert {"name": "home", "mountPath": "/work", "subPath": "current"} in container["volumeMounts"]
    assert {"name": "HOME", "value": "/work"} in container["env"]
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    assert volumes["home"] == {"name": "home", "persistentVolumeClaim": {"claimName": "home-desk"}}
    assert len(volumes) == len(spec["volumes"])
    assert {mount["name"] for mount in container["volumeMounts"]} == set(volumes)
    assert spec["initContainers"][0]["name"] == "home"
    assert {container["image"] for container in [*spec["initContainers"], container]} <= set(
        objects_of(plan).constraints["data"]["images"].split(",")
    )


def test_the_template_of_the_class_is_not_changed() -> None:
    before = str(TEMPLATE)
    seats.sandbox(DESK, TEMPLATE)
    assert str(TEMPLATE) == before


def test_seats_with_the_same_name_or_id_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert seats.duplicate_seats([DESK, replace(DESK, name="other")]) == []
    (twice,) = seats.duplicate_seats([DESK, replace(DESK, user="u-2")])
    assert "desk" in twice
    assert "rename" in twice
    monkeypatch.setattr(seats, "seat_id", lambda _: SEAT_IDS[0])
    (both,) = seats.duplicate_seats([DESK, replace(DESK, name="other")])
    assert str(SEAT_IDS[0]) in both
    assert "rename" in both


ARN = "arn:aws:elasticfilesystem:us-east-1:123456789012:access-point/fsap-1"


def test_retained_data_is_for_the_same_owner_only() -> None:
    retained = seats.retained_seats(
        {
            ARN: {**DESK.tags, "environment": "dev"},
            ARN.replace("access-point/fsap-1", "file-system/fs-1"): DESK.tags,
            ARN.replace("fsap-1", "fsap-2"): {"sandbox-user": "u-9"},
        }
    )
    assert retained == (RetainedSeat("desk", "u-1", ARN),)
    assert seats.conflicting_seats([DESK], retained) == []
    assert seats.conflicting_seats([replace(DESK, name="other", user="u-2")], retained) == []
    (refusal,) = seats.conflicting_seats([replace(DESK, user="u-2")], retained)
    for word in ("desk", "u-1", "u-2", "fsap-1", "another name", "again", "delete"):
        assert word in refusal
