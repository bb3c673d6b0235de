"""What stands already: used as it is, added to and never made, and refused before anything is made when it is wrong."""

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
from tests.fast.components.existing import CLUSTER, EXISTING, FILES, GROUP, ISSUER, PRIVATE, PUBLIC, VPC, standing
from tests.fast.components.graph import Graph, registered
from tests.fast.components.shapes import NETWORK, planned
from tests.fast.components.test_environment import environment
from tests.fast.config.stack_samples import fargate

NODES = "sg-nodes"
WITHIN = replace(NETWORK, subnet_ids=PRIVATE)


def network() -> AdoptedNetwork:
    return AdoptedNetwork("net", adopting().network)


def cluster(**settings: Any) -> AdoptedCluster:
    return AdoptedCluster("eks", adopting(cluster={**EXISTING["cluster"], **settings}).cluster, WITHIN)


def storage(**settings: Any) -> AdoptedStorage:
    plan = adopting(storage={**EXISTING["storage"], **settings}).storage
    return AdoptedStorage("files", plan, WITHIN, client_role_arns=["arn:aws:iam::123456789012:role/nodes"])


def adopting(**sections: Any) -> Plan:
    """The plan of an environment in which everything that may exist already does, less the sections given."""
    return planned({**EXISTING, **sections})


def built(build: Callable[[], Any], found: dict[str, Any] | None = None) -> Graph:
    return registered(build, standing=found or standing())


def test_what_a_stack_declares_in_an_adopted_cluster_is_put_back() -> None:
    api = registered(cluster, standing=standing()).one("pulumi:providers:kubernetes").inputs
    assert (api["enablePatchForce"], api["enableServerSideApply"], api["enableConfigMapMutable"]) == ("true",) * 3
    # What somebody else has in it is never taken over.
    assert "upsertExistingObjects" not in api


def test_a_network_is_used_and_only_the_nodes_group_and_the_key_of_logs_are_made() -> None:
    def build() -> pulumi.Output[Any]:
        made = network()
        return pulumi.Output.all(
            made.vpc_id, made.cidr, made.zone_names, made.private_subnet_ids, made.public_subnet_ids
        )

    made = built(build)
    assert sorted(one.type.rpartition(":")[2] for one in made.cloud()) == ["Alias", "Key", "SecurityGroup"]
    group = made.one("SecurityGroup").inputs
    assert (group["vpcId"], group["tags"]["karpenter.sh/discovery"]) == (VPC, CLUSTER)
    assert not {"ingress", "egress"} & set(group)
    assert made.result == [VPC, "10.9.0.0/16", ["eu-west-1a", "eu-west-1b"], list(PRIVATE), list(PUBLIC)]


def test_the_key_of_logs_is_for_those_of_the_environment_and_of_its_cluster() -> None:
    policy = json.dumps(built(network).one("Key").policy())
    assert "/agent-environment/dev/*" in policy
    assert f"/aws/eks/{CLUSTER}/*" in policy


def spoiled(token: str, id_: str, **changes: Any) -> dict[str, Any]:
    found = standing()
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
    ("build", "found", "said"),
    [
        (network, spoiled("aws:ec2/getVpc:getVpc", VPC, enableDnsHostnames=False), "--enable-dns-hostnames"),
        (network, spoiled("aws:ec2/getVpc:getVpc", VPC, state="pending"), UNAVAILABLE),
        (network, {**standing(), "aws:ec2/getVpc:getVpc": {}}, UNAVAILABLE),
        (network, spoiled(SUBNET, PRIVATE[0], tags={}), f"{PRIVATE[0]} has no tag karpenter.sh/discovery"),
        (network, spoiled(SUBNET, PRIVATE[1], vpcId="vpc-2"), f"{PRIVATE[1]} is in vpc-2 and not in {VPC}"),
        (network, spoiled(SUBNET, PRIVATE[1], availabilityZone="eu-west-1a"), "use one private subnet in each zone"),
        (network, spoiled(SUBNET, PRIVATE[1], availableIpAddressCount=5), "has 5 free addresses"),
        (network, spoiled(SUBNET, PRIVATE[1], mapPublicIpOnLaunch=True), "assigns public addresses"),
        (network, spoiled(SUBNET, PUBLIC[0], tags={}), f"{PUBLIC[0]} has no tag kubernetes.io/role/elb"),
        (network, {**standing(), "aws:ec2/getSubnets:getSubnets": {"ids": [*PRIVATE, "subnet-x"]}}, "subnet-x has"),
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
def test_what_is_wrong_is_told_and_nothing_is_made(build: Callable[[], Any], found: dict[str, Any], said: str) -> None:
    seen: list[Graph] = []
    with pytest.raises(ExistingError, match="cannot be adopted as they are") as refused:
        registered(build, standing=found, seen=seen)
    assert said in str(refused.value)
    assert seen[0].cloud() == []


@pytest.mark.parametrize(
    ("build", "token", "id_"),
    [(network, SUBNET, PRIVATE[1]), (cluster, EKS, CLUSTER), (storage, EFS, FILES[1])],
)
def test_what_is_not_there_is_told_in_the_providers_words(build: Callable[[], Any], token: str, id_: str) -> None:
    found, seen = standing(), list[Graph]()
    del found[token][id_]
    with pytest.raises(ExistingError, match=f"{id_} cannot be read: .*; name one that is there"):
        registered(build, standing=found, seen=seen)
    assert seen[0].cloud() == []


def test_everything_that_is_wrong_is_told_at_once() -> None:
    found = standing()
    for id_ in PRIVATE:
        found[SUBNET][id_]["tags"] = {}
    with pytest.raises(ExistingError) as refused:
        registered(network, standing=found)
    assert len(str(refused.value).splitlines()) == 1 + 4


def test_settings_that_name_nothing_to_adopt_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"network\.existing: found nothing"):
        registered(lambda: AdoptedNetwork("net", planned().network))
    with pytest.raises(ArgumentError, match=r"storage\.existing: found nothing"):
        registered(lambda: AdoptedStorage("files", planned().storage, WITHIN))


def test_a_cluster_is_used_and_gets_doors_profiles_and_a_role_and_nothing_else() -> None:
    def build() -> pulumi.Output[Any]:
        made = cluster()
        return pulumi.Output.all(made.issuer_arn, made.issuer_url, made.security_group_id, made.kubeconfig)

    made = built(build)
    assert {one.type.rpartition(":")[2] for one in made.cloud()} == {
        "AccessEntry",
        "FargateProfile",
        "Role",
        "RolePolicyAttachment",
        "SecurityGroupEgressRule",
        "SecurityGroupIngressRule",
    }
    assert made.of("eks:index:Cluster") == []
    assert {one.inputs["selectors"][0]["namespace"] for one in made.of("FargateProfile")} == {
        "karpenter",
        "agent-sandbox-system",
    }
    on_nodes = built(lambda: pulumi.Output.from_input(cluster(sandboxController={"place": "system"}).name))
    (profile,) = on_nodes.of("FargateProfile")
    assert profile.inputs["selectors"] == [{"namespace": "karpenter"}]
    # EKS would make it for the profiles, and leave it behind in a cluster that stays.
    assert made.one("AccessEntry").inputs["type"] == "FARGATE_LINUX"
    *told, kubeconfig = made.result
    issuer = f"arn:aws:iam::123456789012:oidc-provider/{ISSUER.removeprefix('https://')}"
    assert told == [issuer, ISSUER, GROUP]
    config = json.loads(kubeconfig)
    assert config["clusters"][0]["cluster"] == {
        "server": "https://stands.example",
        "certificate-authority-data": "Q0E=",
    }
    assert config["users"][0]["user"]["exec"]["args"][-4:] == ["--cluster-name", CLUSTER, "--output", "json"]


def test_nodes_and_the_cluster_meet_as_in_one_that_is_made() -> None:
    from tests.fast.components.shapes import cluster as made_cluster

    def doors(made: Graph) -> set[tuple[Any, ...]]:
        rules = [*made.of("SecurityGroupIngressRule"), *made.of("SecurityGroupEgressRule")]
        return {
            (one.type, *(one.inputs.get(key) for key in ("securityGroupId", "referencedSecurityGroupId", "fromPort")))
            for one in rules
        }

    assert doors(built(cluster)) == doors(registered(made_cluster))


def test_file_systems_get_their_policy_which_stays_and_mount_targets_which_go() -> None:
    made = built(storage)
    assert made.of("FileSystem") == made.of("Key") == made.of("BackupPolicy") == []
    policies = made.of("FileSystemPolicy")
    assert [(one.inputs["fileSystemId"], one.retain) for one in policies] == [(id_, True) for id_ in FILES]
    assert all(
        "role/nodes" in one.inputs["policy"] and one.inputs["fileSystemId"] in one.inputs["policy"] for one in policies
    )
    assert [policy_problems(id_, one.policy()) for id_, one in zip(FILES, policies, strict=True)] == [[], []]
    targets = made.of("MountTarget")
    assert sorted((one.inputs["fileSystemId"], one.inputs["subnetId"]) for one in targets) == sorted(
        (id_, subnet) for id_ in FILES for subnet in PRIVATE
    )
    assert not any(one.retain for one in targets)


def test_mount_targets_that_stand_are_left_and_nodes_are_let_in_to_their_group() -> None:
    made = built(lambda: storage(mountGroup="sg-0a1b2c3d"))
    assert made.of("MountTarget") == made.of("SecurityGroup") == []
    inside, outside = made.one("SecurityGroupIngressRule").inputs, made.one("SecurityGroupEgressRule").inputs
    assert (inside["securityGroupId"], inside["referencedSecurityGroupId"], inside["fromPort"]) == (
        "sg-0a1b2c3d",
        NODES,
        2049,
    )
    assert (outside["securityGroupId"], outside["referencedSecurityGroupId"]) == (NODES, "sg-0a1b2c3d")


def whole() -> Environment:
    return environment(**EXISTING)


def test_an_environment_makes_what_is_not_named_and_nothing_that_is() -> None:
    made = built(whole)
    types = {one.type.rpartition(":")[2] for one in made.cloud()}
    assert (
        not {"Vpc", "Subnet", "NatGateway", "FlowLog", "FileSystem", "OpenIdConnectProvider", "AccessPolicyAssociation"}
        & types
    )
    assert made.of("eks:index:Cluster") == []
    assert {"FileSystemPolicy", "Queue", "Addon"} <= types
    assert len(made.of("NodePool")) > 1
    assert {one.inputs["addonName"] for one in made.of("Addon")} == {
        "aws-efs-csi-driver",
        "kube-state-metrics",
        "metrics-server",
    }
    # The policy lets in the role that mounts, which is made beside the cluster.
    assert all("agents-cluster-efs-node" in one.inputs["policy"] for one in made.of("FileSystemPolicy"))


def test_classes_on_fargate_reach_the_internet_from_a_network_that_stands_and_nothing_of_that() -> None:
    sections = {"network": EXISTING["network"], "sandboxClasses": [fargate(capabilities=["dns", "web"])]}
    # A range of the internet's, as some have in their VPC: a neighbour there is nobody of the internet.
    found = standing()
    found["aws:ec2/getVpc:getVpc"][VPC]["cidrBlock"] = "52.9.0.0/16"
    made = built(lambda: environment(**sections, workspaces=[]), found)
    open_to = [
        ip_network(rule.inputs["cidrIpv4"])
        for rule in made.of("SecurityGroupEgressRule")
        if "class-" in rule.name and "cidrIpv4" in rule.inputs
    ]
    for address, reached in (("52.8.255.255", True), ("52.10.0.0", True), ("52.9.1.1", False), ("10.9.1.1", False)):
        assert any(ip_address(address) in one for one in open_to) == reached, address


def test_file_systems_may_be_adopted_into_a_network_that_is_made() -> None:
    made = built(lambda: environment(storage=EXISTING["storage"]))
    assert len(made.of("Vpc")) == 1
    assert len(made.of("MountTarget")) == 3 * len(FILES)
    assert made.of("FileSystem") == []


def test_one_thing_that_is_wrong_keeps_all_of_an_environment_from_being_made() -> None:
    seen: list[Graph] = []
    found = spoiled(EFS, FILES[1], encrypted=False)
    with pytest.raises(ExistingError, match=f"{FILES[1]} is not encrypted"):
        registered(whole, standing=found, seen=seen)
    assert [one.type for one in seen[0].made if not one.type.startswith("agent-environment:")] == []
