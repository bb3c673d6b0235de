"""IAM policy documents of cost controls, as plain data (see `components/_lib/iam_policies.py`)."""

from agentenv.components._lib.aws_context import AwsContext
from agentenv.components._lib.iam_policies import Document, document

# The Data Exports service; its exports are in us-east-1, wherever their bucket is.
EXPORTS, EXPORTS_REGION = "bcm-data-exports", "us-east-1"


def usage_bucket(aws: AwsContext, bucket: str) -> Document:
    """Return the policy of a bucket that only exports of this account write to, and that requires TLS.

    IAM policies of the account decide who reads it; no other account can.
    """
    arn = f"arn:{aws.partition}:s3:::{bucket}"
    return document(
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
