"""A class's graph: its namespace with what holds it, its releases, its storage, and what it is to AWS."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pulumi
import pytest

from agentenv.components._lib.arguments import ArgumentError
from agentenv.components.sandboxes.sandbox_class import SandboxClass
from agentenv.core.plan import ExistingRanges
from tests.fast.components.graph import Graph, registered
from tests.fast.components.node_shapes import on_cluster
from tests.fast.components.shapes import planned
from tests.fast.config.stack_samples import VETTED

IMAGE = f"registry.example.com/sandbox@sha256:{'0' * 64}"
OTHER = f"registry.example.com/sandbox@sha256:{'1' * 64}"
POLICY = "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess"


def sandbox_class(**settings: Any) -> SandboxClass:
    """A class on two file systems, and in two security groups where it is on Fargate."""
    chosen = {"name": "standard", "image": IMAGE, "capabilities": ["dns", "web"], "pool": {"size": 3}, **settings}
    plan = planned({"storage": {"fileSystems": 2}, "sandboxClasses": [chosen]}).classes["standard"]
    groups = pulumi.Output.from_input({"standard": ["sg-1", "sg-2"]})
    context = replace(on_cluster(), class_security_group_ids=groups).with_file_systems(["fs-0", "fs-1"])
    return SandboxClass("class", plan, context)


def build_graph(**settings: Any) -> Graph:
    return registered(lambda: sandbox_class(**settings))


def kinds(graph: Graph) -> list[str]:
    return sorted(
        resource.type.rsplit(":", 1)[-1] for resource in graph.resources if resource.type.startswith("kubernetes:")
    )


def test_everything_of_a_class_is_in_its_namespace_and_comes_after_it() -> None:
    graph = build_graph()
    space = graph.resource("Namespace")
    assert space.inputs["metadata"]["name"] == "sandbox-standard"
    inside = [resource for resource in graph.resources if resource.type.startswith("kubernetes:") and resource != space]
    assert kinds(graph) == sorted(
        ["Namespace", "ServiceAccount", "ResourceQuota", "LimitRange", "ConfigMap", "NetworkPolicy"]
        + ["StorageClass"] * 2
        + ["SandboxTemplate", "SandboxWarmPool", "SandboxWarmPool"] * 2
    )
    for resource in inside:
        assert resource.inputs["metadata"].get("namespace", "sandbox-standard") == "sandbox-standard"
        assert graph.comes_before(space, resource), resource.name


def test_sandboxes_come_after_everything_that_holds_them() -> None:
    graph = build_graph()
    for pool in graph.of("SandboxWarmPool"):
        template = graph.resource(
            "SandboxTemplate", pool.name.removesuffix("-pool").removesuffix("-cold") + "-template"
        )
        assert pool.inputs["spec"]["sandboxTemplateRef"]["name"] == template.inputs["metadata"]["name"]
        for word in ("NetworkPolicy", "ResourceQuota", "ConfigMap", "ServiceAccount"):
            assert graph.comes_before(graph.resource(word), template)
        # The engine waits for the quota's count, and the API server sees the class's parameters meanwhile
        assert graph.comes_before(graph.resource("ConfigMap"), graph.resource("ResourceQuota"))
        assert graph.comes_before(template, pool)
        assert all(graph.comes_before(storage_class, pool) for storage_class in graph.of("StorageClass"))


def test_homes_are_on_every_file_system() -> None:
    graph = build_graph()
    assert [storage_class.inputs["parameters"]["fileSystemId"] for storage_class in graph.of("StorageClass")] == [
        "fs-0",
        "fs-1",
    ]
    assert graph.resource("ConfigMap").inputs["data"]["fileSystems"] == "fs-0,fs-1"


def test_changed_class_is_a_new_release_beside_the_retained_old_one() -> None:
    old, new = build_graph(), build_graph(image=OTHER)
    before, after = ({template.name for template in some.of("SandboxTemplate")} for some in (old, new))
    assert not before & after
    assert all(
        resource.retain
        for some in (old, new)
        for kind in ("SandboxTemplate", "SandboxWarmPool")
        for resource in some.of(kind)
    )
    # Should it come back, its pool has been emptied by somebody who owns that size since.
    pools = old.of("SandboxWarmPool")
    assert {pool.inputs["metadata"]["annotations"]["pulumi.com/patchForce"] for pool in pools} == {"true"}
    others = {resource.key for resource in old.resources} - {resource.key for resource in new.resources}
    assert {type_.rsplit(":", 1)[-1] for type_, _ in others} == {"SandboxTemplate", "SandboxWarmPool"}
    # What holds the sandboxes goes with the stack.
    assert not any(
        resource.retain
        for resource in old.resources
        if resource.type.rsplit(":", 1)[-1] in {"Namespace", "NetworkPolicy"}
    )


def test_a_larger_pool_is_the_same_release() -> None:
    small, large = build_graph(), build_graph(pool={"size": 30})
    assert {resource.key for resource in small.resources} == {resource.key for resource in large.resources}
    assert sum(pool.inputs["spec"]["replicas"] for pool in large.of("SandboxWarmPool")) == 30


def test_a_scheduled_pool_belongs_to_its_schedule() -> None:
    graph = build_graph(pool={"size": 2, "schedules": [{"start": "08:00", "end": "18:00", "size": 8}]})
    # But for those that are empty at all hours.
    ignored = {pool.name: pool.ignored for pool in graph.of("SandboxWarmPool")}
    assert all(names == ([] if of.endswith("-cold-pool") else ["spec.replicas"]) for of, names in ignored.items())
    assert len(graph.of("CronJob")) == 2
    assert all(graph.comes_before(graph.resource("RoleBinding"), job) for job in graph.of("CronJob"))
    assert not any(pool.ignored for pool in build_graph().of("SandboxWarmPool"))


def test_a_role_for_tokens_is_named_by_the_account_and_tied_to_it() -> None:
    graph = build_graph(identity={"kind": "irsa", "policies": [POLICY]})
    role = graph.resource("Role")
    trust = role.policy("assumeRolePolicy")["Statement"][0]["Condition"]["StringEquals"]
    assert trust["oidc.eks.eu-west-1.amazonaws.com/id/ABC:sub"] == "system:serviceaccount:sandbox-standard:sandbox"
    account = graph.resource("ServiceAccount").inputs["metadata"]
    assert account["annotations"]["eks.amazonaws.com/role-arn"].endswith(":class-role")
    assert graph.resource("RolePolicyAttachment").inputs["policyArn"] == POLICY


def test_policies_of_one_name_and_two_accounts_are_two() -> None:
    both = ["arn:aws:iam::111122223333:policy/read", "arn:aws:iam::444455556666:policy/read", POLICY]
    attachments = build_graph(identity={"kind": "irsa", "policies": both}).of("RolePolicyAttachment")
    assert [attachment.inputs["policyArn"] for attachment in attachments] == both
    assert len({attachment.name for attachment in attachments}) == 3
    # What stands under a name of its word alone is found again, and nothing that comes beside it renames it.
    assert [attachment.aliases for attachment in attachments] == [1, 0, 1]
    (alone,) = build_graph(identity={"kind": "irsa", "policies": both[:1]}).of("RolePolicyAttachment")
    assert (alone.name, alone.aliases) == (attachments[0].name, 1)


def test_a_role_that_the_agent_hands_out_is_tied_by_an_association() -> None:
    graph = build_graph(**VETTED, identity={"kind": "pod-identity", "policies": [POLICY]})
    tied = graph.resource("PodIdentityAssociation").inputs
    assert (tied["namespace"], tied["serviceAccount"]) == ("sandbox-standard", "sandbox")
    assert "annotations" not in graph.resource("ServiceAccount").inputs["metadata"]


def test_on_fargate_groups_hold_it_and_no_policy_is_relied_on() -> None:
    settings: dict[str, Any] = {
        "tier": "untrusted",
        "compute": "fargate",
        "resources": {"cpu": "1", "memory": "1792Mi"},
        "pool": {"size": 0},
    }
    graph = build_graph(**settings)
    assert not graph.of("NetworkPolicy")
    assert not graph.of("StorageClass")
    assert graph.resource("SecurityGroupPolicy").inputs["spec"]["securityGroups"] == {"groupIds": ["sg-1", "sg-2"]}


def test_outputs_have_the_chosen_values() -> None:
    seen: dict[str, Any] = {}

    def program() -> None:
        component = sandbox_class(pool={"peakClaimsPerHour": 60, "replenishSeconds": 30, "missRate": 0.01})
        component.summary.apply(seen.update)

    registered(program)
    assert seen["poolSize"] == 4
    assert 0 < float(seen["expectedMissRate"]) <= 0.01
    assert seen["releases"]["stable"].startswith("standard-")


def test_existing_ranges_are_excluded_from_egress() -> None:
    existing = {
        "vpcId": "vpc-0123456789abcdef0",
        "privateSubnetIds": ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"],
    }
    chosen = {"name": "standard", "image": IMAGE, "capabilities": ["dns", "web"]}
    plan = planned({"network": {"existing": existing}, "sandboxClasses": [chosen]})
    plan = plan.with_existing(ExistingRanges(("203.0.0.0/16",), "198.18.0.0/16"))
    graph = registered(
        lambda: SandboxClass("class", plan.classes["standard"], on_cluster().with_file_systems(["fs-0"]))
    )
    blocks = str(graph.resource("NetworkPolicy").inputs["spec"]["egress"])
    assert "203.0.0.0/16" in blocks


def test_a_surprising_capability_is_logged_with_every_preview(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        build_graph(capabilities=["dns", "web"])
        assert "whole internet" not in caplog.text
        build_graph(capabilities=["git"])
    assert "class standard: git opens TCP 22 and 443 to the whole internet" in caplog.text


@pytest.mark.parametrize("ids", [[], ["fs-0"]])
def test_missing_file_systems_are_named_with_how_to_pass_them(ids: list[str]) -> None:
    settings = {"storage": {"fileSystems": 2}, "sandboxClasses": [{"name": "standard", "image": IMAGE}]}
    plan = planned(settings).classes["standard"]
    with pytest.raises(ArgumentError, match=rf"found {len(ids)}; allowed: 2, as storage.fileSystems, by .*\.with_file"):
        registered(lambda: SandboxClass("class", plan, on_cluster().with_file_systems(ids)))
    registered(lambda: SandboxClass("class", plan, on_cluster().with_file_systems(["fs-0", "fs-1"])))


def test_class_without_homes_needs_no_file_system() -> None:
    settings = {"sandboxClasses": [{"name": "standard", "image": IMAGE, "storage": {"kind": "none"}}]}
    plan = planned(settings).classes["standard"]
    assert registered(lambda: SandboxClass("class", plan, on_cluster())).resource("SandboxTemplate")


def test_missing_security_groups_on_fargate_are_named() -> None:
    chosen = {
        "name": "standard",
        "image": IMAGE,
        "compute": "fargate",
        "tier": "untrusted",
        "storage": {"kind": "none"},
    }
    plan = planned({"sandboxClasses": [chosen]}).classes["standard"]
    with pytest.raises(ArgumentError, match="found none; allowed: those of class standard: create the cluster with"):
        registered(lambda: SandboxClass("class", plan, on_cluster()))
