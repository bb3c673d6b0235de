"""DynamoDB: tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws.row import (
    AutoName,
    Call,
    CustomCreate,
    CustomStep,
    Problem,
    ReadCall,
    ResourceType,
    StateCheck,
    Tagging,
)
from agentenv.rehearsal.providers.aws.rows.dynamodb_steps import (
    ON_DEMAND,
    create_table,
    keys,
    update_capacity,
    update_indexes,
    update_recovery,
    update_table,
    update_ttl,
)
from agentenv.rehearsal.providers.aws.value_kinds import IS_ARN, between, one_of

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Operation

TABLE_NAME: Final = {"TableName": "$id"}
NOT_FOUND: Final = ("ResourceNotFoundException",)
NO_COPIES: Final = "global tables are not simulated"
NO_RESTORE: Final = "restoring and importing tables is not simulated"


def _arn(op: Operation) -> str:
    return op.format("arn:{partition}:dynamodb:{region}:{account}:table/{id}", {})


def _key(kind: str) -> Any:
    def show(_: Operation, document: Mapping[str, Any]) -> Any:
        return next((k["AttributeName"] for k in document["KeySchema"] if k["KeyType"] == kind), None)

    return show


def _index_output(index: Mapping[str, Any]) -> dict[str, Any]:
    parts = {k["KeyType"]: k["AttributeName"] for k in index["KeySchema"]}
    update_capacity = index.get("ProvisionedThroughput") or {}
    return {
        "Name": index["IndexName"],
        "HashKey": parts.get("HASH"),
        "RangeKey": parts.get("RANGE"),
        "KeySchemas": index["KeySchema"],
        "ProjectionType": index["Projection"]["ProjectionType"],
        "NonKeyAttributes": index["Projection"].get("NonKeyAttributes"),
        "ReadCapacity": update_capacity.get("ReadCapacityUnits"),
        "WriteCapacity": update_capacity.get("WriteCapacityUnits"),
    }


def _encryption_output(_: Operation, document: Mapping[str, Any]) -> dict[str, Any] | None:
    description = document.get("SSEDescription") or {}
    return (
        {"Enabled": True, "KmsKeyArn": description.get("KMSMasterKeyArn")}
        if description.get("Status") == "ENABLED"
        else None
    )


def _recovery_output(_: Operation, document: Mapping[str, Any]) -> dict[str, Any]:
    description = document.get("PointInTimeRecoveryDescription") or {}
    on = description.get("PointInTimeRecoveryStatus") == "ENABLED"
    return {"Enabled": on, "RecoveryPeriodInDays": description.get("RecoveryPeriodInDays") if on else None}


def _ttl_output(_: Operation, document: Mapping[str, Any]) -> dict[str, Any]:
    description = document.get("TimeToLiveDescription") or {}
    on = description.get("TimeToLiveStatus") in {"ENABLED", "ENABLING"}
    return {"Enabled": on, "AttributeName": description.get("AttributeName") if on else None}


def _keys_are_attributes(inputs: Mapping[str, Any]) -> list[Problem]:
    """Report attributes that are no key, and keys that are no attribute: DynamoDB refuses both."""
    attributes = inputs.get("attributes")
    if not isinstance(attributes, list) or not all(
        isinstance(a, dict) and isinstance(a.get("name"), str) for a in attributes
    ):
        return []
    named = {a["name"] for a in attributes}
    blocks = [inputs, *(inputs.get("globalSecondaryIndexes") or []), *(inputs.get("localSecondaryIndexes") or [])]
    used = [k["AttributeName"] for b in blocks if isinstance(b, dict) for k in keys(b)]
    if not all(isinstance(name, str) for name in used):
        return []
    lacking, idle = sorted(set(used) - named), sorted(named - set(used))
    return [("attributes", f"has no {name!r}, which is a key") for name in lacking] + [
        ("attributes", f"has {name!r}, which is no key: DynamoDB defines keys only") for name in idle
    ]


def _with_key_schemas(index: Mapping[str, Any]) -> dict[str, Any]:
    """Return the index with its keys in the form that is not deprecated."""
    named = [{"attributeName": key["AttributeName"], "keyType": key["KeyType"]} for key in keys(index)]
    return {**{k: v for k, v in index.items() if k not in {"hashKey", "rangeKey"}}, "keySchemas": named}


def _check_key_spelling(inputs: Mapping[str, Any]) -> list[Problem]:
    blocks = inputs.get("globalSecondaryIndexes")
    return [
        (f"globalSecondaryIndexes[{number}].{name}", "says what keySchemas says: give one of the two")
        for number, block in enumerate(blocks if isinstance(blocks, list) else [])
        for name in ("hashKey", "rangeKey")
        if isinstance(block, dict) and block.get("keySchemas") and block.get(name)
    ]


def _check_index_names(inputs: Mapping[str, Any]) -> list[Problem]:
    blocks = inputs.get("globalSecondaryIndexes")
    return [
        (f"globalSecondaryIndexes[{number}].{name}", "the stand-in provider does not support this for an index")
        for number, block in enumerate(blocks if isinstance(blocks, list) else [])
        for name in ("onDemandThroughput", "warmThroughput")
        if isinstance(block, dict) and block.get(name)
    ]


TABLE = ResourceType(
    type="aws:dynamodb/table:Table",
    service="dynamodb",
    create=CustomCreate(
        create_table,
        (
            *("attributes", "billingMode", "deletionProtectionEnabled", "globalSecondaryIndexes", "hashKey"),
            *("localSecondaryIndexes", "name", "onDemandThroughput", "rangeKey", "readCapacity"),
            *("serverSideEncryption", "streamEnabled", "streamViewType", "tableClass", "writeCapacity"),
        ),
    ),
    id="TableDescription.TableName",
    read=ReadCall("DescribeTable", TABLE_NAME, "Table", not_found_errors=NOT_FOUND),
    more_reads=(
        ReadCall("DescribeTimeToLive", TABLE_NAME),
        ReadCall("DescribeContinuousBackups", TABLE_NAME, "ContinuousBackupsDescription"),
        ReadCall("ListTagsOfResource", {"ResourceArn": _arn}, fields={"Tags": "Tags"}),
    ),
    updates=(
        CustomStep(update_capacity, ("billingMode", "readCapacity", "writeCapacity")),
        CustomStep(
            update_table,
            (
                *("deletionProtectionEnabled", "onDemandThroughput", "serverSideEncryption", "streamEnabled"),
                *("streamViewType", "tableClass"),
            ),
        ),
        CustomStep(update_indexes, ("globalSecondaryIndexes", "attributes")),
        CustomStep(update_ttl, ("ttl",)),
        CustomStep(update_recovery, ("pointInTimeRecovery",)),
    ),
    delete=(Call("DeleteTable", constants=TABLE_NAME),),
    output_sources={
        "arn": "TableArn",
        "name": "TableName",
        "attributes": "AttributeDefinitions[].{Name: AttributeName, Type: AttributeType}",
        "billingMode": lambda _, d: (d.get("BillingModeSummary") or {}).get("BillingMode") or "PROVISIONED",
        "hashKey": _key("HASH"),
        "rangeKey": _key("RANGE"),
        "readCapacity": "ProvisionedThroughput.ReadCapacityUnits",
        "writeCapacity": "ProvisionedThroughput.WriteCapacityUnits",
        "globalSecondaryIndexes": lambda _, d: [_index_output(i) for i in d.get("GlobalSecondaryIndexes") or []],
        "localSecondaryIndexes": lambda _, d: [_index_output(i) for i in d.get("LocalSecondaryIndexes") or []],
        "pointInTimeRecovery": _recovery_output,
        "serverSideEncryption": _encryption_output,
        "streamArn": "LatestStreamArn",
        "streamLabel": "LatestStreamLabel",
        "streamEnabled": "StreamSpecification.StreamEnabled",
        "streamViewType": "StreamSpecification.StreamViewType",
        "tableClass": "TableClassSummary.TableClass",
        "ttl": _ttl_output,
    },
    auto_name=AutoName(max_length=255, prefix_input=""),
    tags=Tagging("", "", "TagResource", "UntagResource", {"ResourceArn": _arn}),
    ready=StateCheck("TableStatus", ("ACTIVE",)),
    wait_until_deleted=True,
    retry_delete_on=("ResourceInUseException",),
    value_kinds={
        "attributes.type": one_of("B", "N", "S"),
        "globalSecondaryIndexes.keySchemas.keyType": one_of("HASH", "RANGE"),
        "billingMode": one_of(ON_DEMAND, "PROVISIONED"),
        "pointInTimeRecovery.recoveryPeriodInDays": between(1, 35),
        "serverSideEncryption.kmsKeyArn": IS_ARN,
        "streamViewType": one_of("NEW_IMAGE", "OLD_IMAGE", "NEW_AND_OLD_IMAGES", "KEYS_ONLY"),
        "tableClass": one_of("STANDARD", "STANDARD_INFREQUENT_ACCESS"),
    },
    defaults={"billingMode": "PROVISIONED"},
    unsupported={
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
    validators=(_keys_are_attributes, _check_key_spelling, _check_index_names),
    normalize={"globalSecondaryIndexes": _with_key_schemas},
    computed=frozenset({"globalSecondaryIndexes.hashKey", "globalSecondaryIndexes.rangeKey"}),
    updated_outputs=frozenset({"streamArn", "streamLabel"}),
)


ROWS: Final = (TABLE,)
