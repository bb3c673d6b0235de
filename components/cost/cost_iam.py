"""Policy documents of what controls costs, as plain data (see `components/_lib/iam_policies.py`)."""

from agentenv.components._lib.aws_context import AwsContext
from agentenv.components._lib.iam_policies import Document, document

# The exports' own service; its exports are of us-east-1, wherever their bucket is.
EXPORTS, EXPORTS_REGION = "bcm-data-exports", "us-east-1"


def usage_bucket(aws: AwsContext, bucket: str) -> Document:
    """A bucket that AWS writes the bill into, for exports of this account only, and that speaks TLS with everybody.

    Who reads it is IAM's to say: nobody of another account.
    """
    arn = f"arn:{aws.partition}:s3:::{bucket}"
    return document(
        {
            "Sid": "ExportsOfThisAccount",
            "Effect": "Allow",
            "Principal": {"Service": f"{EXPORTS}.amazonaws.com"},
            # Without a look at this policy the service does not create an export.
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
