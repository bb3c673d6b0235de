"""Samples of log groups."""

from tests.fast.rehearsal.aws.samples.sample import MORE_TAGS, TAGS, Sample

SAMPLES = {
    "aws:cloudwatch/logGroup:LogGroup": Sample(
        inputs=lambda _: {"retentionInDays": 14, "tags": TAGS},
        update={"retentionInDays": 30, "tags": MORE_TAGS},
        replace={"logGroupClass": "INFREQUENT_ACCESS"},
        behind=lambda g, i, _: g.client("logs").put_retention_policy(logGroupName=i, retentionInDays=1),
        drift=("retentionInDays",),
    ),
}
