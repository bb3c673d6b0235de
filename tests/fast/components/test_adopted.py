"""Existing resources are adopted as they are, and refused before anything is created where they do not fit."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from ipaddress import ip_address, ip_network
from typing import Any

import pulumi
import pytest

from agentenv.components._lib.arguments import ArgumentError
from agentenv.components._lib.existing import ExistingError
from agentenv.components.cluster.adopted_cluster import AdoptedCluster
from agentenv.components.environment import Environment
from agentenv.components.network.adopted_network import AdoptedNetwork
from agentenv.components.storage.adopted_storage import AdoptedStorage
from agentenv.core.adoption.file_systems import policy_problems
from agentenv.core.plan import Plan
from tests.fast.components.existing import (
    CLUSTER,
    EXISTING,
    FILES,
    GROUP,
    ISSUER,
    PRIVATE,
    PUBLIC,
    VPC,
    existing_resources,
)
from tests.fast.components.graph import Graph, registered
from tests.fast.components.shapes import NETWORK, planned
from tests.fast.components.test_environment import environment
from tests.fast.config.stack_samples import fargate

NODES = "sg-nodes"
WITHIN = replace(NETWORK, subnet_ids=PRIVATE)


def network(**changes: Any) -> AdoptedNetwork:
    return AdoptedNetwork("net", replace(adopting().network, **changes))


def cluster(**settings: Any) -> AdoptedCluster:
    return AdoptedCluster("eks", adopting(cluster={**EXISTING["cluster"], **settings}).cluster, WITHIN)


def storage(**settings: Any) -> AdoptedStorage:
    plan = adopting(storage={**EXISTING["storage"], **settings}).storage
    return AdoptedStorage("files", plan, WITHIN, client_role_arns=["arn:aws:iam::123456789012:role/nodes"])


def adopting(**sections: Any) -> Plan:
    """The plan of an environment in which everything that may exist already does, less the sections given."""
    return planned({**EXISTING, **sections})


def built(build: Callable[[], Any], found: dict[str, Any] | None = None) -> Graph:
    return registered(build, existing=found or existing_resources())


def test_provider_of_an_adopted_cluster_forces_its_fields() -> None:
    api = registered(cluster, existing=existing_resources()).resource("pulumi:providers:kubernetes").inputs
    assert (api["enablePatchForce"], api["enableServerSideApply"], api["enableConfigMapMutable"]) == ("true",) * 3
    # What somebody else has in it is never taken over.
    assert "upsertExistingObjects" not in api


def test_adopted_network_gets_only_a_node_security_group_and_a_log_key() -> None:
    def build() -> pulumi.Output[Any]:
        component = network()
        return pulumi.Output.all(
            component.vpc_id,
            component.cidr,
            component.zone_names,
            component.private_subnet_ids,
            component.public_subnet_ids,
        )

    graph = built(build)
    assert sorted(resource.type.rpartition(":")[2] for resource in graph.aws_resources()) == [
        "Alias",
        "Key",
        "SecurityGroup",
    ]
    group = graph.resource("SecurityGroup").inputs
    assert (group["vpcId"], group["tags"]["karpenter.sh/discovery"]) == (VPC, CLUSTER)
    assert not {"ingress", "egress"} & set(group)
    assert graph.result == [VPC, "10.9.0.0/16", ["eu-west-1a", "eu-west-1b"], list(PRIVATE), list(PUBLIC)]


def test_an_adopted_network_gets_a_bucket_of_runtimes_that_its_vpc_reads() -> None:
    policy = built(lambda: network(runtime_bucket=True)).resource("BucketPolicy").policy()
    (statement, _) = policy["Statement"]
    assert statement["Condition"] == {"StringEquals": {"aws:SourceVpc": VPC}}


def test_the_key_of_logs_is_for_those_of_the_environment_and_of_its_cluster() -> None:
    policy = json.dumps(built(network).resource("Key").policy())
    assert "/agent-environment/dev/*" in policy
    assert f"/aws/eks/{CLUSTER}/*" in policy


def spoiled(token: str, id_: str, **changes: Any) -> dict[str, Any]:
    found = existing_resources()
    found[token][id_].update(changes)
    return found


UNAVAILABLE = (
    f"{VPC} cannot be read as an available VPC: invoking aws:ec2/getVpc:getVpc: 1 error occurred: * nothing matches; "
    "wait until it is available, or name one of this account and region"
)
SUBNET = "aws:ec2/getSubnet:getSubnet"
EKS = "aws:eks/getCluster:getCluster"
EFS = "aws:efs/getFileSystem:getFileSystem"


@pytest.mark.parametrize(
    ("build", "found", "message"),
    [
        (network, spoiled("aws:ec2/getVpc:getVpc", VPC, enableDnsHostnames=False), "--enable-dns-hostnames"),
        (network, spoiled("aws:ec2/getVpc:getVpc", VPC, state="pending"), UNAVAILABLE),
        (network, {**existing_resources(), "aws:ec2/getVpc:getVpc": {}}, UNAVAILABLE),
        (network, spoiled(SUBNET, PRIVATE[0], tags={}), f"{PRIVATE[0]} has no tag karpenter.sh/discovery"),
        (network, spoiled(SUBNET, PRIVATE[1], vpcId="vpc-2"), f"{PRIVATE[1]} is in vpc-2 and not in {VPC}"),
        (network, spoiled(SUBNET, PRIVATE[1], availabilityZone="eu-west-1a"), "use one private subnet in each zone"),
        (network, spoiled(SUBNET, PRIVATE[1], availableIpAddressCount=5), "has 5 free addresses"),
        (network, spoiled(SUBNET, PRIVATE[1], mapPublicIpOnLaunch=True), "assigns public addresses"),
        (network, spoiled(SUBNET, PUBLIC[0], tags={}), f"{PUBLIC[0]} has no tag kubernetes.io/role/elb"),
        (
            network,
            {**existing_resources(), "aws:ec2/getSubnets:getSubnets": {"ids": [*PRIVATE, "subnet-x"]}},
            "subnet-x has",
        ),
        (cluster, spoiled(EKS, CLUSTER, version="1.34"), 'set cluster.version to "1.34"'),
        (cluster, spoiled(EKS, CLUSTER, status="DELETING"), "is DELETING"),
        (
            cluster,
            spoiled(EKS, CLUSTER, accessConfigs=[{"authenticationMode": "CONFIG_MAP"}]),
            "authenticationMode=API_AND_CONFIG_MAP",
        ),
        (storage, spoiled(EFS, FILES[1], encrypted=False), f"{FILES[1]} is not encrypted"),
        (storage, spoiled(EFS, FILES[0], availabilityZoneName="eu-west-1a"), "in eu-west-1a only"),
    ],
)
def test_a_mistake_is_named_and_nothing_is_created(
    build: Callable[[], Any], found: dict[str, Any], message: str
) -> None:
    seen: list[Graph] = []
    with pytest.raises(ExistingError, match="cannot be adopted as they are") as refused:
        registered(build, existing=found, seen=seen)
    assert message in str(refused.value)
    assert seen[0].aws_resources() == []


@pytest.mark.parametrize(
    ("build", "token", "id_"),
    [(network, SUBNET, PRIVATE[1]), (cluster, EKS, CLUSTER), (storage, EFS, FILES[1])],
)
def test_a_missing_resource_is_refused_with_the_providers_error(build: Callable[[], Any], token: str, id_: str) -> None:
    found, seen = existing_resources(), list[Graph]()
    del found[token][id_]
    with pytest.raises(ExistingError, match=f"{id_} cannot be read: .*; name one that is there"):
        registered(build, existing=found, seen=seen)
    assert seen[0].aws_resources() == []


def test_all_mistakes_are_reported_together() -> None:
    found = existing_resources()
    for id_ in PRIVATE:
        found[SUBNET][id_]["tags"] = {}
    with pytest.raises(ExistingError) as refused:
        registered(network, existing=found)
    assert len(str(refused.value).splitlines()) == 1 + 4


def test_settings_that_name_nothing_to_adopt_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"network\.existing: found nothing"):
        registered(lambda: AdoptedNetwork("net", planned().network))
    with pytest.raises(ArgumentError, match=r"storage\.existing: found nothing"):
        registered(lambda: AdoptedStorage("files", planned().storage, WITHIN))


def test_an_adopted_cluster_gets_only_rules_profiles_and_a_role() -> None:
    def build() -> pulumi.Output[Any]:
        component = cluster()
        return pulumi.Output.all(
            component.issuer_arn, component.issuer_url, component.security_group_id, component.kubeconfig
        )

    graph = built(build)
    assert {resource.type.rpartition(":")[2] for resource in graph.aws_resources()} == {
        "AccessEntry",
        "FargateProfile",
        "Role",
        "RolePolicyAttachment",
        "SecurityGroupEgressRule",
        "SecurityGroupIngressRule",
    }
    assert graph.of("eks:index:Cluster") == []
    assert {profile.inputs["selectors"][0]["namespace"] for profile in graph.of("FargateProfile")} == {
        "karpenter",
        "agent-sandbox-system",
    }
    on_nodes = built(lambda: pulumi.Output.from_input(cluster(sandboxController={"place": "system"}).name))
    (profile,) = on_nodes.of("FargateProfile")
    assert profile.inputs["selectors"] == [{"namespace": "karpenter"}]
    # EKS would make it for the profiles, and leave it behind in a cluster that stays.
    assert graph.resource("AccessEntry").inputs["type"] == "FARGATE_LINUX"
    *outputs, kubeconfig = graph.result
    issuer = f"arn:aws:iam::123456789012:oidc-provider/{ISSUER.removeprefix('https://')}"
    assert outputs == [issuer, ISSUER, GROUP]
    config = json.loads(kubeconfig)
    assert config["clusters"][0]["cluster"] == {
        "server": "https://stands.example",
        "certificate-authority-data": "Q0E=",
    }
    assert config["users"][0]["user"]["exec"]["args"][-4:] == ["--cluster-name", CLUSTER, "--output", "json"]


def test_an_adopted_cluster_has_the_rules_of_a_created_one() -> None:
    from tests.fast.components.shapes import cluster as made_cluster

    def group_rules(graph: Graph) -> set[tuple[Any, ...]]:
        rules = [*graph.of("SecurityGroupIngressRule"), *graph.of("SecurityGroupEgressRule")]
        return {
            (rule.type, *(rule.inputs.get(key) for key in ("securityGroupId", "referencedSecurityGroupId", "fromPort")))
            for rule in rules
        }

    assert group_rules(built(cluster)) == group_rules(registered(made_cluster))


def test_adopted_file_systems_get_a_retained_policy_and_mount_targets() -> None:
    graph = built(storage)
    assert graph.of("FileSystem") == graph.of("Key") == graph.of("BackupPolicy") == []
    policies = graph.of("FileSystemPolicy")
    assert [(policy.inputs["fileSystemId"], policy.retain) for policy in policies] == [(id_, True) for id_ in FILES]
    assert all(
        "role/nodes" in policy.inputs["policy"] and policy.inputs["fileSystemId"] in policy.inputs["policy"]
        for policy in policies
    )
    assert [policy_problems(id_, range_.policy()) for id_, range_ in zip(FILES, policies, strict=True)] == [[], []]
    targets = graph.of("MountTarget")
    assert sorted((target.inputs["fileSystemId"], target.inputs["subnetId"]) for target in targets) == sorted(
        (id_, subnet) for id_ in FILES for subnet in PRIVATE
    )
    assert not any(target.retain for target in targets)


def test_existing_mount_targets_stay_and_their_group_admits_the_nodes() -> None:
    graph = built(lambda: storage(mountGroup="sg-0a1b2c3d"))
    assert graph.of("MountTarget") == graph.of("SecurityGroup") == []
    inside, outside = (
        graph.resource("SecurityGroupIngressRule").inputs,
        graph.resource("SecurityGroupEgressRule").inputs,
    )
    assert (inside["securityGroupId"], inside["referencedSecurityGroupId"], inside["fromPort"]) == (
        "sg-0a1b2c3d",
        NODES,
        2049,
    )
    assert (outside["securityGroupId"], outside["referencedSecurityGroupId"]) == (NODES, "sg-0a1b2c3d")


def whole() -> Environment:
    return environment(**EXISTING)


def test_an_environment_creates_only_what_is_not_adopted() -> None:
    graph = built(whole)
    types = {resource.type.rpartition(":")[2] for resource in graph.aws_resources()}
    assert (
        not {"Vpc", "Subnet", "NatGateway", "FlowLog", "FileSystem", "OpenIdConnectProvider", "AccessPolicyAssociation"}
        & types
    )
    assert graph.of("eks:index:Cluster") == []
    assert {"FileSystemPolicy", "Queue", "Addon"} <= types
    assert len(graph.of("NodePool")) > 1
    assert {addon.inputs["addonName"] for addon in graph.of("Addon")} == {
        "aws-efs-csi-driver",
        "kube-state-metrics",
        "metrics-server",
    }
    # The policy lets in the role that mounts, which is made beside the cluster.
    assert all("agents-cluster-efs-node" in policy.inputs["policy"] for policy in graph.of("FileSystemPolicy"))


def test_classes_on_fargate_reach_the_internet_but_not_the_adopted_network() -> None:
    sections = {"network": EXISTING["network"], "sandboxClasses": [fargate(capabilities=["dns", "web"])]}
    # A range of the internet's, as some have in their VPC: a neighbour there is nobody of the internet.
    found = existing_resources()
    found["aws:ec2/getVpc:getVpc"][VPC]["cidrBlock"] = "52.9.0.0/16"
    graph = built(lambda: environment(**sections, workspaces=[]), found)
    open_to = [
        ip_network(rule.inputs["cidrIpv4"])
        for rule in graph.of("SecurityGroupEgressRule")
        if "class-" in rule.name and "cidrIpv4" in rule.inputs
    ]
    for address, reached in (("52.8.255.255", True), ("52.10.0.0", True), ("52.9.1.1", False), ("10.9.1.1", False)):
        assert any(ip_address(address) in range_ for range_ in open_to) == reached, address


def test_file_systems_may_be_adopted_into_a_created_network() -> None:
    graph = built(lambda: environment(storage=EXISTING["storage"]))
    assert len(graph.of("Vpc")) == 1
    assert len(graph.of("MountTarget")) == 3 * len(FILES)
    assert graph.of("FileSystem") == []


def test_one_mistake_prevents_the_whole_environment() -> None:
    seen: list[Graph] = []
    found = spoiled(EFS, FILES[1], encrypted=False)
    with pytest.raises(ExistingError, match=f"{FILES[1]} is not encrypted"):
        registered(whole, existing=found, seen=seen)
    assert [resource.type for resource in seen[0].resources if not resource.type.startswith("agent-environment:")] == []
