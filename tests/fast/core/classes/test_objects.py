"""Tests of the objects of classes: policies, parameters, swarms and claims."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given

from agentenv.config.sections.classes import ClaimableBy, SandboxClass
from agentenv.core.capabilities.resolve import UnknownClusterFactsError
from agentenv.core.classes.plan import ClassPlan, plans
from agentenv.core.classes.swarm import shared_volume, swarm_pool, swarm_template, task_objects
from agentenv.core.nodes.tier_rules import RULES, rule_of
from agentenv.core.workspaces.claims import claim
from tests.fast.config.stack_samples import IMAGE, OTHER_IMAGE, fargate, sandbox, settings
from tests.fast.core.classes.restricted import violations
from tests.fast.core.classes.strategies import FEW, created, objects_of, plan_of, planned

Object = dict[str, Any]


def swarm_claim(**changes: Any) -> Object:
    """A claim with something more said."""
    return claim("standard", "standard-abc", "c-1", owner="u-4711", workspace="w-1", **changes)


@FEW
@given(planned())
def test_exactly_one_policy_selects_the_pods_of_a_class(plan: ClassPlan) -> None:
    objects = objects_of(plan)
    held = [policy for policy in (objects.network_policy, objects.group_policy) if policy is not None]
    assert len(held) == 1
    assert (objects.group_policy is not None) is plan.on_fargate
    selected = held[0]["spec"]["podSelector"]
    assert set(selected) == {"matchLabels"}
    for template in objects.templates:
        labels = template["spec"]["podTemplate"]["metadata"]["labels"]
        assert selected["matchLabels"].items() <= labels.items()
    if objects.network_policy is not None:
        assert objects.network_policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
        assert [] not in objects.network_policy["spec"].values()


@FEW
@given(planned())
def test_parameters_agree_with_the_templates(plan: ClassPlan) -> None:
    objects = objects_of(plan)
    data = objects.constraints["data"]
    assert all(isinstance(value, str) for value in data.values())
    for template in objects.templates:
        pod = template["spec"]["podTemplate"]
        assert pod["spec"].get("runtimeClassName", "") == data["runtimeClassName"]
        assert pod["spec"].get("priorityClassName", "") == data["priorityClassName"]
        assert str(pod["spec"]["securityContext"]["runAsUser"]) == data["uid"]
        assert pod["spec"]["serviceAccountName"] == data["serviceAccount"]
        every = [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]
        assert {container["image"] for container in every} <= set(data["images"].split(","))
        pod_labels = dict(pair.split("=") for pair in data["podLabels"].split(","))
        assert pod_labels.items() <= pod["metadata"]["labels"].items()
        homes = template["spec"].get("volumeClaimTemplates", [])
        assert {home["spec"]["storageClassName"] for home in homes} <= set(data["storageClasses"].split(","))
        assert template["metadata"]["name"].startswith(f"{data['pools']}-")
    current = [entry.split("/") for entry in data["releases"].split(",")]
    assert [name for _, name in current] == [pool["metadata"]["name"] for pool in objects.pools]


def test_parameters_have_seats_with_their_ids() -> None:
    seats = [{"name": name, "class": "standard", "user": "u-1"} for name in ("one", "two")]
    data = created(sandbox(), workspaces=seats).constraints["data"]
    assert [seat.split(":")[0] for seat in data["seats"].split(",")] == ["one", "two"]
    assert len({seat.split(":")[1] for seat in data["seats"].split(",")} | {data["uid"]}) == 3


def test_security_groups_of_a_fargate_class_are_not_read() -> None:
    later = object()
    policy = objects_of(plan_of(fargate()), groups=later).group_policy
    assert policy is not None
    assert policy["spec"]["securityGroups"]["groupIds"] is later


def test_a_policy_needs_known_cluster_facts() -> None:
    network = {
        "existing": {"vpcId": "vpc-0123456789abcdef0", "privateSubnetIds": ["subnet-01234567", "subnet-12345678"]}
    }
    (plan,) = plans(settings({"network": network, "sandboxClasses": [sandbox(capabilities=["web"])]}))
    with pytest.raises(UnknownClusterFactsError):
        objects_of(plan)


def test_sandboxes_of_a_task_share_a_volume() -> None:
    plan = plan_of(sandbox(storage={"kind": "shared"}, releases=[{"image": OTHER_IMAGE}]), 2)
    release = objects_of(plan).releases[1]
    document = swarm_template(plan, release, "t-7", shard=1)
    name = f"{release.name()}-task-t-7"
    pod = document["spec"]["podTemplate"]
    assert document["metadata"]["name"] == name
    assert pod["metadata"]["labels"]["sandbox.users.io/task"] == "t-7"
    assert violations(pod["spec"]) == []
    assert {"name": "shared", "persistentVolumeClaim": {"claimName": "shared-t-7"}} in pod["spec"]["volumes"]
    mounts = {mount["name"]: mount["mountPath"] for mount in pod["spec"]["containers"][0]["volumeMounts"]}
    assert (mounts["home"], mounts["shared"]) == ("/home/agent", "/shared")
    assert document["spec"]["volumeClaimTemplates"][0]["spec"]["storageClassName"] == "efs-standard-1"
    volume = shared_volume(plan, "t-7", shard=1)
    assert volume["metadata"]["name"] == "shared-t-7"
    assert volume["spec"]["accessModes"] == ["ReadWriteMany"]
    assert volume["spec"]["storageClassName"] == "efs-standard-1"
    pool = swarm_pool(plan, release, "t-7")
    assert (pool["metadata"]["name"], pool["spec"]["replicas"]) == (name, 0)
    assert pool["spec"]["sandboxTemplateRef"]["name"] == name
    assert len(swarm_pool(plan, release, "t" * 63)["metadata"]["name"]) <= 63


def test_task_objects_equal_those_of_the_swarm() -> None:
    """A member returns alone by these, to what the swarm was made of."""
    plan = plan_of(sandbox(storage={"kind": "shared"}))
    objects = objects_of(plan)
    release = objects.releases[0]
    found = task_objects(objects.templates[0], "t-7", "u-1")
    whole = (shared_volume(plan, "t-7"), swarm_template(plan, release, "t-7"), swarm_pool(plan, release, "t-7"))
    for document, of_swarm in zip(found, whole, strict=True):
        assert (document["kind"], document["spec"]) == (of_swarm["kind"], of_swarm["spec"])
        assert [document["metadata"][key] for key in ("name", "namespace")] == [
            of_swarm["metadata"][key] for key in ("name", "namespace")
        ]
        labels = document["metadata"]["labels"]
        assert (labels["sandbox.users.io/user"], labels["sandbox.users.io/task"]) == ("u-1", "t-7")
        assert "sandbox.users.io/channel" not in labels
    # What was read stays as it was.
    assert "t-7" not in str(objects.templates[0])


@pytest.mark.parametrize(("kind", "task"), [("slot", "t-1"), ("shared", "T 1"), ("shared", "")])
def test_a_swarm_needs_shared_storage_and_a_task(kind: str, task: str) -> None:
    plan = plan_of(sandbox(storage={"kind": kind}))
    with pytest.raises(ValueError, match=r"not the name of a task|needs storage shared"):
        swarm_template(plan, objects_of(plan).releases[0], task)


def test_a_claim_has_its_owner_and_its_shutdown_policy() -> None:
    at = datetime(2026, 11, 18, 12, 0, tzinfo=timezone(timedelta(hours=1)))
    document = swarm_claim(mode="agent", task="t-7", shutdown=at)
    assert document["metadata"]["namespace"] == "sandbox-standard"
    spec = document["spec"]
    assert spec["warmPoolRef"] == {"name": "standard-abc"}
    assert spec["lifecycle"] == {"shutdownPolicy": "DeleteForeground", "shutdownTime": "2026-11-18T11:00:00Z"}
    assert spec["additionalPodMetadata"]["labels"] == {
        "sandbox.users.io/user": "u-4711",
        "sandbox.users.io/workspace": "w-1",
        "sandbox.users.io/mode": "agent",
        "sandbox.users.io/task": "t-7",
    }
    assert spec["additionalPodMetadata"]["annotations"] == {"karpenter.sh/do-not-disrupt": "true"}
    # Anything of these and it would start cold.
    assert not {"env", "volumeClaimTemplates"} & set(spec)


def test_unclaimed_members_do_not_block_disruption() -> None:
    pod = created(sandbox()).templates[0]["spec"]["podTemplate"]["metadata"]
    assert "annotations" not in pod


def test_variables_of_a_claim_are_for_the_sandbox_container() -> None:
    document = swarm_claim(env={"A": "1"})
    assert document["spec"]["env"] == [{"name": "A", "value": "1", "containerName": "sandbox"}]
    assert "shutdownTime" not in document["spec"]["lifecycle"]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [({"outcome": "Keep"}, "not a shutdown policy"), ({"shutdown": datetime(2026, 1, 1)}, "time zone")],  # noqa: DTZ001
)
def test_invalid_claims_are_refused(wrong: Object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        swarm_claim(**wrong)


def test_labels_of_a_claim_do_not_override_those_of_the_template() -> None:
    # Upstream fails a claim that does.
    labels = created(sandbox()).templates[0]["spec"]["podTemplate"]["metadata"]["labels"]
    given_labels = swarm_claim(task="t")["spec"]["additionalPodMetadata"]["labels"]
    assert not set(labels) & set(given_labels)
    assert all(key.startswith("sandbox.users.io/") for key in given_labels)


def test_the_default_tier_is_not_the_weakest() -> None:
    usual = SandboxClass(name="standard", image=IMAGE)
    assert rule_of(usual.tier).strength > min(rule.strength for rule in RULES)
    weakest = min(RULES, key=lambda rule: rule.strength)
    assert not set(ClaimableBy().roles) & set(weakest.roles)
    assert weakest.runtime_classes == (None,)
    assert all(None not in rule.runtime_classes for rule in RULES if rule is not weakest)


def test_the_shutdown_time_is_in_utc() -> None:
    at = datetime(2026, 11, 18, tzinfo=UTC)
    assert swarm_claim(shutdown=at)["spec"]["lifecycle"]["shutdownTime"] == "2026-11-18T00:00:00Z"
