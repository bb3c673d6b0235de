"""What a DynamoDB table is made of, and what changes it: calls with the members that inputs do not name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws.api_calls import CloudError

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Situation

ON_DEMAND: Final = "PAY_PER_REQUEST"


def keys(block: Mapping[str, Any]) -> list[dict[str, str]]:
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
    out = {"IndexName": block["name"], "KeySchema": keys(block), "Projection": _projection(block)}
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


def make(s: Situation) -> Mapping[str, Any]:
    asked: dict[str, Any] = {
        "TableName": s.inputs["name"],
        "KeySchema": keys({"hashKey": s.inputs.get("hashKey"), "rangeKey": s.inputs.get("rangeKey")}),
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
                "KeySchema": keys({"hashKey": s.inputs.get("hashKey"), "rangeKey": block["rangeKey"]}),
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


def capacity(s: Situation) -> None:
    if s.creating:
        return
    more: dict[str, Any] = {} if _on_demand(s) else {"ProvisionedThroughput": _provisioned(s.inputs)}
    s.call("UpdateTable", TableName=s.id, BillingMode=s.inputs.get("billingMode") or "PROVISIONED", **more)


def modify(s: Situation) -> None:
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


def indexes(s: Situation) -> None:
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
    return keys(index), index.get("projectionType"), sorted(index.get("nonKeyAttributes") or [])


def expire(s: Situation) -> None:
    """The attribute has to be named to switch it off as well."""
    block, was = s.inputs.get("ttl") or {}, s.state.get("ttl") or {}
    name, on = block.get("attributeName") or was.get("attributeName"), bool(block.get("enabled"))
    if name and on != bool(was.get("enabled")):
        spec = {"AttributeName": name, "Enabled": on}
        s.call("UpdateTimeToLive", TableName=s.id, TimeToLiveSpecification=spec)


def recover(s: Situation) -> None:
    block = s.inputs.get("pointInTimeRecovery") or {}
    spec: dict[str, Any] = {"PointInTimeRecoveryEnabled": bool(block.get("enabled"))}
    if block.get("enabled") and block.get("recoveryPeriodInDays"):
        spec["RecoveryPeriodInDays"] = block["recoveryPeriodInDays"]
    s.call("UpdateContinuousBackups", TableName=s.id, PointInTimeRecoverySpecification=spec)
