"""What holds for every resource of an environment: tags, names, options, and the whole's own graph."""

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
    """Whether the SDK's class of a type takes tags."""
    package, _, class_ = type_.partition(":")[2].partition(":")
    module = importlib.import_module(f"pulumi_aws.{package.partition('/')[0]}")
    return "tags" in inspect.signature(getattr(module, class_)._internal_init).parameters


def test_whatever_can_carry_tags_carries_them() -> None:
    made = whole()
    taggable = [one for one in made.cloud() if takes_tags(one.type)]
    assert len(taggable) > 80
    for one in taggable:
        tags = one.inputs["tags"]
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
    assert not [one for one in made.cloud() if "tags" in one.inputs and one not in taggable]


@pytest.mark.parametrize("name", ["agents", "a-name-much-longer-than-anybody-would-give-" + "x" * 60])
def test_physical_names_fit_their_service_and_say_the_environment(name: str) -> None:
    made = whole("staging-eu", name)
    for type_, kind in NAMED.items():
        assert made.of(type_)
        for one in made.of(type_):
            assert KINDS[kind].accepts(one.inputs["name"]), one.inputs["name"]
            assert "staging-eu" in one.inputs["name"]


def test_descriptions_are_such_as_ec2_takes() -> None:
    described = [
        one for one in whole().cloud() if one.type.startswith(("aws:ec2", "aws:vpc")) and "description" in one.inputs
    ]
    assert described
    for one in described:
        assert re.fullmatch(r"[a-zA-Z0-9. _:/()#,@\[\]+=&;{}!$*-]{1,255}", one.inputs["description"])


def test_two_environments_of_one_account_share_no_name() -> None:
    names = [{one.inputs["name"] for type_ in NAMED for one in whole(stage).of(type_)} for stage in ("dev", "staging")]
    assert not names[0] & names[1]


def test_resource_names_are_unique_and_the_tree_is_the_components() -> None:
    made = whole()
    assert len({one.key for one in made.made}) == len(made.made)
    top = made.one("agent-environment:index:Environment")
    parts = {kind: made.one(f"agent-environment:index:{kind}") for kind in PARTS}
    assert {part.parent for part in parts.values()} == {top.urn}
    assert {one.parent for one in made.made if one is not top} == {top.urn, *(part.urn for part in parts.values())}


def test_files_are_reached_by_classes_on_fargate_that_have_seats() -> None:
    classes, seats = [fargate("batch"), fargate("other")], [{"name": "desk", "class": "batch", "user": "u-1"}]
    made = registered(lambda: environment(sandboxClasses=classes, workspaces=seats))
    let_in = made.one("SecurityGroupIngressRule", "storage-from-class-batch").inputs
    assert let_in["referencedSecurityGroupId"] == "agents-cluster-class-batch-id"
    assert not [one for one in made.of("SecurityGroupIngressRule") if one.name.endswith("from-class-other")]
    profiles = {one.name: one.inputs["selectors"] for one in made.of("FargateProfile")}
    assert profiles["agents-cluster-class-batch"] == [
        {"namespace": "sandbox-batch", "labels": {"sandbox.users.io/class": "batch"}}
    ]


def test_sandboxes_come_last_and_go_first() -> None:
    made = whole()
    space = made.one("Namespace", "class-standard-namespace")
    for before in (
        *made.of("ValidatingAdmissionPolicyBinding"),
        made.one("Addon", "aws-efs-csi-driver"),
        made.one("Deployment", "agents-sandboxes-controller"),
        *made.of("NodePool"),
        *made.of("MountTarget"),
    ):
        assert made.comes_before(before, space), before.name
    assert made.comes_before(made.one("ConfigMap", "class-standard-constraints"), made.one("Sandbox"))
    assert all(made.comes_before(made.one("Namespace", "agents-schedules"), job) for job in made.of("CronJob"))


def test_from_what_is_protected_there_are_few_ways_to_walk() -> None:
    """Where a deletion is refused the engine walks every way to what it waits for, each as often as it is there."""
    classes = [sandbox(), sandbox("second"), fargate("third")]
    service = {"image": f"registry.example.com/service@sha256:{'ab' * 32}"}
    made = registered(lambda: environment(stage="prod", sandboxClasses=classes, service=service))
    by_urn = {one.urn: one for one in made.made}

    @cache
    def ways(urn: str) -> int:
        one = by_urn.get(urn)
        if one is None:
            return 1
        return 1 + sum(map(ways, {one.parent, one.provider.rpartition("::")[0], *one.after}))

    table = made.one("Table", "service-ledger")
    assert table.protect
    assert {one.name: ways(one.urn) for one in made.cloud() if one.protect and ways(one.urn) > 100_000} == {}


def test_prod_keeps_its_data_unless_it_is_told_otherwise() -> None:
    assert {one.type.rsplit(":", 1)[-1] for one in whole("prod").cloud() if one.protect} == {
        "FileSystem",
        "FileSystemPolicy",
        "Key",
        "AccessPoint",
        # The bill, and what keeps it private
        *("Bucket", "BucketPolicy", "BucketPublicAccessBlock", "BucketOwnershipControls"),
        *("BucketServerSideEncryptionConfiguration", "BucketLifecycleConfiguration"),
    }
    assert whole("prod").one("eks:index:Cluster").protect
    assert not [one for one in whole().made if one.protect]
    # What claims go on working with, what somebody wrote, and what the whole account's bill is split by
    kept = {"SandboxTemplate", "SandboxWarmPool", "AccessPoint", "CostAllocationTag"}
    assert {one.type.rsplit(":", 1)[-1] for one in whole().made if one.retain} == kept
    told = registered(lambda: environment(stage="prod", protect="false", cluster={"deletionProtection": False}))
    assert not [one for one in told.made if one.protect]


def test_the_storage_is_in_the_networks_private_subnets_and_admits_its_nodes() -> None:
    made = whole()
    assert {one.inputs["subnetId"] for one in made.of("MountTarget")} == {
        f"agents-network-private-{zone}-id" for zone in range(3)
    }
    assert made.one("SecurityGroupIngressRule", "storage-from-nodes").inputs["referencedSecurityGroupId"] == (
        "agents-network-nodes-id"
    )


def test_a_first_preview_has_the_same_resources_as_the_update() -> None:
    assert {one.key for one in registered(environment, preview=True).made} == {one.key for one in whole().made}


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
    made = registered(lambda: build(pulumi.ResourceOptions(depends_on=[Earlier("earlier")])))
    before = made.one("test:index:Earlier").urn
    assert made.cloud()
    assert not [one.name for one in made.cloud() if before not in one.after]


@pytest.mark.parametrize("build", BUILDERS, ids=["environment", "network", "storage"])
def test_a_components_provider_makes_its_children_and_answers_its_questions(
    build: Callable[[pulumi.ResourceOptions], Any],
) -> None:
    from pulumi_aws import Provider

    made = registered(lambda: build(pulumi.ResourceOptions(provider=Provider("elsewhere", region="eu-west-1"))))
    used = {one.provider.rsplit("::", 2)[-2] for one in made.cloud()} | {by.rsplit("::", 2)[-2] for _, by in made.asked}
    assert used == {"elsewhere"}


@pytest.mark.parametrize("build", BUILDERS, ids=["environment", "network", "storage"])
def test_protection_given_to_a_component_reaches_its_children(build: Callable[[pulumi.ResourceOptions], Any]) -> None:
    made = registered(lambda: build(pulumi.ResourceOptions(protect=True, retain_on_delete=True)))
    assert not [one.name for one in made.cloud() if not one.protect]
    # The engine itself hands retention on, from the component that asks for it.
    assert next(one for one in made.made if one.type.startswith("agent-environment:")).retain


@pytest.mark.parametrize("build", BUILDERS, ids=["environment", "network", "storage"])
def test_a_component_that_was_renamed_keeps_its_children(build: Callable[[pulumi.ResourceOptions], Any]) -> None:
    made = registered(lambda: build(pulumi.ResourceOptions(aliases=[pulumi.Alias(name="before")])))
    assert next(one for one in made.made if one.type.startswith("agent-environment:")).aliases == 1


def test_a_name_that_no_service_takes_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"the component's name: found 'my agents-network'"):
        registered(lambda: environment(name="my agents"))


def test_the_parts_come_to_life_in_their_order_and_go_the_other_way_round() -> None:
    made = whole()
    control_plane = made.one("eks:index:Cluster")
    # Whoever runs in the cluster calls AWS over its network until its last moment.
    for part in ("Route", "NatGateway", "VpcEndpoint", "RouteTableAssociation"):
        assert all(made.comes_before(one, control_plane) for one in made.of(part)), part
    in_cluster = [one for one in made.made if one.type.startswith("kubernetes:")]
    assert all(made.comes_before(control_plane, one) for one in in_cluster)
    # A node goes while its controller is there to end it, and what runs on nodes goes before them.
    karpenter = made.one("Release", "capacity-controller")
    profile = made.one("FargateProfile", "karpenter")
    assert made.comes_before(profile, karpenter)
    for pool in made.of("NodePool"):
        assert made.comes_before(karpenter, pool)
        for addon in ("aws-efs-csi-driver", "metrics-server", "kube-state-metrics"):
            assert made.comes_before(pool, made.one("Addon", addon)), addon
    assert made.comes_before(
        made.one("FargateProfile", "agent-sandbox"), made.one("Deployment", "sandboxes-controller")
    )


def test_a_sandbox_controller_on_nodes_comes_after_them_and_goes_before_them() -> None:
    made = registered(lambda: environment(cluster={"sandboxController": {"place": "system"}}))
    controller = made.one("Deployment", "sandboxes-controller")
    assert all(made.comes_before(pool, controller) for pool in made.of("NodePool"))
    assert not [one for one in made.of("FargateProfile") if one.name.endswith("agent-sandbox")]


def test_the_storage_admits_the_driver_of_the_cluster_and_nobody_else() -> None:
    made = whole()
    role = made.one("Role", "efs-node")
    (addon,) = [one for one in made.of("Addon") if one.inputs["addonName"] == "aws-efs-csi-driver"]
    assert {row["serviceAccount"] for row in addon.inputs["podIdentityAssociations"]} == {
        "efs-csi-controller-sa",
        "efs-csi-node-sa",
    }
    for policy in made.of("FileSystemPolicy"):
        assert made.comes_before(role, policy)
        admitted = [row for row in policy.policy()["Statement"] if row["Effect"] == "Allow"]
        assert [row["Principal"]["AWS"] for row in admitted] == [[f"arn:aws:made:{REGION}:{ACCOUNT}:{role.name}"]]
    making = made.one("RolePolicy", "make-access-points").policy()
    (make,) = [row for row in making["Statement"] if row["Sid"] == "Make"]
    assert make["Resource"] == [f"arn:aws:made:{REGION}:{ACCOUNT}:agents-storage-{shard}" for shard in (0, 1)]
