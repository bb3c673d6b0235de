"""IAM documents that can be judged before every value in them is known.

The engine sees an IAM document as one string, which is unknown until the last value in it is known. At a first preview
nobody could tell whom a role trusts. So each component also registers its documents with placeholder ARNs in place of
the unknown values. Policies judge these planned documents at preview, and the real ones before they are created.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pulumi

from agentenv.components._lib.aws_context import AwsContext
from agentenv.components._lib.iam_policies import Document, to_json

OUTPUT = "documents"
# Placeholders have the shape of the real values and name nothing that exists.
PLACEHOLDER_PROVIDER_ARN = "arn:aws:iam::000000000000:oidc-provider/issuer.invalid/id/NOTKNOWNYET"
PLACEHOLDER_ISSUER_URL = "https://issuer.invalid/id/NOTKNOWNYET"


def placeholder_vpc_id(_: AwsContext) -> str:
    """Return a placeholder for the id of a VPC."""
    return "vpc-00000000000000000"


def placeholder_address(_: AwsContext) -> str:
    """Return a placeholder for a public address, from the range reserved for documentation."""
    return "192.0.2.1"


def placeholder_file_system_id(_: AwsContext) -> str:
    """Return a placeholder for the id of an EFS file system."""
    return "fs-00000000000000000"


def placeholder_file_system_arn(aws: AwsContext) -> str:
    """Return a placeholder for the ARN of an EFS file system."""
    return aws.arn("elasticfilesystem", f"file-system/{placeholder_file_system_id(aws)}")


def placeholder_role_arn(aws: AwsContext) -> str:
    """Return a placeholder for the ARN of an IAM role."""
    return f"arn:{aws.partition}:iam::{aws.account}:role/not-known-yet"


def placeholder_queue_arn(aws: AwsContext) -> str:
    """Return a placeholder for the ARN of an SQS queue."""
    return aws.arn("sqs", "not-known-yet")


def placeholder_log_group_arn(aws: AwsContext) -> str:
    """Return a placeholder for the ARN of a log group."""
    return aws.arn("logs", "log-group:not-known-yet")


def placeholder_rule_arn(aws: AwsContext) -> str:
    """Return a placeholder for the ARN of an EventBridge rule."""
    return aws.arn("events", "rule/not-known-yet")


def placeholder_table_arn(aws: AwsContext) -> str:
    """Return a placeholder for the ARN of a DynamoDB table."""
    return aws.arn("dynamodb", "table/not-known-yet")


def placeholder_target_group_arn(aws: AwsContext) -> str:
    """Return a placeholder for the ARN of a target group."""
    return aws.arn("elasticloadbalancing", "targetgroup/not-known-yet/0000000000000000")


@dataclass(frozen=True)
class Reference:
    """A value that a document refers to, and a placeholder of the same shape until it is known."""

    value: pulumi.Input[Any]
    placeholder: Callable[[AwsContext], Any]


@dataclass(frozen=True)
class PlannedDocument:
    """A document that refers to values that are not known yet.

    One function builds both the real document and the planned one, so they differ only in those values.
    """

    aws: pulumi.Output[AwsContext]
    build: Callable[..., Document]  # takes the AWS context, then the value of each reference in order
    references: tuple[Reference, ...]

    @property
    def json(self) -> pulumi.Output[str]:
        """Return the real document as JSON."""
        values = pulumi.Output.all(self.aws, *(reference.value for reference in self.references))
        return values.apply(lambda known: to_json(self.build(*known)))

    @property
    def planned(self) -> pulumi.Output[Document]:
        """Return the document with placeholders."""
        return self.aws.apply(
            lambda context: self.build(context, *(reference.placeholder(context) for reference in self.references))
        )


@dataclass(frozen=True)
class PlannedDocuments:
    """The planned documents of one component, for its `documents` output."""

    entries: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def add(self, kind: str, name: str, key: str, document: pulumi.Input[Document]) -> None:
        """Add the document that the resource of that type and name will have under a property."""
        self.entries.append({"type": kind, "name": name, "property": key, "says": document})
