"""The metering of homes: the order of its resources, its identity in AWS and the cluster, and its mounts."""

from __future__ import annotations

from typing import Any

import pytest

from agentenv.components.storage.home_metering import StorageMetering
from agentenv.core.values.posix_ids import class_id
from tests.fast.components.graph import Graph, registered
from tests.fast.components.node_shapes import on_cluster
from tests.fast.components.shapes import planned
from tests.fast.config.stack_samples import sandbox

IMAGE = f"registry.example.com/a@sha256:{'0' * 64}"
SYSTEMS = ["fs-0123456789abcdef0", "fs-0fedcba9876543210"]


def metering(*, preview: bool = False) -> Graph:
    sections = {"service": {"image": IMAGE}, "storage": {"fileSystems": 2}, "sandboxClasses": [sandbox()]}
    plan = planned(sections).home_metering
    assert plan is not None
    return registered(lambda: StorageMetering("looks", plan, on_cluster().with_file_systems(SYSTEMS)), preview=preview)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return metering()


def test_a_job_a_file_system_comes_after_all_that_it_needs(graph: Graph) -> None:
    jobs = sorted(graph.of("CronJob"), key=lambda job: job.name)
    assert [job.name for job in jobs] == ["looks-homes-0", "looks-homes-1"]
    everything = [
        *(graph.resource(kind) for kind in ("Namespace", "NetworkPolicy", "ServiceAccount", "RolePolicy")),
        graph.resource("ClusterRoleBinding"),
        graph.resource("PersistentVolumeClaim", "-0-class-standard"),
        graph.resource("AccessPoint", "-0-class-standard"),
    ]
    for resource in everything:
        assert graph.comes_before(resource, jobs[0]), resource.name
    assert (
        graph.resource("Namespace").inputs["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    )
    policy = graph.resource("NetworkPolicy").inputs["spec"]
    assert policy["ingress"] == []
    assert policy["podSelector"] == {}


def test_role_may_only_describe_access_points(graph: Graph) -> None:
    [statement] = graph.resource("RolePolicy").policy()["Statement"]
    assert statement["Action"] == ["elasticfilesystem:DescribeAccessPoints", "elasticfilesystem:DescribeFileSystems"]
    assert [arn.rpartition("/")[2] for arn in statement["Resource"]] == ["*", *sorted(SYSTEMS)]
    trust = graph.resource("Role").policy("assumeRolePolicy")["Statement"][0]
    assert "system:serviceaccount:storage-metering:storage-metering" in trust["Condition"]["StringEquals"].values()


def test_it_may_write_on_volumes_in_the_cluster_and_nothing_else(graph: Graph) -> None:
    rules = graph.resource("ClusterRole").inputs["rules"]
    changing = {
        (resource, verb)
        for rule in rules
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if verb not in {"get", "list"}
    }
    assert changing == {("persistentvolumes", "patch")}
    [subject] = graph.resource("ClusterRoleBinding").inputs["subjects"]
    assert subject == {"kind": "ServiceAccount", "name": "storage-metering", "namespace": "storage-metering"}


def test_each_class_is_mounted_from_each_file_system_with_its_own_ids_to_read_only(graph: Graph) -> None:
    for shard, system in enumerate(SYSTEMS):
        point = graph.resource("AccessPoint", f"-{shard}-class-standard").inputs
        id_ = class_id("standard")
        assert point["fileSystemId"] == system
        assert point["posixUser"] == {"uid": id_, "gid": id_}
        assert point["rootDirectory"] == {
            "path": "/classes/standard",
            "creationInfo": {"ownerUid": id_, "ownerGid": id_, "permissions": "0700"},
        }
        assert point["tags"]["storage-metering"] == point["tags"]["sandbox-class"] == "standard"
        spec = graph.resource("PersistentVolume", f"-{shard}-class-standard").inputs["spec"]
        assert spec["csi"]["readOnly"] is True
        assert spec["csi"]["volumeHandle"].startswith(f"{system}::")
        assert spec["claimRef"]["namespace"] == "storage-metering"


def test_what_is_mounted_is_known_before_any_file_system_is() -> None:
    [container] = (
        metering(preview=True)
        .resource("CronJob", "-0")
        .inputs["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    )
    paths = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert paths == {"/homes/shard-0/classes/standard", "/tmp"}  # noqa: S108
    assert "--file-system=$(FILE_SYSTEM)=shard-0" in container["args"]


@pytest.mark.parametrize("settings", [{"cost": {"storageMetering": {"enabled": False}}}, {"service": {}}])
def test_without_anything_to_look_at_it_is_not_planned(settings: dict[str, Any]) -> None:
    sections = {"service": {"image": IMAGE}, "sandboxClasses": [sandbox()], **settings}
    assert planned(sections).home_metering is None
