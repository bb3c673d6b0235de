"""A private S3 bucket: no public access, no ACLs, encrypted, and requests over TLS only."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_aws import s3

from agentenv.components._lib.aws_context import AwsContext
from agentenv.components._lib.iam_policies import Document, refuse_plain_text
from agentenv.components._lib.options import ChildOptions
from agentenv.components._lib.planned_documents import PlannedDocument, PlannedDocuments, Reference
from agentenv.components._lib.tags import Labels
from agentenv.core.iam.documents import policy_document


@dataclass(frozen=True)
class BucketSettings:
    """What distinguishes a bucket: its name, who may use it, how long objects stay, and whether it is protected."""

    suffix: str  # of its resource name
    name: Callable[[AwsContext], str]
    # Takes the AWS context, the bucket's ARN, and the value of each reference in order
    statements: Callable[..., Sequence[Document]]
    references: tuple[Reference, ...] = ()
    expirations: tuple[tuple[str, str, int], ...] = ()  # each with a name, a prefix and a number of days
    protected: bool = False


def create_private_bucket(
    settings: BucketSettings,
    labels: Labels,
    aws: pulumi.Output[AwsContext],
    child: ChildOptions,
    planned_documents: PlannedDocuments | None = None,
) -> tuple[pulumi.Output[str], pulumi.Resource]:
    """Create the bucket; return its name, and its policy.

    It is encrypted with the key of S3. A customer managed key would cost more than the stored data, everyone who may
    read the bucket could use it too, and unsigned requests could not.
    """
    name = f"{labels.base}-{settings.suffix}"
    data_options = pulumi.ResourceOptions(protect=True, retain_on_delete=True) if settings.protected else None
    bucket = s3.Bucket(
        name,
        bucket=aws.apply(settings.name),
        force_destroy=not settings.protected,
        tags=labels.tags(settings.suffix),
        opts=child(data_options),
    )
    access_block = s3.BucketPublicAccessBlock(
        name,
        bucket=bucket.bucket,
        block_public_acls=True,
        block_public_policy=True,
        ignore_public_acls=True,
        restrict_public_buckets=True,
        opts=child(data_options),
    )
    s3.BucketOwnershipControls(
        name, bucket=bucket.bucket, rule={"object_ownership": "BucketOwnerEnforced"}, opts=child(data_options)
    )
    s3.BucketServerSideEncryptionConfiguration(
        name,
        bucket=bucket.bucket,
        rules=[{"apply_server_side_encryption_by_default": {"sse_algorithm": "AES256"}}],
        opts=child(data_options),
    )
    s3.BucketLifecycleConfiguration(
        name,
        bucket=bucket.bucket,
        rules=[_rule(*row) for row in settings.expirations or (("parts", "", None),)],
        opts=child(data_options),
    )
    document = PlannedDocument(aws, lambda *values: _document(settings, *values), settings.references)
    if planned_documents is not None:
        planned_documents.add("aws:s3/bucketPolicy:BucketPolicy", name, "policy", document.planned)
    policy = s3.BucketPolicy(
        name,
        bucket=bucket.bucket,
        policy=document.json,
        # S3 rejects concurrent changes of the two.
        opts=child(pulumi.ResourceOptions.merge(data_options, pulumi.ResourceOptions(depends_on=[access_block]))),
    )
    return bucket.bucket, policy


def _rule(name: str, prefix: str, days: int | None) -> Any:
    """Return a lifecycle rule: unfinished uploads end after a week, and with `days` objects expire."""
    return {
        "id": name,
        "status": "Enabled",
        "filter": {"prefix": prefix},
        **({"expiration": {"days": days}} if days else {}),
        "abort_incomplete_multipart_upload": {"days_after_initiation": 7},
    }


def _document(settings: BucketSettings, aws: AwsContext, *values: Any) -> Document:
    arn = f"arn:{aws.partition}:s3:::{settings.name(aws)}"
    return policy_document(
        *settings.statements(aws, arn, *values),
        refuse_plain_text("s3:*", [arn, f"{arn}/*"]),
    )
