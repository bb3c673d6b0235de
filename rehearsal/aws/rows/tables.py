"""DynamoDB: tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from rehearsal.aws.calls import CloudError
from rehearsal.aws.kinds import IS_ARN, among, between
from rehearsal.aws.row import Call, Do, Look, Make, Name, Problem, Row, Tags, Until

if TYPE_CHECKING:
    from rehearsal.aws.situation import Situation

TABLE_NAME: Final = {"TableName": "$id"}
GONE: Final = ("ResourceNotFoundException",)
ON_DEMAND: Final = "PAY_PER_REQUEST"
NO_COPIES: Final = "global tables are not simulated"
NO_RESTORE: Final = "restoring and importing tables is not simulated"


def _arn(s: Situation) -> str:
    return s.form("arn:{partition}:dynamodb:{region}:{account}:table/{id}", {})


def _keys(block: Mapping[str, Any]) -> list[dict[str, str]]:
    """Hash key first, as DynamoDB wants it; an index may have them as a list of several."""
    if block.get("keySchemas"):
        return [{"AttributeName": k["attributeName"], "KeyType": k["keyType"]} for k in block["keySchemas"]]
    pairs = (("hashKey", "HASH"), ("rangeKey", "RANGE"))
    return [{"AttributeName": block[name], "KeyType": kind} for name, kind in pairs if block.get(name)]


def _attributes(s: Situation) -> list[dict[str, str]]:
    return [{"AttributeName": a["name"], "AttributeType": a["type"]} for a in s.inputs.get("attributes") or []]


def _provisioned(block: Mapping[str, Any]) -> dict[str, int]:
    return {
        "ReadCapacityUnits": block.get("readCapacity") or 1,
        "WriteCapacityUnits": block.get("writeCapacity") or 1,
    }


def _projection(block: Mapping[str, Any]) -> dict[str, Any]:
    rest = {"NonKeyAttributes": list(block["nonKeyAttributes"])} if block.get("nonKeyAttributes") else {}
    return {"ProjectionType": block["projectionType"], **rest}


def _on_demand(s: Situation) -> bool:
    return s.inputs.get("billingMode") == ON_DEMAND


def _index(s: Situation, block: Mapping[str, Any]) -> dict[str, Any]:
    out = {"IndexName": block["name"], "KeySchema": _keys(block), "Projection": _projection(block)}
    return out if _on_demand(s) else {**out, "ProvisionedThroughput": _provisioned(block)}


def _encryption(s: Situation) -> dict[str, Any]:
    block = s.inputs.get("serverSideEncryption") or {"enabled": False}
    if not block.get("enabled"):
        return {"Enabled": False}
    return {"Enabled": True, "SSEType": "KMS"} | (
        {"KMSMasterKeyId": block["kmsKeyArn"]} if block.get("kmsKeyArn") else {}
    )


def _stream(s: Situation) -> dict[str, Any]:
    on = bool(s.inputs.get("streamEnabled"))
    return {"StreamEnabled": on, **({"StreamViewType": s.inputs["streamViewType"]} if on else {})}


def _limits(s: Situation) -> dict[str, int]:
    block = s.inputs.get("onDemandThroughput") or {}
    names = {"maxReadRequestUnits": "MaxReadRequestUnits", "maxWriteRequestUnits": "MaxWriteRequestUnits"}
    return {member: block.get(name) or -1 for name, member in names.items()}


def _make(s: Situation) -> Mapping[str, Any]:
    asked: dict[str, Any] = {
        "TableName": s.inputs["name"],
        "KeySchema": _keys({"hashKey": s.inputs.get("hashKey"), "rangeKey": s.inputs.get("rangeKey")}),
        "AttributeDefinitions": _attributes(s),
        "BillingMode": s.inputs.get("billingMode") or "PROVISIONED",
    }
    if not _on_demand(s):
        asked["ProvisionedThroughput"] = _provisioned(s.inputs)
    if s.inputs.get("globalSecondaryIndexes"):
        asked["GlobalSecondaryIndexes"] = [_index(s, block) for block in s.inputs["globalSecondaryIndexes"]]
    if s.inputs.get("localSecondaryIndexes"):
        asked["LocalSecondaryIndexes"] = [
            {
                "IndexName": block["name"],
                "KeySchema": _keys({"hashKey": s.inputs.get("hashKey"), "rangeKey": block["rangeKey"]}),
                "Projection": _projection(block),
            }
            for block in s.inputs["localSecondaryIndexes"]
        ]
    if s.inputs.get("streamEnabled"):
        asked["StreamSpecification"] = _stream(s)
    if (s.inputs.get("serverSideEncryption") or {}).get("enabled"):
        asked["SSESpecification"] = _encryption(s)
    if s.inputs.get("onDemandThroughput"):
        asked["OnDemandThroughput"] = _limits(s)
    for name, member in (("tableClass", "TableClass"), ("deletionProtectionEnabled", "DeletionProtectionEnabled")):
        if s.inputs.get(name) is not None:
            asked[member] = s.inputs[name]
    if s.inputs.get("tags"):
        asked["Tags"] = [{"Key": key, "Value": value} for key, value in sorted(s.inputs["tags"].items())]
    return s.call("CreateTable", **asked)


def _ready(s: Situation) -> None:
    """DynamoDB takes one change at a time."""
    for _ in s.tries():
        if s.call("DescribeTable", TableName=s.id)["Table"]["TableStatus"] == "ACTIVE":
            return
    raise CloudError("dynamodb", "wait", "NotReady", f"{s.id} did not become active")


def _capacity(s: Situation) -> None:
    if s.creating:
        return
    more: dict[str, Any] = {} if _on_demand(s) else {"ProvisionedThroughput": _provisioned(s.inputs)}
    s.call("UpdateTable", TableName=s.id, BillingMode=s.inputs.get("billingMode") or "PROVISIONED", **more)


def _modify(s: Situation) -> None:
    """The rest of what UpdateTable can change, a call each."""
    if s.creating:
        return
    parts: list[tuple[set[str], dict[str, Any]]] = [
        ({"deletionProtectionEnabled"}, {"DeletionProtectionEnabled": bool(s.inputs.get("deletionProtectionEnabled"))}),
        ({"tableClass"}, {"TableClass": s.inputs.get("tableClass") or "STANDARD"}),
        ({"streamEnabled", "streamViewType"}, {"StreamSpecification": _stream(s)}),
        ({"serverSideEncryption"}, {"SSESpecification": _encryption(s)}),
        ({"onDemandThroughput"}, {"OnDemandThroughput": _limits(s)}),
    ]
    for names, asked in parts:
        if names & s.changed:
            s.call("UpdateTable", TableName=s.id, **asked)
            _ready(s)


def _indexes(s: Situation) -> None:
    """Indexes come and go one by one; one that is different goes first."""
    if s.creating:
        return
    there = {i["name"]: i for i in s.state.get("globalSecondaryIndexes") or []}
    wanted = {i["name"]: i for i in s.inputs.get("globalSecondaryIndexes") or []}
    same = {n for n in there.keys() & wanted.keys() if _form(there[n]) == _form(wanted[n])}
    steps: list[dict[str, Any]] = [{"Delete": {"IndexName": name}} for name in sorted(there.keys() - same)]
    steps += [{"Create": _index(s, wanted[name])} for name in sorted(wanted.keys() - same)]
    if not _on_demand(s):
        steps += [
            {"Update": {"IndexName": name, "ProvisionedThroughput": _provisioned(wanted[name])}}
            for name in sorted(same)
            if _provisioned(wanted[name]) != _provisioned(there[name])
        ]
    for one in steps:
        change: dict[str, Any] = {"GlobalSecondaryIndexUpdates": [one]}
        s.call("UpdateTable", TableName=s.id, AttributeDefinitions=_attributes(s), **change)
        _ready(s)


def _form(index: Mapping[str, Any]) -> tuple[Any, ...]:
    """What of an index cannot be changed."""
    return _keys(index), index.get("projectionType"), sorted(index.get("nonKeyAttributes") or [])


def _expire(s: Situation) -> None:
    """The attribute has to be named to switch it off as well."""
    block, was = s.inputs.get("ttl") or {}, s.state.get("ttl") or {}
    name, on = block.get("attributeName") or was.get("attributeName"), bool(block.get("enabled"))
    if name and on != bool(was.get("enabled")):
        spec = {"AttributeName": name, "Enabled": on}
        s.call("UpdateTimeToLive", TableName=s.id, TimeToLiveSpecification=spec)


def _recover(s: Situation) -> None:
    block = s.inputs.get("pointInTimeRecovery") or {}
    spec: dict[str, Any] = {"PointInTimeRecoveryEnabled": bool(block.get("enabled"))}
    if block.get("enabled") and block.get("recoveryPeriodInDays"):
        spec["RecoveryPeriodInDays"] = block["recoveryPeriodInDays"]
    s.call("UpdateContinuousBackups", TableName=s.id, PointInTimeRecoverySpecification=spec)


def _key(kind: str) -> Any:
    def show(_: Situation, document: Mapping[str, Any]) -> Any:
        return next((k["AttributeName"] for k in document["KeySchema"] if k["KeyType"] == kind), None)

    return show


def _index_shown(index: Mapping[str, Any]) -> dict[str, Any]:
    keys = {k["KeyType"]: k["AttributeName"] for k in index["KeySchema"]}
    capacity = index.get("ProvisionedThroughput") or {}
    return {
        "Name": index["IndexName"],
        "HashKey": keys.get("HASH"),
        "RangeKey": keys.get("RANGE"),
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
    used = [k["AttributeName"] for b in blocks if isinstance(b, dict) for k in _keys(b)]
    if not all(isinstance(one, str) for one in used):
        return []
    lacking, idle = sorted(set(used) - named), sorted(named - set(used))
    return [("attributes", f"has no {name!r}, which is a key") for name in lacking] + [
        ("attributes", f"has {name!r}, which is no key: DynamoDB defines keys only") for name in idle
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
        _make,
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
        Do(_capacity, ("billingMode", "readCapacity", "writeCapacity")),
        Do(
            _modify,
            (
                *("deletionProtectionEnabled", "onDemandThroughput", "serverSideEncryption", "streamEnabled"),
                *("streamViewType", "tableClass"),
            ),
        ),
        Do(_indexes, ("globalSecondaryIndexes", "attributes")),
        Do(_expire, ("ttl",)),
        Do(_recover, ("pointInTimeRecovery",)),
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
    rules=(_keys_are_attributes, _plain_indexes),
    moves=frozenset({"streamArn", "streamLabel"}),
)


ROWS: Final = (TABLE,)
