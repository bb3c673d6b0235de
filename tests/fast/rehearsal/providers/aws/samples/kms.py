"""Samples of KMS."""

import json

from tests.fast.rehearsal.providers.aws.samples.sample import MORE_TAGS, TAGS, Sample

OURS = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"AWS": "arn:aws:iam::123456789012:root"},
                "Action": "kms:*",
                "Resource": "*",
            }
        ],
    }
)
SAMPLES = {
    "aws:kms/key:Key": Sample(
        inputs=lambda _: {
            "description": "for a test",
            "enableKeyRotation": True,
            "deletionWindowInDays": 7,
            "policy": OURS,
            "tags": TAGS,
        },
        update={"description": "changed", "rotationPeriodInDays": 180, "deletionWindowInDays": 10, "tags": MORE_TAGS},
        replace={"keyUsage": "SIGN_VERIFY"},
        behind=lambda g, i, _: g.client("kms").disable_key_rotation(KeyId=i),
        drift=("enableKeyRotation",),
        untold=("deletionWindowInDays",),
    ),
    "aws:kms/alias:Alias": Sample(
        inputs=lambda g: {"targetKeyId": g.key()},
        update_more=lambda g, _: {"targetKeyId": g.key()},
        replace={"name": "alias/other"},
        behind=lambda g, i, _: g.client("kms").update_alias(AliasName=i, TargetKeyId=g.key()),
        drift=("targetKeyId",),
    ),
}
