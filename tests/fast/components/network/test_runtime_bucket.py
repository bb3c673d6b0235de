"""The bucket of runtimes: who may read it, and what is created with it."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from agentenv.core.iam.documents import statements
from agentenv.core.nodes.mirrors import runtime_bucket
from agentenv.core.values.names import KINDS
from agentenv.policies.packs.planned_documents import with_planned_documents
from tests.fast.components.graph import ACCOUNT, Graph, registered
from tests.fast.components.iam import ANONYMOUS, decided
from tests.fast.components.shapes import network, planned

BUCKET = f"dev-agents-runtimes-{ACCOUNT}"
ARCHIVE = f"arn:aws:s3:::{BUCKET}/gvisor/1/x86_64/gvisor.tar.zstd"
CLASS = {"name": "a", "image": f"111122223333.dkr.ecr.us-east-1.amazonaws.com/sandbox@sha256:{'ab' * 32}"}
BLOCKS = ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")
TYPES = {
    "Bucket",
    "BucketLifecycleConfiguration",
    "BucketOwnershipControls",
    "BucketPolicy",
    "BucketPublicAccessBlock",
    "BucketServerSideEncryptionConfiguration",
}


@pytest.fixture(scope="module")
def graph() -> Graph:
    return registered(lambda: network(runtime_bucket=True))


def of_s3(graph: Graph) -> list[Any]:
    return [resource for resource in graph.aws_resources() if resource.type.startswith("aws:s3/")]


def test_it_is_private_encrypted_and_deleted_with_its_copies(graph: Graph) -> None:
    assert {resource.type.rpartition(":")[2] for resource in of_s3(graph)} == TYPES
    bucket = graph.resource("Bucket")
    assert (bucket.inputs["bucket"], bucket.inputs["forceDestroy"]) == (BUCKET, True)
    assert not any(resource.protect or resource.retain for resource in of_s3(graph))
    assert all(graph.resource("BucketPublicAccessBlock").inputs[key] is True for key in BLOCKS)
    (rule,) = graph.resource("BucketServerSideEncryptionConfiguration").inputs["rules"]
    # Unsigned requests cannot use a key of KMS.
    assert rule["applyServerSideEncryptionByDefault"] == {"sseAlgorithm": "AES256"}


@pytest.mark.parametrize(
    ("action", "resource", "context", "answer"),
    [
        ("s3:GetObject", ARCHIVE, {}, "allow"),
        ("s3:GetObject", ARCHIVE, {"aws:SourceVpc": "vpc-of-others"}, "silent"),
        ("s3:GetObject", ARCHIVE, {"aws:SecureTransport": "false"}, "deny"),
        ("s3:PutObject", ARCHIVE, {}, "silent"),
        ("s3:ListBucket", f"arn:aws:s3:::{BUCKET}", {}, "silent"),
    ],
)
def test_only_requests_through_endpoints_of_the_vpc_read_it(
    graph: Graph, action: str, resource: str, context: dict[str, str], answer: str
) -> None:
    document = json.loads(graph.resource("BucketPolicy").inputs["policy"])
    usual = {"aws:SecureTransport": "true", "aws:SourceVpc": "net-vpc-id"}
    assert decided(document, ANONYMOUS, action, {**usual, **context}, on=resource) == answer
    # A request over the internet has no VPC.
    if answer == "allow":
        assert decided(document, ANONYMOUS, action, {"aws:SecureTransport": "true"}, on=resource) == "silent"


def test_its_policy_can_be_judged_before_the_vpc_exists() -> None:
    preview = registered(lambda: network(runtime_bucket=True), preview=True)
    (policy,) = [row for row in with_planned_documents(preview.policy_resources()) if row.type.endswith("BucketPolicy")]
    statement, _ = statements(cast("dict[str, object]", policy.inputs["policy"]))
    assert statement.get("Condition") == {"StringEquals": {"aws:SourceVpc": "vpc-00000000000000000"}}


def test_there_is_one_only_where_nodes_install_a_runtime() -> None:
    bucket = {"network": {"mirrors": {"bucket": True}}}
    assert planned(bucket).network.runtime_bucket is False
    for sections, created in ((bucket, True), ({}, False)):
        plan = planned({**sections, "sandboxClasses": [CLASS]})
        assert plan.network.runtime_bucket is plan.capacity.runtime_bucket is created
    assert of_s3(registered(network)) == []


@pytest.mark.parametrize("environment", ["p", "production-of-the-platform-team-1"])
def test_its_name_is_valid_in_every_environment(environment: str) -> None:
    name = runtime_bucket(environment, ACCOUNT)
    assert KINDS["s3-bucket"].accepts(name)
    # The address of a bucket with dots has no valid certificate.
    assert "." not in name
