"""A role that takes on another: as far as it is trusted and allowed, with tags, and for no longer than AWS allows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from agentenv.core.iam.identity_exchange import Holder, SecretsPlace, request, role_rights, role_trust
from agentenv.core.service.iam_policy import service_policy
from agentenv.rehearsal.cloud.server import Cloud
from agentenv.rehearsal.controlplane.auth.pod_credentials import STS
from tests.fast.rehearsal.cloud.calls import ACCOUNT, allow, refused
from tests.fast.rehearsal.cloud.conftest import ClientFactory
from tests.fast.rehearsal.cloud.signer import Signer

PLACE = SecretsPlace(f"arn:aws:secretsmanager:us-east-1:{ACCOUNT}:secret:", "sandbox-secrets/dev")
HOLDER = Holder("u-1", "standard", "w-1")
CLASS_ROLE = f"arn:aws:iam::{ACCOUNT}:role/class-standard"
TABLE = f"arn:aws:dynamodb:us-east-1:{ACCOUNT}:table/ledger"


@pytest.fixture(scope="module")
def service(cloud: Cloud, aws_client: ClientFactory, places: list[str], signer: Signer, provider: str) -> Iterator[Any]:
    """A function that creates clients with the session keys of the service's own role."""
    iam = aws_client("iam")
    vpc = aws_client("ec2").describe_subnets(SubnetIds=places)["Subnets"][0]["VpcId"]
    web = allow(Action="sts:AssumeRoleWithWebIdentity", Principal={"Federated": provider}, Resource=...)
    own = iam.create_role(RoleName="service", AssumeRolePolicyDocument=web)["Role"]["Arn"]
    may = service_policy(
        TABLE,
        TABLE,
        systems=[],
        points=f"arn:aws:elasticfilesystem:us-east-1:{ACCOUNT}:access-point/*",
        roles=[CLASS_ROLE],
        secrets=PLACE,
    )
    iam.put_role_policy(RoleName="service", PolicyName="work", PolicyDocument=json.dumps(may))
    document = json.dumps(role_trust(own, "standard"))
    iam.create_role(RoleName="class-standard", AssumeRolePolicyDocument=document)
    document = json.dumps(role_rights(PLACE, vpc, ["203.0.113.7"]))
    iam.put_role_policy(RoleName="class-standard", PolicyName="rights", PolicyDocument=document)
    iam.create_role(RoleName="another", AssumeRolePolicyDocument=json.dumps(role_trust("*", "standard")))
    token = signer.token("workspace-service/workspace-service", STS)
    arguments = {"RoleArn": own, "RoleSessionName": "pod", "WebIdentityToken": token}
    credentials = aws_client("sts").assume_role_with_web_identity(**arguments)["Credentials"]

    def client(name: str) -> Any:
        return boto3.client(
            name,
            region_name="us-east-1",
            endpoint_url=cloud.url,
            aws_access_key_id=credentials["AccessKeyId"],
            aws_secret_access_key=credentials["SecretAccessKey"],
            aws_session_token=credentials["SessionToken"],
        )

    yield client
    iam.delete_role_policy(RoleName="service", PolicyName="work")
    iam.delete_role_policy(RoleName="class-standard", PolicyName="rights")
    for name in ("service", "class-standard", "another"):
        iam.delete_role(RoleName=name)


def assume_arguments(**changes: Any) -> dict[str, Any]:
    return {**request(CLASS_ROLE, HOLDER, [], PLACE, 3600), **changes}


def test_service_assumes_the_role_of_a_class_with_owner_tags(service: Any) -> None:
    credentials = service("sts").assume_role(**assume_arguments())
    assert credentials["AssumedRoleUser"]["Arn"] == f"arn:aws:sts::{ACCOUNT}:assumed-role/class-standard/w-1"
    assert 0 < credentials["PackedPolicySize"] <= 100


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"Tags": [], "TransitiveTagKeys": []}, "AccessDenied"),
        ({"Tags": [{"Key": "sandbox-class", "Value": "other"}], "TransitiveTagKeys": []}, "AccessDenied"),
        ({"RoleArn": f"arn:aws:iam::{ACCOUNT}:role/another"}, "AccessDenied"),
        ({"RoleArn": f"arn:aws:iam::{ACCOUNT}:role/nobody"}, "AccessDenied"),
        ({"DurationSeconds": 3601}, "ValidationError"),
        ({"Policy": json.dumps({"Statement": ["x" * 2048]})}, "ValidationError"),
        ({"TransitiveTagKeys": ["unheard-of"]}, "ValidationError"),
        ({"Tags": [{"Key": "sandbox-user", "Value": "a*"}]}, "ValidationError"),
    ],
)
def test_invalid_session_tags_are_refused(service: Any, changes: dict[str, Any], code: str) -> None:
    with refused(code):
        service("sts").assume_role(**assume_arguments(**changes))


def test_untrusted_session_tag_is_refused(service: Any) -> None:
    tags = [*assume_arguments()["Tags"], {"Key": "team", "Value": "other"}]
    with refused("AccessDenied"):
        service("sts").assume_role(**assume_arguments(Tags=tags))


def test_the_service_reaches_its_own_table_only_and_deletes_nothing(service: Any) -> None:
    key = {"owner": {"S": "u-1"}, "row": {"S": "r"}}
    with refused("AccessDeniedException"):
        service("dynamodb").get_item(TableName="another", Key=key)
    with refused("AccessDeniedException"):
        service("dynamodb").delete_item(TableName="ledger", Key=key)
    with refused("AccessDeniedException"):
        service("dynamodb").scan(TableName="ledger")
    # Allowed, and not there.
    with refused("ResourceNotFoundException"):
        service("dynamodb").get_item(TableName="ledger", Key=key)


def test_service_may_only_tag_access_points_of_the_driver(service: Any, aws_client: ClientFactory) -> None:
    owner, own = aws_client("efs"), service("efs")
    system = owner.create_file_system(CreationToken="chain")["FileSystemId"]
    marked = [{"Key": "efs.csi.aws.com/cluster", "Value": "true"}]
    slot = owner.create_access_point(FileSystemId=system, ClientToken="slot", Tags=marked)["AccessPointId"]
    seat = owner.create_access_point(FileSystemId=system, ClientToken="seat")["AccessPointId"]
    owner_tag = {"Key": "sandbox-user", "Value": "u-1"}
    own.tag_resource(ResourceId=slot, Tags=[owner_tag])
    for point, tags in ((seat, [owner_tag]), (system, [owner_tag]), (slot, [owner_tag, {"Key": "team", "Value": "x"}])):
        with refused("AccessDeniedException"):
            own.tag_resource(ResourceId=point, Tags=tags)
    # Nor may it take the driver's mark from what it is not to touch, or to keep the driver from deleting it.
    with refused("AccessDeniedException"):
        own.untag_resource(ResourceId=slot, TagKeys=["efs.csi.aws.com/cluster"])
    own.untag_resource(ResourceId=slot, TagKeys=["sandbox-user"])
    assert owner.list_tags_for_resource(ResourceId=slot)["Tags"] == marked
    with refused("AccessPointNotFound"):
        own.tag_resource(ResourceId="fsap-0123456789abcdef0", Tags=[owner_tag])
    for point in (slot, seat):
        owner.delete_access_point(AccessPointId=point)
    owner.delete_file_system(FileSystemId=system)
