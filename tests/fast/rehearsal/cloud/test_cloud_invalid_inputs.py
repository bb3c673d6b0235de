"""Inputs that the official aws plugin passes on or refuses itself, and that the service refuses in either case."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.fast.rehearsal.cloud.calls import refused, remove, subnets
from tests.fast.rehearsal.cloud.conftest import ClientFactory

VPC_RANGE = [{"CidrIp": "10.0.0.0/8"}]


@pytest.fixture
def network(aws_client: ClientFactory) -> Iterator[dict[str, str]]:
    ec2 = aws_client("ec2")
    vpc, names = subnets(ec2)
    group = ec2.create_security_group(GroupName="nodes", Description="nodes", VpcId=vpc)["GroupId"]
    address = ec2.allocate_address(Domain="vpc")["AllocationId"]
    yield {"vpc": vpc, "subnet": names[0], "group": group, "address": address}
    ec2.release_address(AllocationId=address)
    ec2.delete_security_group(GroupId=group)
    remove(ec2, vpc, names)


def rule(**changed: Any) -> list[dict[str, Any]]:
    return [{"IpProtocol": "tcp", "FromPort": 1, "ToPort": 2, "IpRanges": VPC_RANGE, **changed}]


@pytest.mark.parametrize(
    ("code", "call"),
    [
        (
            "InvalidParameterValue",
            lambda ec2, at: ec2.authorize_security_group_ingress(GroupId=at["group"], IpPermissions=rule(ToPort=65536)),
        ),
        (
            "InvalidParameterValue",
            lambda ec2, at: ec2.authorize_security_group_ingress(
                GroupId=at["group"], IpPermissions=rule(IpRanges=[{**VPC_RANGE[0], "Description": "the team's"}])
            ),
        ),
        (
            "InvalidParameterValue",
            lambda ec2, at: ec2.create_security_group(GroupName="sg-nodes", Description="nodes", VpcId=at["vpc"]),
        ),
        (
            "InvalidParameterValue",
            lambda ec2, at: ec2.create_security_group(GroupName="others", Description="the team's", VpcId=at["vpc"]),
        ),
        (
            "InvalidParameterCombination",
            lambda ec2, at: ec2.create_nat_gateway(
                SubnetId=at["subnet"], ConnectivityType="private", AllocationId=at["address"]
            ),
        ),
        ("MissingParameter", lambda ec2, at: ec2.create_nat_gateway(SubnetId=at["subnet"])),
    ],
)
def test_ec2_refuses(
    aws_client: ClientFactory, network: dict[str, str], code: str, call: Callable[[Any, dict[str, str]], object]
) -> None:
    with refused(code):
        call(aws_client("ec2"), network)


@pytest.mark.parametrize(
    ("service", "code", "call"),
    [
        ("sqs", "InvalidParameterValue", lambda sqs: sqs.create_queue(QueueName="with space")),
        ("sqs", "InvalidParameterValue", lambda sqs: sqs.create_queue(QueueName="q" * 81)),
        ("events", "ValidationException", lambda events: events.put_rule(Name="nothing")),
        (
            "events",
            "ValidationException",
            lambda events: events.put_rule(Name="daily", ScheduleExpression="every day"),
        ),
        ("athena", "InvalidRequestException", lambda athena: athena.create_work_group(Name="with space")),
        ("s3", "InvalidBucketName", lambda s3: s3.create_bucket(Bucket="Upper_Case")),
        (
            "iam",
            "ValidationError",
            lambda iam: iam.create_open_id_connect_provider(Url="http://oidc.example.com", ClientIDList=["a"]),
        ),
    ],
)
def test_service_refuses(
    aws_client: ClientFactory, unchanged: None, service: str, code: str, call: Callable[[Any], object]
) -> None:
    with refused(code):
        call(aws_client(service))
