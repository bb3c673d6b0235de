"""DynamoDB: tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws.row import Call, Do, Look, Make, Name, Problem, Row, Tags, Until
from agentenv.rehearsal.providers.aws.rows.dynamodb_steps import (
    ON_DEMAND,
    capacity,
    expire,
    indexes,
    keys,
    make,
    modify,
    recover,
)
from agentenv.rehearsal.providers.aws.value_kinds import IS_ARN, among, between

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Situation

TABLE_NAME: Final = {"TableName": "$id"}
GONE: Final = ("ResourceNotFoundException",)
NO_COPIES: Final = "global tables are not simulated"
NO_RESTORE: Final = "restoring and importing tables is not simulated"


def _arn(s: Situation) -> str:
    return s.form("arn:{partition}:dynamodb:{region}:{account}:table/{id}", {})


def _key(kind: str) -> Any:
    def show(_: Situation, document: Mapping[str, Any]) -> Any:
        return next((k["AttributeName"] for k in document["KeySchema"] if k["KeyType"] == kind), None)

    return show


def _index_shown(index: Mapping[str, Any]) -> dict[str, Any]:
    parts = {k["KeyType"]: k["AttributeName"] for k in index["KeySchema"]}
    capacity = index.get("ProvisionedThroughput") or {}
    return {
        "Name": index["IndexName"],
        "HashKey": parts.get("HASH"),
        "RangeKey": parts.get("RANGE"),
        "KeySchemas": index["KeySchema"],
        "ProjectionType": index["Projection"]["ProjectionType"],
        "NonKeyAttributes": index["Projection"].get("NonKeyAttributes"),
        "ReadCapacity": capacity.get("ReadCapacityUnits"),
        "WriteCapacity": capacity.get("WriteCapacityUnits"),
    }


def _encrypted(_: Situation, document: Mapping[str, Any]) -> dict[str, Any] | None:
    said = document.get("SSEDescription") or {}
    return {"Enabled": True, "KmsKeyArn": said.get("KMSMasterKeyArn")} if said.get("Status") == "ENABLED" else None


def _recovers(_: Situation, document: Mapping[str, Any]) -> dict[str, Any]:
    said = document.get("PointInTimeRecoveryDescription") or {}
    on = said.get("PointInTimeRecoveryStatus") == "ENABLED"
    return {"Enabled": on, "RecoveryPeriodInDays": said.get("RecoveryPeriodInDays") if on else None}


def _expires(_: Situation, document: Mapping[str, Any]) -> dict[str, Any]:
    said = document.get("TimeToLiveDescription") or {}
    on = said.get("TimeToLiveStatus") in {"ENABLED", "ENABLING"}
    return {"Enabled": on, "AttributeName": said.get("AttributeName") if on else None}


def _keys_are_attributes(inputs: Mapping[str, Any]) -> list[Problem]:
    """Each attribute that is defined is a key, and each key is defined: DynamoDB wants it so."""
    attributes = inputs.get("attributes")
    if not isinstance(attributes, list) or not all(
        isinstance(a, dict) and isinstance(a.get("name"), str) for a in attributes
    ):
        return []
    named = {a["name"] for a in attributes}
    blocks = [inputs, *(inputs.get("globalSecondaryIndexes") or []), *(inputs.get("localSecondaryIndexes") or [])]
    used = [k["AttributeName"] for b in blocks if isinstance(b, dict) for k in keys(b)]
    if not all(isinstance(one, str) for one in used):
        return []
    lacking, idle = sorted(set(used) - named), sorted(named - set(used))
    return [("attributes", f"has no {name!r}, which is a key") for name in lacking] + [
        ("attributes", f"has {name!r}, which is no key: DynamoDB defines keys only") for name in idle
    ]


def _by_schemas(index: Mapping[str, Any]) -> dict[str, Any]:
    """The index with its keys in the one spelling that is not deprecated."""
    named = [{"attributeName": key["AttributeName"], "keyType": key["KeyType"]} for key in keys(index)]
    return {**{k: v for k, v in index.items() if k not in {"hashKey", "rangeKey"}}, "keySchemas": named}


def _one_spelling(inputs: Mapping[str, Any]) -> list[Problem]:
    blocks = inputs.get("globalSecondaryIndexes")
    return [
        (f"globalSecondaryIndexes[{number}].{name}", "says what keySchemas says: give one of the two")
        for number, block in enumerate(blocks if isinstance(blocks, list) else [])
        for name in ("hashKey", "rangeKey")
        if isinstance(block, dict) and block.get("keySchemas") and block.get(name)
    ]


def _plain_indexes(inputs: Mapping[str, Any]) -> list[Problem]:
    blocks = inputs.get("globalSecondaryIndexes")
    return [
        (f"globalSecondaryIndexes[{number}].{name}", "the stand-in provider cannot carry this out for an index")
        for number, block in enumerate(blocks if isinstance(blocks, list) else [])
        for name in ("onDemandThroughput", "warmThroughput")
        if isinstance(block, dict) and block.get(name)
    ]


TABLE = Row(
    type="aws:dynamodb/table:Table",
    service="dynamodb",
    create=Make(
        make,
        (
            *("attributes", "billingMode", "deletionProtectionEnabled", "globalSecondaryIndexes", "hashKey"),
            *("localSecondaryIndexes", "name", "onDemandThroughput", "rangeKey", "readCapacity"),
            *("serverSideEncryption", "streamEnabled", "streamViewType", "tableClass", "writeCapacity"),
        ),
    ),
    id="TableDescription.TableName",
    find=Look("DescribeTable", TABLE_NAME, "Table", gone=GONE),
    also=(
        Look("DescribeTimeToLive", TABLE_NAME),
        Look("DescribeContinuousBackups", TABLE_NAME, "ContinuousBackupsDescription"),
        Look("ListTagsOfResource", {"ResourceArn": _arn}, puts={"Tags": "Tags"}),
    ),
    sets=(
        Do(capacity, ("billingMode", "readCapacity", "writeCapacity")),
        Do(
            modify,
            (
                *("deletionProtectionEnabled", "onDemandThroughput", "serverSideEncryption", "streamEnabled"),
                *("streamViewType", "tableClass"),
            ),
        ),
        Do(indexes, ("globalSecondaryIndexes", "attributes")),
        Do(expire, ("ttl",)),
        Do(recover, ("pointInTimeRecovery",)),
    ),
    delete=(Call("DeleteTable", given=TABLE_NAME),),
    shows={
        "arn": "TableArn",
        "name": "TableName",
        "attributes": "AttributeDefinitions[].{Name: AttributeName, Type: AttributeType}",
        "billingMode": lambda _, d: (d.get("BillingModeSummary") or {}).get("BillingMode") or "PROVISIONED",
        "hashKey": _key("HASH"),
        "rangeKey": _key("RANGE"),
        "readCapacity": "ProvisionedThroughput.ReadCapacityUnits",
        "writeCapacity": "ProvisionedThroughput.WriteCapacityUnits",
        "globalSecondaryIndexes": lambda _, d: [_index_shown(i) for i in d.get("GlobalSecondaryIndexes") or []],
        "localSecondaryIndexes": lambda _, d: [_index_shown(i) for i in d.get("LocalSecondaryIndexes") or []],
        "pointInTimeRecovery": _recovers,
        "serverSideEncryption": _encrypted,
        "streamArn": "LatestStreamArn",
        "streamLabel": "LatestStreamLabel",
        "streamEnabled": "StreamSpecification.StreamEnabled",
        "streamViewType": "StreamSpecification.StreamViewType",
        "tableClass": "TableClassSummary.TableClass",
        "ttl": _expires,
    },
    name=Name(longest=255, prefix_input=""),
    tags=Tags("", "", "TagResource", "UntagResource", {"ResourceArn": _arn}),
    ready=Until("TableStatus", ("ACTIVE",)),
    ends=True,
    busy=("ResourceInUseException",),
    kinds={
        "attributes.type": among("B", "N", "S"),
        "globalSecondaryIndexes.keySchemas.keyType": among("HASH", "RANGE"),
        "billingMode": among(ON_DEMAND, "PROVISIONED"),
        "pointInTimeRecovery.recoveryPeriodInDays": between(1, 35),
        "serverSideEncryption.kmsKeyArn": IS_ARN,
        "streamViewType": among("NEW_IMAGE", "OLD_IMAGE", "NEW_AND_OLD_IMAGES", "KEYS_ONLY"),
        "tableClass": among("STANDARD", "STANDARD_INFREQUENT_ACCESS"),
    },
    defaults={"billingMode": "PROVISIONED"},
    refused={
        "globalTableWitness": NO_COPIES,
        "importTable": NO_RESTORE,
        "replicas": NO_COPIES,
        "restoreBackupArn": NO_RESTORE,
        "restoreDateTime": NO_RESTORE,
        "restoreSourceName": NO_RESTORE,
        "restoreSourceTableArn": NO_RESTORE,
        "restoreToLatestTime": NO_RESTORE,
        "warmThroughput": "warm throughput is not simulated",
    },
    rules=(_keys_are_attributes, _one_spelling, _plain_indexes),
    forms={"globalSecondaryIndexes": _by_schemas},
    fills=frozenset({"globalSecondaryIndexes.hashKey", "globalSecondaryIndexes.rangeKey"}),
    moves=frozenset({"streamArn", "streamLabel"}),
)


ROWS: Final = (TABLE,)
