"""Existing resources in the simulated account: valid ones, and each relevant problem."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from agentenv.cli.preflight import existing, subnet_capacity
from agentenv.cli.preflight.aws_calls import Account
from agentenv.cli.preflight.check import Check, run_checks
from agentenv.config import Settings
from tests.existing import ExistingResources, tags
from tests.fast.cli.preflight.conftest import REGION, StubbedSession
from tests.fast.config.stack_samples import sandbox, settings

NUMBERS = itertools.count(1)


@pytest.fixture
def resources(simulated: StubbedSession) -> ExistingResources:
    # A cluster's name of its own: subnets of one test are no strangers to another.
    return ExistingResources(simulated.client, f"agents-{next(NUMBERS)}")


def settings_with(resources: ExistingResources, **more: Any) -> Settings:
    sections: dict[str, Any] = {"network": {"existing": resources.existing()}, "cluster": {"name": resources.cluster}}
    return settings({**sections, **more})


def run_check(resources: ExistingResources, name: str, found: Settings) -> Check:
    (question,) = [
        question
        for question in (*existing.questions(found), *subnet_capacity.questions(found))
        if question.name.startswith(name)
    ]
    return run_checks([question], Account(REGION, resources))[0]  # pyright: ignore[reportArgumentType] - all of a session that is used


def network(resources: ExistingResources, **more: Any) -> Check:
    return run_check(resources, "existing network", settings_with(resources, **more))


def test_a_valid_network_passes(resources: ExistingResources) -> None:
    found = network(resources)
    assert (found.ok, found.why) == (True, "")


def test_a_missing_network_fails(resources: ExistingResources) -> None:
    nowhere = {"existing": resources.existing(vpcId="vpc-0123456789abcdef0")}
    found = network(resources, network=nowhere)
    assert found.ok is False
    assert "InvalidVpcID.NotFound" in found.why


def test_missing_tags_are_listed_with_the_command_for_them(resources: ExistingResources) -> None:
    first, second = resources.private
    resources.ec2.delete_tags(Resources=[first], Tags=[{"Key": "karpenter.sh/discovery"}])
    resources.ec2.create_tags(Resources=[second], Tags=tags({"karpenter.sh/discovery": "theirs"}))
    resources.ec2.delete_tags(Resources=[second], Tags=[{"Key": "kubernetes.io/role/internal-elb"}])
    resources.ec2.delete_tags(Resources=resources.public, Tags=[{"Key": "kubernetes.io/role/elb"}])
    lines = network(resources).why.splitlines()
    command = "aws ec2 create-tags --resources"
    assert [line.partition(" ")[0] for line in lines] == [first, second, second, resources.public[0]]
    assert f"{command} {first} --tags Key=karpenter.sh/discovery,Value={resources.cluster}" in lines[0]
    assert "theirs, which is another cluster's" in lines[1]
    assert f"{command} {second} --tags Key=kubernetes.io/role/internal-elb,Value=1" in lines[2]
    assert "kubernetes.io/role/elb" in lines[3]


def test_subnets_in_one_zone_and_extra_discovered_subnets_are_problems(resources: ExistingResources) -> None:
    third, stranger = resources.subnet("a", resources.own), resources.subnet("c", resources.own)
    resources.private.append(third)
    why = network(resources).why
    assert f"{third} is in us-east-1a, like {resources.private[0]}" in why
    assert f"{stranger} has the tag karpenter.sh/discovery={resources.cluster} and is not a private subnet" in why


def test_a_public_subnet_and_one_without_a_route_are_problems(resources: ExistingResources) -> None:
    open_, shut = resources.public[0], resources.subnet("c", resources.own)
    resources.ec2.create_tags(Resources=[open_], Tags=tags(resources.own))
    resources.ec2.modify_subnet_attribute(SubnetId=open_, MapPublicIpOnLaunch={"Value": True})
    mixed = {"existing": resources.existing(privateSubnetIds=[open_, shut, resources.private[1]], publicSubnetIds=[])}
    lines = network(resources, network=mixed).why.splitlines()
    # The one of the first zone is tagged and was left out.
    assert [line for line in lines if line.startswith(f"{open_} has a default route to an internet gateway")]
    assert [line for line in lines if line.startswith(f"{open_} assigns public addresses")]
    assert [line for line in lines if line.startswith(f"{shut} has no default route")]
    assert "has no default route" not in network(resources, network={**mixed, "nat": "none"}).why


def test_a_vpc_without_dns_hostnames_is_a_problem(resources: ExistingResources) -> None:
    resources.ec2.modify_vpc_attribute(VpcId=resources.vpc, EnableDnsHostnames={"Value": False})
    assert f"aws ec2 modify-vpc-attribute --vpc-id {resources.vpc} --enable-dns-hostnames" in network(resources).why


def test_free_addresses_of_the_subnets_are_counted(resources: ExistingResources) -> None:
    name = "free addresses"
    few = run_check(resources, name, settings_with(resources))
    assert (few.ok, few.limit) == (True, 2 * 251)
    many = run_check(resources, name, settings_with(resources, sandboxClasses=[sandbox(maxSandboxes=2000)]))
    assert many.ok is False
    assert int(many.needed or 0) > 2000


def files(resources: ExistingResources, id_: str, **more: Any) -> Check:
    return run_check(
        resources, f"existing file system {id_}", settings_with(resources, storage={"existing": [id_], **more})
    )


def test_a_valid_file_system_without_mount_targets_passes(resources: ExistingResources) -> None:
    found = files(resources, resources.files())
    assert (found.ok, found.why) == (True, "")


def test_a_missing_file_system_fails(resources: ExistingResources) -> None:
    assert "FileSystemNotFound" in files(resources, "fs-0123456789abcdef0").why


def test_an_unsuitable_file_system_has_all_its_problems(resources: ExistingResources) -> None:
    bad = resources.files(Encrypted=False, PerformanceMode="maxIO", AvailabilityZoneName="us-east-1a")
    why = files(resources, bad).why
    assert "is not encrypted" in why
    assert "stores its files in us-east-1a only" in why
    assert "performance mode maxIO" in why


def test_existing_mount_targets_must_be_configured_and_complete(resources: ExistingResources) -> None:
    id_, group, other = resources.files(), resources.group(), resources.group()
    target = resources.efs.create_mount_target(FileSystemId=id_, SubnetId=resources.private[0], SecurityGroups=[group])
    assert "already has mount targets (us-east-1a)" in files(resources, id_).why
    assert files(resources, id_, mountGroup=group).why == (
        f"{id_} has no mount target in us-east-1b; create one there, with the same security group"
    )
    resources.efs.create_mount_target(FileSystemId=id_, SubnetId=resources.private[1], SecurityGroups=[group])
    assert files(resources, id_, mountGroup=group).ok is True
    named = files(resources, id_, mountGroup=other).why
    assert f"--mount-target-id {target['MountTargetId']} --security-groups {group} {other}" in named


def test_mount_targets_of_this_environment_pass(resources: ExistingResources) -> None:
    id_, group = resources.files(), resources.group()
    resources.ec2.create_tags(Resources=[group], Tags=tags({"environment": "dev", "component": "storage"}))
    resources.efs.create_mount_target(FileSystemId=id_, SubnetId=resources.private[0], SecurityGroups=[group])
    assert files(resources, id_).ok is True


OWN = {"AWS": "arn:aws:iam::123456789012:root"}
ALLOW = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": ["elasticfilesystem:ClientMount"], "Resource": "*"}
TLS = {
    "Effect": "Deny",
    "Principal": {"AWS": "*"},
    "Action": "*",
    "Resource": "*",
    "Condition": {"Bool": {"aws:SecureTransport": "false"}},
}
POINTS = {"Condition": {"StringLike": {"elasticfilesystem:AccessPointArn": "arn:*"}}}


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ([{**ALLOW, **POINTS}, TLS], []),
        ([ALLOW, TLS], ["allows everybody to mount without an access point"]),
        ([{**ALLOW, **POINTS}], ["without TLS"]),
        ([{**ALLOW, **POINTS, "Action": "elasticfilesystem:Client*"}, TLS], ["allows everybody root access"]),
        ([{**ALLOW, "Action": "elasticfilesystem:ClientRoot*", "Principal": OWN}, TLS], [f"{OWN['AWS']} root access"]),
    ],
)
def test_a_permissive_file_system_policy_is_a_problem(
    resources: ExistingResources, statements: list[Any], expected: list[str]
) -> None:
    id_ = resources.files()
    policy = json.dumps({"Version": "2012-10-17", "Statement": statements})
    resources.efs.put_file_system_policy(FileSystemId=id_, Policy=policy)
    lines = files(resources, id_).why.splitlines()
    assert len(lines) == len(expected)
    assert all(word in line for word, line in zip(expected, lines, strict=True))


@pytest.fixture
def cluster(resources: ExistingResources) -> str:
    """Create a valid cluster, which a test can then break."""
    return resources.raise_cluster()


def adopted(resources: ExistingResources, cluster: str, question: str = "existing cluster", **more: Any) -> Check:
    found = settings({"network": {"existing": resources.existing()}, "cluster": {"existing": cluster, **more}})
    return run_check(resources, question, found)


def test_a_valid_cluster_passes(resources: ExistingResources, cluster: str) -> None:
    assert adopted(resources, cluster).why == ""
    assert adopted(resources, cluster, "add-ons").why == ""


def test_a_cluster_with_another_version_vpc_and_issuer_has_all_its_problems(
    resources: ExistingResources, cluster: str
) -> None:
    iam = resources.iam
    issuer = resources.eks.describe_cluster(name=cluster)["cluster"]["identity"]["oidc"]["issuer"]
    arn = f"arn:aws:iam::123456789012:oidc-provider/{issuer.removeprefix('https://')}"
    iam.delete_open_id_connect_provider(OpenIDConnectProviderArn=arn)
    elsewhere = ExistingResources(resources.client, "elsewhere")
    lines = adopted(elsewhere, cluster, version="1.36").why.splitlines()
    assert 'set cluster.version to "1.35"' in lines[0]
    assert f"set network.existing.vpcId to {resources.vpc}" in lines[1]
    assert f"aws iam create-open-id-connect-provider --url {issuer}" in lines[2]


def test_a_missing_cluster_fails(resources: ExistingResources) -> None:
    found = adopted(resources, "nowhere")
    assert found.ok is False
    assert "ResourceNotFoundException" in found.why


def test_missing_permissive_and_conflicting_add_ons_are_problems(resources: ExistingResources, cluster: str) -> None:
    eks = resources.eks
    eks.delete_addon(clusterName=cluster, addonName="eks-pod-identity-agent")
    eks.update_addon(clusterName=cluster, addonName="vpc-cni", configurationValues='{"enableNetworkPolicy":"true"}')
    eks.create_addon(clusterName=cluster, addonName="metrics-server")
    lines = adopted(resources, cluster, "add-ons").why.splitlines()
    assert "has no add-on eks-pod-identity-agent" in lines[0]
    assert "its enforcing mode is not strict" in lines[1]
    assert f"aws eks delete-addon --cluster-name {cluster} --addon-name metrics-server --preserve" in lines[2]
    assert len(lines) == 3


def test_a_cluster_name_in_use_is_taken(resources: ExistingResources, cluster: str) -> None:
    free = run_check(resources, "the cluster's name", settings({"cluster": {"name": "surely-free"}}))
    assert (free.ok, free.limit) == (True, "free")
    taken = run_check(resources, "the cluster's name", settings({"cluster": {"name": cluster}}))
    assert (taken.ok, taken.limit) == (False, "taken")
