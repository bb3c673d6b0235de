"""The bill by the hour: an export of cost and usage with split cost data, and the bucket that AWS writes it to."""

from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_aws import bcmdata, s3

from agentenv.components._lib import iam_policies
from agentenv.components._lib.aws_context import AwsContext
from agentenv.components._lib.options import ChildOptions
from agentenv.components._lib.tags import Labels
from agentenv.components.cost import cost_iam
from agentenv.core.usage_export import columns
from agentenv.core.usage_export import locations as places
from agentenv.core.values.names import named

# What queries answer is asked again rather than looked up after weeks.
RESULTS_DAYS = 30


@dataclass(frozen=True)
class UsageExport:
    """Where the bill lies, by name."""

    bucket: pulumi.Output[str]
    export: str


def create_usage_export(
    labels: Labels, aws: pulumi.Output[AwsContext], child: ChildOptions, *, days: int, kept: bool
) -> UsageExport:
    """Have the bill written, and kept for so many days."""
    bucket, writable = _bucket(labels, aws, child, days=days, kept=kept)
    export = labels.name("data-export", "usage")
    target = {
        "s3_bucket": bucket,
        "s3_prefix": places.USAGE,
        "s3_region": aws.region,
        "s3_output_configurations": [
            {
                "format": "PARQUET",
                "compression": "PARQUET",
                "output_type": "CUSTOM",
                # One version of each month; otherwise every delivery would be there, and be added up.
                "overwrite": "OVERWRITE_REPORT",
            }
        ],
    }
    # By the provider of all the rest: its SDK asks for exports where they are, and one of our own for there would know
    # neither the profile nor the role that the stack's configuration says.
    bcmdata.Export(
        f"{labels.base}-usage",
        export={  # pyright: ignore[reportArgumentType] - a dictionary of its shape
            "name": export,
            "description": f"Cost and usage of environment {labels.environment}, by the hour",
            "data_queries": [
                {
                    "query_statement": columns.statement(),
                    "table_configurations": aws.apply(
                        lambda context: columns.configuration(context.account, context.partition)
                    ),
                }
            ],
            "destination_configurations": [{"s3_destinations": [target]}],
            "refresh_cadences": [{"frequency": "SYNCHRONOUS"}],
        },
        tags=labels.tags("usage"),
        opts=child(
            pulumi.ResourceOptions(
                # AWS looks whether it may write before it takes the export.
                depends_on=[writable],
                # A name that is taken: the old one has to go first.
                delete_before_replace=True,
                # AWS adds properties as it invents them, and each would replace the export.
                ignore_changes=["export.dataQueries[0].tableConfigurations"],
            )
        ),
    )
    return UsageExport(bucket, export)


def _bucket(
    labels: Labels, aws: pulumi.Output[AwsContext], child: ChildOptions, *, days: int, kept: bool
) -> tuple[pulumi.Output[str], pulumi.Resource]:
    """A private, encrypted bucket, and what lets AWS write there. Its key is S3's: one of our own would cost more than
    what is stored, and whoever may read the bucket might use it, too.
    """
    name = f"{labels.base}-usage"
    # Names of buckets are the world's, so this account is part of it; and in small letters.
    ours = (labels.environment.lower(), labels.base.lower())
    physical = aws.apply(lambda context: named("s3-bucket", *ours, "usage", context.account))
    held = pulumi.ResourceOptions(protect=True, retain_on_delete=True) if kept else None
    bucket = s3.Bucket(name, bucket=physical, force_destroy=not kept, tags=labels.tags("usage"), opts=child(held))
    closed = s3.BucketPublicAccessBlock(
        name,
        bucket=bucket.bucket,
        block_public_acls=True,
        block_public_policy=True,
        ignore_public_acls=True,
        restrict_public_buckets=True,
        opts=child(held),
    )
    s3.BucketOwnershipControls(
        name, bucket=bucket.bucket, rule={"object_ownership": "BucketOwnerEnforced"}, opts=child(held)
    )
    s3.BucketServerSideEncryptionConfiguration(
        name,
        bucket=bucket.bucket,
        rules=[{"apply_server_side_encryption_by_default": {"sse_algorithm": "AES256"}}],
        opts=child(held),
    )
    s3.BucketLifecycleConfiguration(
        name,
        bucket=bucket.bucket,
        rules=[_ending("usage", places.USAGE, days), _ending("results", places.RESULTS, RESULTS_DAYS)],
        opts=child(held),
    )
    policy = s3.BucketPolicy(
        name,
        bucket=bucket.bucket,
        policy=iam_policies.policy_json(
            pulumi.Output.all(aws, physical).apply(lambda known: cost_iam.usage_bucket(*known))
        ),
        # S3 refuses to change both at once.
        opts=child(pulumi.ResourceOptions.merge(held, pulumi.ResourceOptions(depends_on=[closed]))),
    )
    return bucket.bucket, policy


def _ending(name: str, prefix: str, days: int) -> Any:
    return {
        "id": name,
        "status": "Enabled",
        "filter": {"prefix": f"{prefix}/"},
        "expiration": {"days": days},
        "abort_incomplete_multipart_upload": {"days_after_initiation": 7},
    }
