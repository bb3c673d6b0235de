"""The hourly usage export: cost and usage with split cost allocation data, and its S3 bucket."""

from dataclasses import dataclass

import pulumi
from pulumi_aws import bcmdata

from agentenv.components._lib.aws_context import AwsContext
from agentenv.components._lib.iam_policies import Document
from agentenv.components._lib.options import ChildOptions
from agentenv.components._lib.private_bucket import BucketSettings, create_private_bucket
from agentenv.components._lib.tags import Labels
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
    settings = bucket_settings(labels, days=days, protected=protected)
    bucket, bucket_policy = create_private_bucket(settings, labels, aws, child)
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


def bucket_settings(labels: Labels, *, days: int, protected: bool) -> BucketSettings:
    """Return the bucket of exports: only those of this account write to it, and IAM policies decide who reads it."""
    # Bucket names are global and lower-case, so the account id is part of it.
    name_parts = (labels.environment.lower(), labels.base.lower(), "usage")
    return BucketSettings(
        "usage",
        lambda context: named("s3-bucket", *name_parts, context.account),
        _exports_of_account,
        expirations=(("usage", f"{locations.USAGE}/", days), ("results", f"{locations.RESULTS}/", RESULTS_DAYS)),
        protected=protected,
    )


def _exports_of_account(aws: AwsContext, arn: str) -> list[Document]:
    return [
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
        }
    ]
