"""Tests of preflight's questions about the mirror of runtimes, against a simulated S3 and EC2."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agentenv.cli.preflight.check import Check, run_checks
from agentenv.cli.preflight.runtime_mirror import questions
from agentenv.config.sections.network import PLATFORM_ENDPOINTS
from tests.fast.cli.preflight.conftest import REGION, StubbedSession
from tests.fast.config.stack_samples import VETTED, settings

ECR = "111122223333.dkr.ecr.us-east-1.amazonaws.com"
BUCKET = "dev-agents-runtimes-123456789012"
CLASS = {"name": "a", "image": f"{ECR}/sandbox@sha256:{'ab' * 32}"}
ISOLATED = {"nat": "none", "endpoints": list(PLATFORM_ENDPOINTS)}
PATHS = [f"gvisor/20261005.0/{machine}/gvisor.tar.zstd" for machine in ("aarch64", "x86_64")]
SUBNETS = ["subnet-01234567", "subnet-12345678"]


def checks(session: StubbedSession, network: dict[str, Any], **sandbox_class: Any) -> list[Check]:
    mirrors = {"registry": ECR, **network.get("mirrors", {"bucket": True})}
    sections = {"network": {**network, "mirrors": mirrors}, "sandboxClasses": [{**CLASS, **sandbox_class}]}
    return run_checks(questions(settings(sections)), session.account())


@pytest.fixture
def bucket(simulated: StubbedSession) -> Iterator[Any]:
    """Create the bucket of the stack; return the client."""
    s3 = simulated.client("s3")
    s3.create_bucket(Bucket=BUCKET)
    yield s3
    for row in s3.list_objects_v2(Bucket=BUCKET).get("Contents", []):
        s3.delete_object(Bucket=BUCKET, Key=row["Key"])
    s3.delete_bucket(Bucket=BUCKET)


def test_before_the_first_up_the_bucket_may_be_missing(simulated: StubbedSession) -> None:
    for network in ({}, ISOLATED):
        (check,) = checks(simulated, network)
        assert (check.needed, check.limit, check.ok) == (2, 0, True)
        assert "`up` creates the bucket; then run agentenv mirror --stack dev" in check.why


@pytest.mark.parametrize(("network", "ok"), [({}, True), (ISOLATED, False)])
def test_what_the_bucket_lacks_is_a_warning_or_an_error_without_nat(
    simulated: StubbedSession, bucket: Any, network: dict[str, Any], ok: bool
) -> None:
    bucket.put_object(Bucket=BUCKET, Key=PATHS[0], Body=b"")
    (check,) = checks(simulated, network)
    assert (check.needed, check.limit, check.ok) == (2, 1, ok)
    assert check.why.startswith(f"{PATHS[1]}: run agentenv mirror --stack dev; until then ")
    bucket.put_object(Bucket=BUCKET, Key=PATHS[1], Body=b"")
    (check,) = checks(simulated, network)
    assert (check.limit, check.ok, check.why) == (2, True, "")


def test_a_bucket_of_yours_must_exist(simulated: StubbedSession) -> None:
    (check,) = checks(simulated, {"mirrors": {"files": "https://nowhere-1.s3.us-east-1.amazonaws.com"}})
    assert (check.ok, check.why) == (False, "the bucket nowhere-1 does not exist")
    (check,) = checks(simulated, {"mirrors": {"files": "https://nowhere-1.s3.eu-west-1.amazonaws.com"}})
    assert check.ok is None
    (check,) = checks(simulated, {"mirrors": {"files": "https://copies.example.com"}})
    assert check.ok is None


def test_an_adopted_vpc_needs_an_endpoint_of_s3(simulated: StubbedSession) -> None:
    ec2 = simulated.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    existing = {"existing": {"vpcId": vpc, "privateSubnetIds": SUBNETS}}
    for nat, ok in (({}, True), ({"nat": "none"}, False)):
        _, endpoint = checks(simulated, {**existing, **nat})
        assert (endpoint.limit, endpoint.ok) == ("none", ok)
        assert "create a gateway endpoint of com.amazonaws.us-east-1.s3" in endpoint.why
    created = ec2.create_vpc_endpoint(VpcId=vpc, ServiceName=f"com.amazonaws.{REGION}.s3", VpcEndpointType="Gateway")
    _, endpoint = checks(simulated, {**existing, "nat": "none"})
    assert (endpoint.limit, endpoint.ok) == (created["VpcEndpoint"]["VpcEndpointId"], True)


@pytest.mark.parametrize(
    ("mirrors", "sandbox_class"),
    [({"bucket": False}, {}), ({"bucket": True}, VETTED)],
)
def test_without_a_mirror_or_downloads_there_are_no_questions(
    simulated: StubbedSession, mirrors: dict[str, Any], sandbox_class: dict[str, Any]
) -> None:
    assert checks(simulated, {"mirrors": mirrors}, **sandbox_class) == []
