"""Samples of DynamoDB."""

from tests.fast.rehearsal.providers.aws.samples.sample import MORE_TAGS, TAGS, Sample

BY_DAY = {
    "name": "by-day",
    "keySchemas": [{"attributeName": "day", "keyType": "HASH"}, {"attributeName": "at", "keyType": "RANGE"}],
    "projectionType": "ALL",
}
SAMPLES = {
    "aws:dynamodb/table:Table": Sample(
        inputs=lambda _: {
            "attributes": [{"name": "workspace", "type": "S"}, {"name": "at", "type": "N"}],
            "hashKey": "workspace",
            "rangeKey": "at",
            "billingMode": "PAY_PER_REQUEST",
            "pointInTimeRecovery": {"enabled": True},
            "ttl": {"attributeName": "until", "enabled": True},
            "tags": TAGS,
        },
        update={
            "attributes": [
                {"name": "workspace", "type": "S"},
                {"name": "at", "type": "N"},
                {"name": "day", "type": "S"},
            ],
            "globalSecondaryIndexes": [BY_DAY],
            "pointInTimeRecovery": {"enabled": False},
            "tags": MORE_TAGS,
        },
        replace={"localSecondaryIndexes": [{"name": "own", "rangeKey": "day", "projectionType": "KEYS_ONLY"}]},
        behind=lambda g, i, _: g.client("dynamodb").update_time_to_live(
            TableName=i, TimeToLiveSpecification={"AttributeName": "until", "Enabled": False}
        ),
        drift=("ttl",),
    ),
}
