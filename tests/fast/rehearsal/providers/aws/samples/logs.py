"""Samples of log groups."""

from typing import Any

from tests.fast.rehearsal.providers.aws.samples.sample import MORE_TAGS, TAGS, Ground, Sample


def _by_hand(ground: Ground, name: str, _: dict[str, Any]) -> object:
    """Kept for a day only, and no longer encrypted."""
    logs = ground.client("logs")
    logs.put_retention_policy(logGroupName=name, retentionInDays=1)
    return logs.disassociate_kms_key(logGroupName=name)


SAMPLES = {
    "aws:cloudwatch/logGroup:LogGroup": Sample(
        inputs=lambda g: {"retentionInDays": 14, "kmsKeyId": g.key(), "tags": TAGS},
        update={"retentionInDays": 30, "tags": MORE_TAGS},
        update_more=lambda g, _: {"kmsKeyId": g.key()},
        replace={"logGroupClass": "INFREQUENT_ACCESS"},
        behind=_by_hand,
        drift=("kmsKeyId", "retentionInDays"),
    ),
}
