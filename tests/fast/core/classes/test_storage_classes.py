"""Tests of storage classes: an access point per home, with the ids and the folder of the class."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from agentenv.config.constraints.names import LONGEST_CLASS
from agentenv.core.classes.objects import DeploymentValues, class_objects
from agentenv.core.classes.plan import ClassPlan
from agentenv.core.classes.storage_classes import LONGEST_PATH, LONGEST_VOLUME
from agentenv.rehearsal.controlplane.storage.efs_provisioning import Parameters, check_claim
from tests.fast.config.stack_samples import sandbox
from tests.fast.core.classes.strategies import FEW, SYSTEMS, created, objects_of, plan_of, planned

Object = dict[str, Any]
VOLUME = "pvc-12345678-1234-1234-1234-123456789012"


def nothing() -> str:
    raise AssertionError("the driver was to add something to a folder's name")


@FEW
@given(planned())
def test_a_home_has_the_ids_of_its_class(plan: ClassPlan) -> None:
    objects = objects_of(plan)
    assert len(objects.storage_classes) == (plan.shards if plan.slots else 0)
    by_name = {storage_class["metadata"]["name"]: storage_class for storage_class in objects.storage_classes}
    for shard, storage_class in enumerate(objects.storage_classes):
        wish = Parameters.parse(storage_class["parameters"])
        assert wish.file_system == SYSTEMS[shard]
        assert wish.owner([]) == (plan.uid, plan.uid)
        assert wish.permissions == "700"
        assert wish.unique
        assert not wish.reuse
        assert all(isinstance(value, str) for value in storage_class["parameters"].values())
        assert storage_class["reclaimPolicy"] == "Delete"
        assert storage_class["mountOptions"] == ["tls", "iam"]
    releases = [release for release in objects.releases for _ in release.shards]
    for template, release in zip(objects.templates, releases, strict=True):
        for claim in template["spec"].get("volumeClaimTemplates", []):
            assert claim["metadata"]["name"] == "home"
            theirs = by_name[claim["spec"]["storageClassName"]]
            check_claim(claim, theirs)
            run_as = template["spec"]["podTemplate"]["spec"]["securityContext"]
            assert theirs["parameters"]["uid"] == theirs["parameters"]["gid"] == str(run_as["runAsUser"])
            shard = template["metadata"]["labels"]["sandbox.users.io/shard"]
            assert theirs["metadata"]["labels"]["sandbox.users.io/shard"] == shard
            assert release.name(int(shard)) == template["metadata"]["name"]


@pytest.mark.parametrize("name", ["a", "standard", "x" * LONGEST_CLASS])
def test_folders_are_valid_in_efs(name: str) -> None:
    (storage_class,) = created(sandbox(name)).storage_classes
    assert len(VOLUME) == LONGEST_VOLUME
    path = Parameters.parse(storage_class["parameters"]).directory(
        {"metadata": {"name": "c", "namespace": "n"}}, VOLUME, nothing
    )
    assert path == f"/classes/{name}/{VOLUME}"
    assert len(path) <= LONGEST_PATH
    assert path.count("/") <= 4


def test_folders_of_classes_are_not_nested() -> None:
    folders = [created(sandbox(name)).storage_classes[0]["parameters"]["basePath"] for name in ("a", "a-b", "seats")]
    assert len(set(folders)) == 3
    assert not any(folder != other and folder.startswith(f"{other}/") for folder in folders for other in folders)
    # Declared workspaces have a folder of their own beside it.
    assert not any(folder.startswith("/seats") for folder in folders)


def test_unknown_file_system_ids_are_not_read() -> None:
    later = object()
    plan = plan_of(sandbox(identity={"kind": "irsa"}))
    objects = class_objects(plan, DeploymentValues([later], later, {plan.name: later}))
    assert objects.storage_classes[0]["parameters"]["fileSystemId"] is later
    assert objects.constraints["data"]["fileSystems"] is later
    assert objects.account["metadata"]["annotations"]["eks.amazonaws.com/role-arn"] is later
