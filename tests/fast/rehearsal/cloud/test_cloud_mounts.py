"""Permission to mount EFS: its condition keys, the client's role, and the role's permissions boundary."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agentenv.components._lib import iam_policies
from agentenv.components._lib.aws_context import AwsContext
from agentenv.rehearsal.cloud.server import Cloud
from agentenv.rehearsal.controlplane.auth.account import Account
from tests.fast.rehearsal.cloud.calls import ACCOUNT, allow
from tests.fast.rehearsal.cloud.conftest import ClientFactory
from tests.fast.rehearsal.cloud.signer import Signer

CONTEXT = AwsContext("aws", "amazonaws.com", "us-east-1", ACCOUNT)
ROOT = {"Path": "/homes", "CreationInfo": {"OwnerUid": 1000, "OwnerGid": 1000, "Permissions": "0700"}}
CLIENT = "elasticfilesystem:Client*"
Mount = Callable[..., str]


@pytest.fixture(scope="module")
def system(aws_client: ClientFactory, places: list[str]) -> Iterator[dict[str, str]]:
    """A file system with a mount target and an access point."""
    efs = aws_client("efs")
    created = efs.create_file_system(CreationToken="mounts")
    id_ = created["FileSystemId"]
    target = efs.create_mount_target(FileSystemId=id_, SubnetId=places[0])["MountTargetId"]
    point = efs.create_access_point(ClientToken="p", FileSystemId=id_, RootDirectory=ROOT)["AccessPointId"]
    yield {"id": id_, "arn": created["FileSystemArn"], "point": point}
    efs.delete_access_point(AccessPointId=point)
    efs.delete_mount_target(MountTargetId=target)
    efs.delete_file_system(FileSystemId=id_)


@pytest.fixture(scope="module")
def session(aws_client: ClientFactory, signer: Signer, provider: str) -> Iterator[Callable[[str], str]]:
    """Return the access key of a new session of a role."""
    iam = aws_client("iam")
    document = allow(Resource=..., Action="sts:AssumeRoleWithWebIdentity", Principal={"Federated": provider})
    everything = iam.create_policy(PolicyName="all", PolicyDocument=allow(Action="*"))["Policy"]["Arn"]
    s3_only = iam.create_policy(PolicyName="s3", PolicyDocument=allow())["Policy"]["Arn"]
    boundaries = {"node": {}, "stranger": {}, "wide": everything, "narrow": s3_only}
    for name, boundary in boundaries.items():
        options = {"PermissionsBoundary": boundary} if boundary else {}
        iam.create_role(RoleName=name, AssumeRolePolicyDocument=document, **options)
    iam.put_role_policy(RoleName="stranger", PolicyName="mounts", PolicyDocument=allow(Action=CLIENT))

    def new(name: str) -> str:
        token = signer.token("kube-system/efs-csi-node-sa", "sts.amazonaws.com")
        request = {"RoleArn": arn_of(name), "RoleSessionName": name, "WebIdentityToken": token}
        return aws_client("sts").assume_role_with_web_identity(**request)["Credentials"]["AccessKeyId"]

    yield new
    iam.delete_role_policy(RoleName="stranger", PolicyName="mounts")
    for name in boundaries:
        iam.delete_role(RoleName=name)
    for arn in (everything, s3_only):
        iam.delete_policy(PolicyArn=arn)


def arn_of(role: str) -> str:
    return f"arn:aws:iam::{ACCOUNT}:role/{role}"


@pytest.fixture
def mount(cloud: Cloud, aws_client: ClientFactory, system: dict[str, str], session: Any) -> Mount:
    """Set a policy, mount as a session of a role, and return why it is refused."""

    def mounted(policy: dict[str, Any] | None, role: str | None, *, point: bool = True, tls: bool = True) -> str:
        efs = aws_client("efs")
        if policy is None:
            efs.delete_file_system_policy(FileSystemId=system["id"])
        else:
            efs.put_file_system_policy(FileSystemId=system["id"], Policy=json.dumps(policy))
        account = Account(cloud.url, "us-east-1", "AKIAIOSFODNN7EXAMPLE", "no secret")
        key = None if role is None else session(role)
        return account.refused_mount(system["id"], system["point"] if point else None, tls=tls, access_key=key)

    return mounted


def policy_for(system: dict[str, str], *roles: str) -> dict[str, Any]:
    return iam_policies.file_system_policy(CONTEXT, system["arn"], [arn_of(role) for role in roles])


def test_without_a_policy_every_client_mounts(mount: Mount) -> None:
    assert mount(None, None, point=False, tls=False) == ""


def test_a_client_mounts_with_tls_and_an_access_point(mount: Mount, system: dict[str, str]) -> None:
    policy = policy_for(system, "node")
    assert mount(policy, "node") == ""
    for refusal in (
        mount(policy, "node", tls=False),
        mount(policy, "node", point=False),
        mount(policy, None),
        mount(policy_for(system), "node"),
    ):
        assert "access denied by server" in refusal


def test_a_condition_on_the_principals_arn_is_not_enforced(mount: Mount, system: dict[str, str]) -> None:
    """A negated condition on a missing key is met: such a statement denies the client that it names."""
    policy = policy_for(system, "node")
    condition = {"ArnNotEquals": {"aws:PrincipalArn": [arn_of("node")]}}
    others = {"Sid": "Others", "Effect": "Deny", "Principal": {"AWS": "*"}, "Action": CLIENT, "Resource": "*"}
    policy["Statement"].append({**others, "Condition": condition})
    assert "access denied by server" in mount(policy, "node")


def test_another_role_mounts_only_if_its_own_policies_allow_it(mount: Mount, system: dict[str, str]) -> None:
    """So the security group of the mount targets has to keep it out."""
    policy = policy_for(system, "node")
    assert "access denied by server" in mount(policy, "wide")
    assert mount(policy, "stranger") == ""
    assert "access denied by server" in mount(policy, "stranger", point=False)


def test_a_permissions_boundary_has_to_allow_mounts(mount: Mount, system: dict[str, str]) -> None:
    """A boundary limits what a policy on a resource grants to a role by its ARN."""
    assert mount(policy_for(system, "wide"), "wide") == ""
    assert "access denied by server" in mount(policy_for(system, "narrow"), "narrow")


def test_a_file_system_without_this_access_point_refuses(
    cloud: Cloud, mount: Mount, system: dict[str, str], session: Callable[[str], str]
) -> None:
    mount(policy_for(system, "node"), "node")
    account, key = Account(cloud.url, "us-east-1", "AKIAIOSFODNN7EXAMPLE", "no secret"), session("node")
    assert "fsap-0" in account.refused_mount(system["id"], "fsap-0", tls=True, access_key=key)
    assert "Failed to resolve" in account.refused_mount("fs-0", "fsap-0", tls=True, access_key=key)
