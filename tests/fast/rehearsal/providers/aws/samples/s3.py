"""Samples of S3."""

import json
from typing import Any

from tests.fast.rehearsal.providers.aws.samples.sample import MORE_TAGS, TAGS, Ground, Sample


def bucket(ground: Ground) -> str:
    """A bucket that stands already."""
    name = ground.fresh("sample-bucket")
    ground.client("s3").create_bucket(Bucket=name)
    return name


def policy(name: str, action: str = "s3:PutObject") -> str:
    """Lets the exports of this account in."""
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "bcm-data-exports.amazonaws.com"},
        "Action": [action],
        "Resource": f"arn:aws:s3:::{name}/*",
        "Condition": {"StringEquals": {"aws:SourceAccount": "123456789012"}},
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def _with_policy(ground: Ground) -> dict[str, Any]:
    name = bucket(ground)
    return {"bucket": name, "policy": policy(name)}


def _encrypted(algorithm: str) -> list[dict[str, Any]]:
    return [{"applyServerSideEncryptionByDefault": {"sseAlgorithm": algorithm}}]


def _rule(days: int) -> dict[str, Any]:
    return {
        "id": "old",
        "status": "Enabled",
        "filter": {"prefix": "usage/"},
        "expiration": {"days": days},
        "abortIncompleteMultipartUpload": {"daysAfterInitiation": 7},
    }


SAMPLES = {
    "aws:s3/bucket:Bucket": Sample(
        inputs=lambda g: {"bucket": g.fresh("a-bucket"), "forceDestroy": True, "tags": TAGS},
        update={"tags": MORE_TAGS},
        replace={"bucket": "another-bucket"},
        behind=lambda g, i, _: g.client("s3").put_bucket_tagging(
            Bucket=i, Tagging={"TagSet": [{"Key": "owner", "Value": "somebody"}]}
        ),
        drift=("tags",),
        untold=("forceDestroy",),
    ),
    "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock": Sample(
        inputs=lambda g: {"bucket": bucket(g), "blockPublicAcls": True, "blockPublicPolicy": True},
        update={"ignorePublicAcls": True, "restrictPublicBuckets": True},
        replace={"bucket": "another-bucket"},
        behind=lambda g, i, _: g.client("s3").put_public_access_block(
            Bucket=i,
            PublicAccessBlockConfiguration={
                **dict.fromkeys(("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls"), True),
                "RestrictPublicBuckets": False,
            },
        ),
        drift=("restrictPublicBuckets",),
    ),
    "aws:s3/bucketOwnershipControls:BucketOwnershipControls": Sample(
        inputs=lambda g: {"bucket": bucket(g), "rule": {"objectOwnership": "BucketOwnerEnforced"}},
        update={"rule": {"objectOwnership": "BucketOwnerPreferred"}},
        replace={"bucket": "another-bucket"},
        behind=lambda g, i, _: g.client("s3").put_bucket_ownership_controls(
            Bucket=i, OwnershipControls={"Rules": [{"ObjectOwnership": "ObjectWriter"}]}
        ),
        drift=("rule",),
    ),
    "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration": Sample(
        inputs=lambda g: {"bucket": bucket(g), "rules": _encrypted("AES256")},
        update={"rules": _encrypted("aws:kms")},
        replace={"bucket": "another-bucket"},
        # S3 encrypts by itself what nobody said anything of
        behind=lambda g, i, _: g.client("s3").delete_bucket_encryption(Bucket=i),
        drift=("rules",),
        stays=True,
    ),
    "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration": Sample(
        inputs=lambda g: {"bucket": bucket(g), "rules": [_rule(30)]},
        update={"rules": [_rule(60), {**_rule(1), "id": "new", "filter": {"prefix": "results/"}}]},
        replace={"bucket": "another-bucket"},
        behind=lambda g, i, _: g.client("s3").put_bucket_lifecycle_configuration(
            Bucket=i,
            LifecycleConfiguration={
                "Rules": [{"ID": "all", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 1}}]
            },
        ),
        drift=("rules",),
    ),
    "aws:s3/bucketPolicy:BucketPolicy": Sample(
        inputs=_with_policy,
        update_more=lambda _, inputs: {"policy": policy(inputs["bucket"], "s3:*")},
        replace={"bucket": "another-bucket"},
        behind=lambda g, i, _: g.client("s3").put_bucket_policy(Bucket=i, Policy=policy(i, "s3:GetObject")),
        drift=("policy",),
    ),
}
