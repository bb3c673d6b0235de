"""Helpers for tests of the endpoint: expected refusals, and the resources that tests need."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from botocore.exceptions import ClientError

ACCOUNT = "123456789012"


@contextmanager
def refused(code: str) -> Iterator[None]:
    """The endpoint says no, by this name, in a way that SDKs do not repeat."""
    with pytest.raises(ClientError) as caught:
        yield
    response = caught.value.response
    assert response["Error"]["Code"] == code, response["Error"]
    assert response["ResponseMetadata"]["HTTPStatusCode"] < 500


def trust(service: str = "eks.amazonaws.com") -> str:
    """Lets a service take a role."""
    statement = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": service}}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def allow(**fields: Any) -> str:
    """A policy of one statement; what is given as `...` is left out of it."""
    statement = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*", **fields}
    statement = {name: value for name, value in statement.items() if value is not ...}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def subnets(ec2: Any, zones: str = "ab") -> tuple[str, list[str]]:
    """A VPC with a private subnet a zone."""
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    created = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{number}.0/24", AvailabilityZone=f"us-east-1{zone}")
        for number, zone in enumerate(zones)
    ]
    return vpc, [subnet["Subnet"]["SubnetId"] for subnet in created]


def remove(ec2: Any, vpc: str, names: list[str]) -> None:
    """The VPC and its subnets go."""
    for name in names:
        ec2.delete_subnet(SubnetId=name)
    ec2.delete_vpc(VpcId=vpc)
