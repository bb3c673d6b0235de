"""The hourly usage export: cost and usage with split cost allocation data, and its S3 bucket."""

from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_aws import bcmdata, s3

from agentenv.components._lib import iam_policies
from agentenv.components._lib.aws_context import AwsContext
from agentenv.components._lib.iam_policies import Document
from agentenv.components._lib.options import ChildOptions
from agentenv.components._lib.tags import Labels
from agentenv.core.iam.documents import policy_document
from agentenv.core.usage_export import columns, locations
from agentenv.core.values.names import named

# The Data Exports service; its exports are in us-east-1, wherever their bucket is.
EXPORTS, EXPORTS_REGION = "bcm-data-exports", "us-east-1"

# Query results are cheap to compute again.
RESULTS_DAYS = 30


@dataclass(frozen=True)
class UsageExport:
    """The bucket and the name of an export."""

    bucket: pulumi.Output[str]
    export: str


def create_usage_export(
    labels: Labels, aws: pulumi.Output[AwsContext], child: ChildOptions, *, days: int, protected: bool
) -> UsageExport:
    """Create the export and its bucket, with a retention in days."""
    bucket, bucket_policy = _bucket(labels, aws, child, days=days, protected=protected)
    export = labels.name("data-export", "usage")
    target = {
        "s3_bucket": bucket,
        "s3_prefix": locations.USAGE,
        "s3_region": aws.region,
        "s3_output_configurations": [
            {
                "format": "PARQUET",
                "compression": "PARQUET",
                "output_type": "CUSTOM",
                # One version per month; otherwise queries would add up all deliveries.
                "overwrite": "OVERWRITE_REPORT",
            }
        ],
    }
    # With the stack's own provider: its SDK finds the region of exports. A second provider for that region would not
    # have the profile or role of the stack's configuration.
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
                # AWS checks its write access before it accepts the export.
                depends_on=[bucket_policy],
                # Export names are unique: delete the old one first.
                delete_before_replace=True,
                # AWS adds properties over time, and each would replace the export.
                ignore_changes=["export.dataQueries[0].tableConfigurations"],
            )
        ),
    )
    return UsageExport(bucket, export)


def _bucket(
    labels: Labels, aws: pulumi.Output[AwsContext], child: ChildOptions, *, days: int, protected: bool
) -> tuple[pulumi.Output[str], pulumi.Resource]:
    """Create a private, encrypted bucket; return its name, and the policy that lets AWS write to it.

    It is encrypted with the key of S3. A customer managed key would cost more than the stored data, and everyone who
    may read the bucket could use it too.
    """
    name = f"{labels.base}-usage"
    # Bucket names are global and lower-case, so the account id is part of it.
    name_parts = (labels.environment.lower(), labels.base.lower())
    physical = aws.apply(lambda context: named("s3-bucket", *name_parts, "usage", context.account))
    data_options = pulumi.ResourceOptions(protect=True, retain_on_delete=True) if protected else None
    bucket = s3.Bucket(
        name, bucket=physical, force_destroy=not protected, tags=labels.tags("usage"), opts=child(data_options)
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
        rules=[_ending("usage", locations.USAGE, days), _ending("results", locations.RESULTS, RESULTS_DAYS)],
        opts=child(data_options),
    )
    policy = s3.BucketPolicy(
        name,
        bucket=bucket.bucket,
        policy=iam_policies.policy_json(pulumi.Output.all(aws, physical).apply(lambda values: usage_bucket(*values))),
        # S3 rejects concurrent changes of the two.
        opts=child(pulumi.ResourceOptions.merge(data_options, pulumi.ResourceOptions(depends_on=[access_block]))),
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


def usage_bucket(aws: AwsContext, bucket: str) -> Document:
    """Return the policy of a bucket that only exports of this account write to, and that requires TLS.

    IAM policies of the account decide who reads it; no other account can.
    """
    arn = f"arn:{aws.partition}:s3:::{bucket}"
    return policy_document(
        {
            "Sid": "ExportsOfThisAccount",
            "Effect": "Allow",
            "Principal": {"Service": f"{EXPORTS}.amazonaws.com"},
            # The service reads this policy before it creates an export.
            "Action": ["s3:GetBucketPolicy", "s3:PutObject"],
            "Resource": [arn, f"{arn}/*"],
            "Condition": {
                "StringEquals": {"aws:SourceAccount": aws.account},
                "ArnLike": {"aws:SourceArn": f"arn:{aws.partition}:{EXPORTS}:{EXPORTS_REGION}:{aws.account}:export/*"},
            },
        },
        {
            "Sid": "RefusePlainText",
            "Effect": "Deny",
            "Principal": {"AWS": "*"},
            "Action": "s3:*",
            "Resource": [arn, f"{arn}/*"],
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        },
    )
