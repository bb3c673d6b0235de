"""A KMS key with its alias."""

from __future__ import annotations

import pulumi
from pulumi_aws import kms

from agentenv.components._lib import iam_policies
from agentenv.components._lib.iam_policies import Document
from agentenv.components._lib.options import ChildOptions
from agentenv.components._lib.tags import Labels

# The longest and the shortest deletion window of KMS
LONGEST, SHORTEST = 30, 7


def create_key(
    suffix: str,
    description: str,
    policy: pulumi.Output[Document],
    labels: Labels,
    child: ChildOptions,
    *,
    options: pulumi.ResourceOptions | None = None,
    deletion_window: int = SHORTEST,
) -> kms.Key:
    """Create a key that rotates; `description` is what it encrypts."""
    name = f"{labels.base}-{suffix}"
    key = kms.Key(
        name,
        description=f"{description} of environment {labels.environment}",
        enable_key_rotation=True,
        deletion_window_in_days=deletion_window,
        policy=iam_policies.policy_json(policy),
        tags=labels.tags(suffix),
        opts=child(options),
    )
    alias = labels.name("kms-alias", suffix, prefix="alias/")
    kms.Alias(name, name=alias, target_key_id=key.key_id, opts=child())
    return key
