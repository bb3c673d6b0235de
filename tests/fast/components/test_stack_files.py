"""The stack files of the repository each build an environment, and preflight asks for the permissions of all of it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import yaml

from agentenv.cli.preflight.actions import actions_of
from agentenv.components.environment import Environment
from agentenv.config import Settings, read
from agentenv.core.capabilities.unknown_values import UNKNOWN
from agentenv.core.plan import plan
from agentenv.policies.packs.planned_documents import plan_mismatches, with_planned_documents
from agentenv.rehearsal.providers.aws.row import Call, ReadCall, ResourceType
from agentenv.rehearsal.providers.aws.rows import TABLE
from tests.fast.components.graph import ACCOUNT, CALLER, Graph, registered

STACKS = Path(__file__).resolve().parents[3] / "stacks"
EXAMPLES = ("local", "dev", "staging", "prod", "full")


@cache
def build(name: str, *, preview: bool = False) -> tuple[Settings, Graph]:
    """Return the settings of a stack file and the graph that it registers."""
    config = yaml.safe_load((STACKS / f"Pulumi.{name}.yaml").read_text(encoding="utf-8"))["config"]
    settings = read(config, name)
    may_deploy = [*settings.cluster.deployers, *settings.cluster.admins]
    graph = registered(
        lambda: Environment("agents", plan(settings)),
        zones=[f"us-east-1{letter}" for letter in "abc"],
        caller=may_deploy[0] if may_deploy else CALLER,
        preview=preview,
    )
    return settings, graph


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_builds(name: str) -> None:
    settings, graph = build(name)
    assert len(graph.of("FileSystem")) == settings.storage.file_systems
    assert len(graph.of("Subnet")) == 2 * settings.network.zone_count
    assert graph.resource("eks:index:Cluster").inputs["version"] == settings.cluster.version
    assert len(graph.of("NodePool")) > 1
    assert len(graph.of("Addon")) == 7
    assert list(plan_mismatches(graph.policy_resources())) == []
    pods = [
        resource.inputs["spec"]["template"]["spec"]
        for kind in ("Deployment", "DaemonSet")
        for resource in graph.of(kind)
    ]
    images = {container["image"] for pod in pods for container in pod["containers"]}
    # A tag of a copy may be moved, so an image keeps its digest wherever it is copied to.
    assert images
    assert [image for image in images if "@sha256:" not in image] == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_at_a_first_preview_every_document_of_iam_is_planned(name: str) -> None:
    _, graph = build(name, preview=True)
    unknown = {
        (with_planned_document.name, key)
        for with_planned_document in with_planned_documents(graph.policy_resources())
        for key in ("assumeRolePolicy", "policy")
        if with_planned_document.type.startswith("aws:") and with_planned_document.inputs.get(key) is UNKNOWN
    }
    assert unknown == set()


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_resource_of_an_example_stack_has_its_permissions(name: str) -> None:
    parsed, graph = build(name)
    demanded = {action for row in actions_of(parsed, ACCOUNT, "aws") for action in row.names}
    types = {resource.type for resource in graph.aws_resources()}
    needed = {action for type_ in types for action in row_actions(TABLE[type_])}
    assert needed - demanded <= NEVER_CALLED
    assert len(needed & demanded) > 120
    invoked = {"tag"} if any("resourcegroupstagging" in token for token, _ in graph.invokes) else set[str]()
    # IAM also treats an export of the bill as a report.
    exported = {"cur"} if parsed.cost.usage_export else set[str]()
    services = {IAM_NAMES.get(TABLE[type_].service, TABLE[type_].service) for type_ in types}
    assert {action.partition(":")[0] for action in demanded} == services | invoked | exported


IAM_NAMES = {"efs": "elasticfilesystem", "elbv2": "elasticloadbalancing"}
# Where policies have another name for an operation of S3.
S3_NAMES = {
    "HeadBucket": "ListBucket",
    "DeleteBucketEncryption": "PutEncryptionConfiguration",
    "DeleteBucketLifecycle": "PutLifecycleConfiguration",
    "DeleteBucketOwnershipControls": "PutBucketOwnershipControls",
    "DeleteBucketTagging": "PutBucketTagging",
    "DeletePublicAccessBlock": "PutBucketPublicAccessBlock",
    "GetBucketEncryption": "GetEncryptionConfiguration",
    "GetBucketLifecycleConfiguration": "GetLifecycleConfiguration",
    "GetPublicAccessBlock": "GetBucketPublicAccessBlock",
    "PutBucketEncryption": "PutEncryptionConfiguration",
    "PutBucketLifecycleConfiguration": "PutLifecycleConfiguration",
    "PutPublicAccessBlock": "PutBucketPublicAccessBlock",
}
# Operations of inputs that no component sets.
NEVER_CALLED = {
    "ec2:ModifyVpcTenancy",
    "iam:UpdateOpenIDConnectProviderThumbprint",
    "logs:PutLogGroupDeletionProtection",
}


def row_actions(row: ResourceType) -> set[str]:
    """Return the actions of the operations that the rehearsal's provider names for a resource type."""
    calls = (row.create, row.read, *row.more_reads, *row.updates, *row.delete)
    operations = [(call.service or row.service, call.operation) for call in calls if isinstance(call, Call | ReadCall)]
    if row.tags:
        service = row.tags.service or row.service
        operations += [(service, each) for each in (row.tags.tag_operation, row.tags.untag_operation) if each]
    return {
        f"{IAM_NAMES.get(service, service)}:{S3_NAMES.get(operation, operation) if service == 's3' else operation}"
        for service, operation in operations
    }
