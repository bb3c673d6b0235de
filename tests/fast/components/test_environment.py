"""Properties of every resource of an environment: tags, names, options, and the order of all components."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pulumi
import pytest

from agentenv.components._lib.arguments import ArgumentError
from agentenv.components.environment import Environment
from agentenv.core.values.names import KINDS
from tests.fast.components.graph import ACCOUNT, REGION, Graph, registered
from tests.fast.components.shapes import network, planned, storage
from tests.fast.config.stack_samples import fargate, sandbox

NAMED = {
    "aws:cloudwatch/logGroup:LogGroup": "log-group",
    "aws:ec2/securityGroup:SecurityGroup": "security-group",
    "aws:iam/role:Role": "iam-role",
    "aws:athena/workgroup:Workgroup": "athena-workgroup",
    "aws:budgets/budget:Budget": "budget",
    "aws:kms/alias:Alias": "kms-alias",
}


PARTS = (
    "Network",
    "Cluster",
    "Storage",
    "Capacity",
    "ClusterAddons",
    "AgentSandbox",
    "Guardrails",
    "SandboxClass",
    "Workspace",
    "CostControls",
)
INHABITED: dict[str, Any] = {
    "network": {"zones": 3, "nat": "per-zone", "endpoints": ["ecr.api", "sts"]},
    "storage": {"fileSystems": 2},
    "sandboxClasses": [
        sandbox(capacity="spot", pool={"size": 2, "schedules": [{"start": "08:00", "end": "18:00", "size": 4}]})
    ],
    "workspaces": [{"name": "desk", "class": "standard", "user": "u-1"}],
    "cost": {
        "dashboards": False,
        "monthlyBudget": "500",
        "alertTo": "platform@example.com",
        "costTags": "activate",
        "usageExport": True,
        "anomalyAlerts": True,
        "platformDashboard": True,
        "tags": [{"key": "team", "value": "x"}],
    },
}


def environment(
    opts: pulumi.ResourceOptions | None = None, name: str = "agents", stage: str = "dev", **sections: Any
) -> Environment:
    """An environment with everything, less the sections that are given."""
    return Environment(name, planned({**INHABITED, **sections}, stage), opts)


@cache
def whole(stage: str = "dev", name: str = "agents") -> Graph:
    return registered(lambda: environment(name=name, stage=stage))


def takes_tags(type_: str) -> bool:
    """Return whether the SDK's class of a type takes tags."""
    package, _, class_ = type_.partition(":")[2].partition(":")
    module = importlib.import_module(f"pulumi_aws.{package.partition('/')[0]}")
    return "tags" in inspect.signature(getattr(module, class_)._internal_init).parameters


def test_every_taggable_resource_has_tags() -> None:
    graph = whole()
    taggable = [resource for resource in graph.aws_resources() if takes_tags(resource.type)]
    assert len(taggable) > 80
    for resource in taggable:
        tags = resource.inputs["tags"]
        assert tags["component"] in {
            *("network", "storage", "cluster", "capacity", "sandbox-class", "workspace", "cost-controls")
        }
        assert tags["Name"].startswith("dev-agents-")
        assert {key: tags[key] for key in ("environment", "owner", "cost-center", "team")} == {
            "environment": "dev",
            "owner": "platform",
            "cost-center": "cc-1",
            "team": "x",
        }
        for key, value in tags.items():
            assert KINDS["aws-tag-key"].accepts(key)
            assert KINDS["aws-tag-value"].accepts(value)
    assert not [
        resource for resource in graph.aws_resources() if "tags" in resource.inputs and resource not in taggable
    ]


@pytest.mark.parametrize("name", ["agents", "a-name-much-longer-than-anybody-would-give-" + "x" * 60])
def test_physical_names_fit_their_service_and_contain_the_environment(name: str) -> None:
    graph = whole("staging-eu", name)
    for type_, kind in NAMED.items():
        assert graph.of(type_)
        for resource in graph.of(type_):
            assert KINDS[kind].accepts(resource.inputs["name"]), resource.inputs["name"]
            assert "staging-eu" in resource.inputs["name"]


def test_descriptions_are_such_as_ec2_takes() -> None:
    described = [
        resource
        for resource in whole().aws_resources()
        if resource.type.startswith(("aws:ec2", "aws:vpc")) and "description" in resource.inputs
    ]
    assert described
    for resource in described:
        assert re.fullmatch(r"[a-zA-Z0-9. _:/()#,@\[\]+=&;{}!$*-]{1,255}", resource.inputs["description"])


def test_two_environments_of_one_account_share_no_name() -> None:
    names = [
        {resource.inputs["name"] for type_ in NAMED for resource in whole(stage).of(type_)}
        for stage in ("dev", "staging")
    ]
    assert not names[0] & names[1]


def test_resource_names_are_unique_and_the_tree_is_the_components() -> None:
    graph = whole()
    assert len({resource.key for resource in graph.resources}) == len(graph.resources)
    top = graph.resource("agent-environment:index:Environment")
    parts = {kind: graph.resource(f"agent-environment:index:{kind}") for kind in PARTS}
    assert {part.parent for part in parts.values()} == {top.urn}
    assert {resource.parent for resource in graph.resources if resource is not top} == {
        top.urn,
        *(part.urn for part in parts.values()),
    }


def test_a_class_on_fargate_has_a_profile_and_no_way_to_files() -> None:
    graph = registered(lambda: environment(sandboxClasses=[fargate("batch")], workspaces=[]))
    assert not [rule for rule in graph.of("SecurityGroupIngressRule") if "storage-from-class" in rule.name]
    profiles = {profile.name: profile.inputs["selectors"] for profile in graph.of("FargateProfile")}
    assert profiles["agents-cluster-class-batch"] == [
        {"namespace": "sandbox-batch", "labels": {"sandbox.users.io/class": "batch"}}
    ]


def test_sandboxes_come_last_and_go_first() -> None:
    graph = whole()
    space = graph.resource("Namespace", "class-standard-namespace")
    for before in (
        *graph.of("ValidatingAdmissionPolicyBinding"),
        graph.resource("Addon", "aws-efs-csi-driver"),
        graph.resource("Deployment", "agents-sandboxes-controller"),
        *graph.of("NodePool"),
        *graph.of("MountTarget"),
    ):
        assert graph.comes_before(before, space), before.name
    assert graph.comes_before(graph.resource("ConfigMap", "class-standard-constraints"), graph.resource("Sandbox"))
    assert all(graph.comes_before(graph.resource("Namespace", "agents-schedules"), job) for job in graph.of("CronJob"))


def test_from_what_is_protected_there_are_few_ways_to_walk() -> None:
    """Before it refuses to delete a protected resource, the engine walks every path to its dependencies."""
    classes = [sandbox(), sandbox("second"), fargate("third")]
    service = {"image": f"registry.example.com/service@sha256:{'ab' * 32}"}
    graph = registered(lambda: environment(stage="prod", sandboxClasses=classes, service=service))
    by_urn = {resource.urn: resource for resource in graph.resources}

    @cache
    def ways(urn: str) -> int:
        resource = by_urn.get(urn)
        if resource is None:
            return 1
        return 1 + sum(map(ways, {resource.parent, resource.provider.rpartition("::")[0], *resource.after}))

    table = graph.resource("Table", "service-ledger")
    assert table.protect
    assert {
        resource.name: ways(resource.urn)
        for resource in graph.aws_resources()
        if resource.protect and ways(resource.urn) > 100_000
    } == {}


def test_prod_protects_its_data_unless_that_is_switched_off() -> None:
    assert {resource.type.rsplit(":", 1)[-1] for resource in whole("prod").aws_resources() if resource.protect} == {
        "FileSystem",
        "FileSystemPolicy",
        "Key",
        "AccessPoint",
        # The bill, and what keeps it private
        *("Bucket", "BucketPolicy", "BucketPublicAccessBlock", "BucketOwnershipControls"),
        *("BucketServerSideEncryptionConfiguration", "BucketLifecycleConfiguration"),
    }
    assert whole("prod").resource("eks:index:Cluster").protect
    assert not [resource for resource in whole().resources if resource.protect]
    # What claims go on working with, what somebody wrote, and what the whole account's bill is split by
    retained = {"SandboxTemplate", "SandboxWarmPool", "AccessPoint", "CostAllocationTag"}
    assert {resource.type.rsplit(":", 1)[-1] for resource in whole().resources if resource.retain} == retained
    unprotected = registered(lambda: environment(stage="prod", protect="false", cluster={"deletionProtection": False}))
    assert not [resource for resource in unprotected.resources if resource.protect]


def test_the_storage_is_in_the_networks_private_subnets_and_admits_its_nodes() -> None:
    graph = whole()
    assert {target.inputs["subnetId"] for target in graph.of("MountTarget")} == {
        f"agents-network-private-{zone}-id" for zone in range(3)
    }
    assert graph.resource("SecurityGroupIngressRule", "storage-from-nodes").inputs["referencedSecurityGroupId"] == (
        "agents-network-nodes-id"
    )


def test_a_first_preview_has_the_same_resources_as_the_update() -> None:
    assert {resource.key for resource in registered(environment, preview=True).resources} == {
        resource.key for resource in whole().resources
    }


BUILDERS: list[Callable[..., Any]] = [
    environment,
    lambda opts: network(opts=opts, endpoints=("sts",)),
    lambda opts: storage(opts=opts),
]


class Earlier(pulumi.CustomResource):
    """Something that was there before."""

    def __init__(self, name: str) -> None:
        super().__init__("test:index:Earlier", name, {})


@pytest.mark.parametrize("build", BUILDERS, ids=["environment", "network", "storage"])
def test_what_a_component_depends_on_comes_before_each_of_its_children(
    build: Callable[[pulumi.ResourceOptions], Any],
) -> None:
    graph = registered(lambda: build(pulumi.ResourceOptions(depends_on=[Earlier("earlier")])))
    before = graph.resource("test:index:Earlier").urn
    assert graph.aws_resources()
    assert not [resource.name for resource in graph.aws_resources() if before not in resource.after]


@pytest.mark.parametrize("build", BUILDERS, ids=["environment", "network", "storage"])
def test_a_components_provider_makes_its_children_and_answers_its_questions(
    build: Callable[[pulumi.ResourceOptions], Any],
) -> None:
    from pulumi_aws import Provider

    graph = registered(lambda: build(pulumi.ResourceOptions(provider=Provider("elsewhere", region="eu-west-1"))))
    used = {resource.provider.rsplit("::", 2)[-2] for resource in graph.aws_resources()} | {
        by.rsplit("::", 2)[-2] for _, by in graph.invokes
    }
    assert used == {"elsewhere"}


@pytest.mark.parametrize("build", BUILDERS, ids=["environment", "network", "storage"])
def test_protection_of_a_component_reaches_its_children(build: Callable[[pulumi.ResourceOptions], Any]) -> None:
    graph = registered(lambda: build(pulumi.ResourceOptions(protect=True, retain_on_delete=True)))
    assert not [resource.name for resource in graph.aws_resources() if not resource.protect]
    # The engine itself hands retention on, from the component that asks for it.
    assert next(resource for resource in graph.resources if resource.type.startswith("agent-environment:")).retain


@pytest.mark.parametrize("build", BUILDERS, ids=["environment", "network", "storage"])
def test_a_component_that_was_renamed_keeps_its_children(build: Callable[[pulumi.ResourceOptions], Any]) -> None:
    graph = registered(lambda: build(pulumi.ResourceOptions(aliases=[pulumi.Alias(name="before")])))
    assert next(resource for resource in graph.resources if resource.type.startswith("agent-environment:")).aliases == 1


def test_a_name_that_no_service_takes_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"the component's name: found 'my agents-network'"):
        registered(lambda: environment(name="my agents"))


def test_components_are_created_in_order_and_deleted_in_reverse() -> None:
    graph = whole()
    control_plane = graph.resource("eks:index:Cluster")
    # Whoever runs in the cluster calls AWS over its network until its last moment.
    for part in ("Route", "NatGateway", "VpcEndpoint", "RouteTableAssociation"):
        assert all(graph.comes_before(resource, control_plane) for resource in graph.of(part)), part
    in_cluster = [resource for resource in graph.resources if resource.type.startswith("kubernetes:")]
    assert all(graph.comes_before(control_plane, resource) for resource in in_cluster)
    # A node goes while its controller is there to end it, and what runs on nodes goes before them.
    karpenter = graph.resource("Release", "capacity-controller")
    profile = graph.resource("FargateProfile", "karpenter")
    assert graph.comes_before(profile, karpenter)
    for pool in graph.of("NodePool"):
        assert graph.comes_before(karpenter, pool)
        for addon in ("aws-efs-csi-driver", "metrics-server", "kube-state-metrics"):
            assert graph.comes_before(pool, graph.resource("Addon", addon)), addon
    assert graph.comes_before(
        graph.resource("FargateProfile", "agent-sandbox"), graph.resource("Deployment", "sandboxes-controller")
    )


def test_a_sandbox_controller_on_nodes_comes_after_them_and_goes_before_them() -> None:
    graph = registered(lambda: environment(cluster={"sandboxController": {"place": "system"}}))
    controller = graph.resource("Deployment", "sandboxes-controller")
    assert all(graph.comes_before(pool, controller) for pool in graph.of("NodePool"))
    assert not [profile for profile in graph.of("FargateProfile") if profile.name.endswith("agent-sandbox")]


def test_storage_admits_only_the_driver_of_the_cluster() -> None:
    graph = whole()
    role = graph.resource("Role", "efs-node")
    (addon,) = [addon for addon in graph.of("Addon") if addon.inputs["addonName"] == "aws-efs-csi-driver"]
    assert {row["serviceAccount"] for row in addon.inputs["podIdentityAssociations"]} == {
        "efs-csi-controller-sa",
        "efs-csi-node-sa",
    }
    for policy in graph.of("FileSystemPolicy"):
        assert graph.comes_before(role, policy)
        admitted = [row for row in policy.policy()["Statement"] if row["Effect"] == "Allow"]
        assert [row["Principal"]["AWS"] for row in admitted] == [[f"arn:aws:made:{REGION}:{ACCOUNT}:{role.name}"]]
    making = graph.resource("RolePolicy", "make-access-points").policy()
    (make,) = [row for row in making["Statement"] if row["Sid"] == "Make"]
    assert make["Resource"] == [f"arn:aws:made:{REGION}:{ACCOUNT}:agents-storage-{shard}" for shard in (0, 1)]
