"""What stands already in the simulated account: right as it is, and wrong in each of the ways that matter."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from agentenv.cli.preflight import existing as standing
from agentenv.cli.preflight import subnet_capacity as room
from agentenv.cli.preflight.aws_calls import Account
from agentenv.cli.preflight.check import Check, run_checks
from agentenv.config import Settings
from tests.existing import Ground, tags
from tests.fast.cli.preflight.conftest import REGION, Written
from tests.fast.config.stack_samples import sandbox, settings

NUMBERS = itertools.count(1)


@pytest.fixture
def ground(simulated: Written) -> Ground:
    # A cluster's name of its own: subnets of one test are no strangers to another.
    return Ground(simulated.client, f"agents-{next(NUMBERS)}")


def told(ground: Ground, **more: Any) -> Settings:
    sections: dict[str, Any] = {"network": {"existing": ground.existing()}, "cluster": {"name": ground.cluster}}
    return settings({**sections, **more})


def asked(ground: Ground, name: str, found: Settings) -> Check:
    (question,) = [one for one in (*standing.questions(found), *room.questions(found)) if one.name.startswith(name)]
    return run_checks([question], Account(REGION, ground))[0]  # pyright: ignore[reportArgumentType] - all of a session that is used


def network(ground: Ground, **more: Any) -> Check:
    return asked(ground, "existing network", told(ground, **more))


def test_a_network_that_is_right(ground: Ground) -> None:
    found = network(ground)
    assert (found.ok, found.why) == (True, "")


def test_a_network_that_is_not_there(ground: Ground) -> None:
    nowhere = {"existing": ground.existing(vpcId="vpc-0123456789abcdef0")}
    found = network(ground, network=nowhere)
    assert found.ok is False
    assert "InvalidVpcID.NotFound" in found.why


def test_tags_that_are_missing_are_told_with_the_command_that_sets_them(ground: Ground) -> None:
    first, second = ground.private
    ground.ec2.delete_tags(Resources=[first], Tags=[{"Key": "karpenter.sh/discovery"}])
    ground.ec2.create_tags(Resources=[second], Tags=tags({"karpenter.sh/discovery": "theirs"}))
    ground.ec2.delete_tags(Resources=[second], Tags=[{"Key": "kubernetes.io/role/internal-elb"}])
    ground.ec2.delete_tags(Resources=ground.public, Tags=[{"Key": "kubernetes.io/role/elb"}])
    lines = network(ground).why.splitlines()
    command = "aws ec2 create-tags --resources"
    assert [line.partition(" ")[0] for line in lines] == [first, second, second, ground.public[0]]
    assert f"{command} {first} --tags Key=karpenter.sh/discovery,Value={ground.cluster}" in lines[0]
    assert "theirs, which is another cluster's" in lines[1]
    assert f"{command} {second} --tags Key=kubernetes.io/role/internal-elb,Value=1" in lines[2]
    assert "kubernetes.io/role/elb" in lines[3]


def test_subnets_of_one_zone_and_those_that_nobody_named(ground: Ground) -> None:
    third, stranger = ground.subnet("a", ground.own), ground.subnet("c", ground.own)
    ground.private.append(third)
    why = network(ground).why
    assert f"{third} is in us-east-1a, like {ground.private[0]}" in why
    assert f"{stranger} has the tag karpenter.sh/discovery={ground.cluster} and is not a private subnet" in why


def test_a_subnet_that_is_public_or_leads_nowhere(ground: Ground) -> None:
    open_, shut = ground.public[0], ground.subnet("c", ground.own)
    ground.ec2.create_tags(Resources=[open_], Tags=tags(ground.own))
    ground.ec2.modify_subnet_attribute(SubnetId=open_, MapPublicIpOnLaunch={"Value": True})
    mixed = {"existing": ground.existing(privateSubnetIds=[open_, shut, ground.private[1]], publicSubnetIds=[])}
    lines = network(ground, network=mixed).why.splitlines()
    # The one of the first zone is tagged and was left out.
    assert [line for line in lines if line.startswith(f"{open_} has a default route to an internet gateway")]
    assert [line for line in lines if line.startswith(f"{open_} assigns public addresses")]
    assert [line for line in lines if line.startswith(f"{shut} has no default route")]
    assert "has no default route" not in network(ground, network={**mixed, "nat": "none"}).why


def test_a_vpc_without_names(ground: Ground) -> None:
    ground.ec2.modify_vpc_attribute(VpcId=ground.vpc, EnableDnsHostnames={"Value": False})
    assert f"aws ec2 modify-vpc-attribute --vpc-id {ground.vpc} --enable-dns-hostnames" in network(ground).why


def test_room_in_the_subnets(ground: Ground) -> None:
    name = "free addresses"
    few = asked(ground, name, told(ground))
    assert (few.ok, few.limit) == (True, 2 * 251)
    many = asked(ground, name, told(ground, sandboxClasses=[sandbox(maxSandboxes=2000)]))
    assert many.ok is False
    assert int(many.needed or 0) > 2000


def files(ground: Ground, id_: str, **more: Any) -> Check:
    return asked(ground, f"existing file system {id_}", told(ground, storage={"existing": [id_], **more}))


def test_a_file_system_that_is_right_and_not_mounted_yet(ground: Ground) -> None:
    found = files(ground, ground.files())
    assert (found.ok, found.why) == (True, "")


def test_a_file_system_that_is_not_there(ground: Ground) -> None:
    assert "FileSystemNotFound" in files(ground, "fs-0123456789abcdef0").why


def test_a_file_system_that_cannot_hold_homes(ground: Ground) -> None:
    bad = ground.files(Encrypted=False, PerformanceMode="maxIO", AvailabilityZoneName="us-east-1a")
    why = files(ground, bad).why
    assert "is not encrypted" in why
    assert "stores its files in us-east-1a only" in why
    assert "performance mode maxIO" in why


def test_mount_targets_that_stand_have_to_be_named_and_whole(ground: Ground) -> None:
    id_, group, other = ground.files(), ground.group(), ground.group()
    target = ground.efs.create_mount_target(FileSystemId=id_, SubnetId=ground.private[0], SecurityGroups=[group])
    assert "already has mount targets (us-east-1a)" in files(ground, id_).why
    assert files(ground, id_, mountGroup=group).why == (
        f"{id_} has no mount target in us-east-1b; create one there, with the same security group"
    )
    ground.efs.create_mount_target(FileSystemId=id_, SubnetId=ground.private[1], SecurityGroups=[group])
    assert files(ground, id_, mountGroup=group).ok is True
    named = files(ground, id_, mountGroup=other).why
    assert f"--mount-target-id {target['MountTargetId']} --security-groups {group} {other}" in named


def test_mount_targets_that_this_environment_made_are_its_own(ground: Ground) -> None:
    id_, group = ground.files(), ground.group()
    ground.ec2.create_tags(Resources=[group], Tags=tags({"environment": "dev", "component": "storage"}))
    ground.efs.create_mount_target(FileSystemId=id_, SubnetId=ground.private[0], SecurityGroups=[group])
    assert files(ground, id_).ok is True


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
    ("statements", "said"),
    [
        ([{**ALLOW, **POINTS}, TLS], []),
        ([ALLOW, TLS], ["allows * to mount without an access point"]),
        ([{**ALLOW, **POINTS}], ["without TLS"]),
        ([{**ALLOW, **POINTS, "Action": "elasticfilesystem:Client*"}, TLS], ["allows * root access"]),
    ],
)
def test_a_policy_that_lets_too_many_in(ground: Ground, statements: list[Any], said: list[str]) -> None:
    id_ = ground.files()
    policy = json.dumps({"Version": "2012-10-17", "Statement": statements})
    ground.efs.put_file_system_policy(FileSystemId=id_, Policy=policy)
    lines = files(ground, id_).why.splitlines()
    assert len(lines) == len(said)
    assert all(word in line for word, line in zip(said, lines, strict=True))


@pytest.fixture
def cluster(ground: Ground) -> str:
    """A cluster that is right, to be spoiled."""
    return ground.raise_cluster()


def adopted(ground: Ground, cluster: str, question: str = "existing cluster", **more: Any) -> Check:
    found = settings({"network": {"existing": ground.existing()}, "cluster": {"existing": cluster, **more}})
    return asked(ground, question, found)


def test_a_cluster_that_is_right(ground: Ground, cluster: str) -> None:
    assert adopted(ground, cluster).why == ""
    assert adopted(ground, cluster, "add-ons").why == ""


def test_a_cluster_of_another_version_in_another_vpc_that_iam_does_not_know(ground: Ground, cluster: str) -> None:
    iam = ground.iam
    issuer = ground.eks.describe_cluster(name=cluster)["cluster"]["identity"]["oidc"]["issuer"]
    arn = f"arn:aws:iam::123456789012:oidc-provider/{issuer.removeprefix('https://')}"
    iam.delete_open_id_connect_provider(OpenIDConnectProviderArn=arn)
    elsewhere = Ground(ground.client, "elsewhere")
    lines = adopted(elsewhere, cluster, version="1.36").why.splitlines()
    assert 'set cluster.version to "1.35"' in lines[0]
    assert f"set network.existing.vpcId to {ground.vpc}" in lines[1]
    assert f"aws iam create-open-id-connect-provider --url {issuer}" in lines[2]


def test_a_cluster_that_is_not_there(ground: Ground) -> None:
    found = adopted(ground, "nowhere")
    assert found.ok is False
    assert "ResourceNotFoundException" in found.why


def test_add_ons_that_are_missing_lax_or_already_there(ground: Ground, cluster: str) -> None:
    eks = ground.eks
    eks.delete_addon(clusterName=cluster, addonName="eks-pod-identity-agent")
    eks.update_addon(clusterName=cluster, addonName="vpc-cni", configurationValues='{"enableNetworkPolicy":"true"}')
    eks.create_addon(clusterName=cluster, addonName="metrics-server")
    lines = adopted(ground, cluster, "add-ons").why.splitlines()
    assert "has no add-on eks-pod-identity-agent" in lines[0]
    assert "its enforcing mode is not strict" in lines[1]
    assert f"aws eks delete-addon --cluster-name {cluster} --addon-name metrics-server --preserve" in lines[2]
    assert len(lines) == 3


def test_the_name_of_a_cluster_that_somebody_else_has(ground: Ground, cluster: str) -> None:
    free = asked(ground, "the cluster's name", settings({"cluster": {"name": "surely-free"}}))
    assert (free.ok, free.limit) == (True, "free")
    taken = asked(ground, "the cluster's name", settings({"cluster": {"name": cluster}}))
    assert (taken.ok, taken.limit) == (False, "taken")
