"""The calls that create and update a DynamoDB table, with members that no input maps to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws.api_calls import CloudError

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Operation

ON_DEMAND: Final = "PAY_PER_REQUEST"


def keys(block: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the key schema, hash key first. An index may list several keys."""
    if block.get("keySchemas"):
        return [{"AttributeName": k["attributeName"], "KeyType": k["keyType"]} for k in block["keySchemas"]]
    pairs = (("hashKey", "HASH"), ("rangeKey", "RANGE"))
    return [{"AttributeName": block[name], "KeyType": kind} for name, kind in pairs if block.get(name)]


def _attributes(op: Operation) -> list[dict[str, str]]:
    return [{"AttributeName": a["name"], "AttributeType": a["type"]} for a in op.inputs.get("attributes") or []]


def _provisioned(block: Mapping[str, Any]) -> dict[str, int]:
    return {
        "ReadCapacityUnits": block.get("readCapacity") or 1,
        "WriteCapacityUnits": block.get("writeCapacity") or 1,
    }


def _projection(block: Mapping[str, Any]) -> dict[str, Any]:
    rest = {"NonKeyAttributes": list(block["nonKeyAttributes"])} if block.get("nonKeyAttributes") else {}
    return {"ProjectionType": block["projectionType"], **rest}


def _on_demand(op: Operation) -> bool:
    return op.inputs.get("billingMode") == ON_DEMAND


def _index(op: Operation, block: Mapping[str, Any]) -> dict[str, Any]:
    out = {"IndexName": block["name"], "KeySchema": keys(block), "Projection": _projection(block)}
    return out if _on_demand(op) else {**out, "ProvisionedThroughput": _provisioned(block)}


def _encryption(op: Operation) -> dict[str, Any]:
    block = op.inputs.get("serverSideEncryption") or {"enabled": False}
    if not block.get("enabled"):
        return {"Enabled": False}
    return {"Enabled": True, "SSEType": "KMS"} | (
        {"KMSMasterKeyId": block["kmsKeyArn"]} if block.get("kmsKeyArn") else {}
    )


def _stream(op: Operation) -> dict[str, Any]:
    on = bool(op.inputs.get("streamEnabled"))
    return {"StreamEnabled": on, **({"StreamViewType": op.inputs["streamViewType"]} if on else {})}


def _throughput_limits(op: Operation) -> dict[str, int]:
    block = op.inputs.get("onDemandThroughput") or {}
    names = {"maxReadRequestUnits": "MaxReadRequestUnits", "maxWriteRequestUnits": "MaxWriteRequestUnits"}
    return {member: block.get(name) or -1 for name, member in names.items()}


def create_table(op: Operation) -> Mapping[str, Any]:
    parameters: dict[str, Any] = {
        "TableName": op.inputs["name"],
        "KeySchema": keys({"hashKey": op.inputs.get("hashKey"), "rangeKey": op.inputs.get("rangeKey")}),
        "AttributeDefinitions": _attributes(op),
        "BillingMode": op.inputs.get("billingMode") or "PROVISIONED",
    }
    if not _on_demand(op):
        parameters["ProvisionedThroughput"] = _provisioned(op.inputs)
    if op.inputs.get("globalSecondaryIndexes"):
        parameters["GlobalSecondaryIndexes"] = [_index(op, block) for block in op.inputs["globalSecondaryIndexes"]]
    if op.inputs.get("localSecondaryIndexes"):
        parameters["LocalSecondaryIndexes"] = [
            {
                "IndexName": block["name"],
                "KeySchema": keys({"hashKey": op.inputs.get("hashKey"), "rangeKey": block["rangeKey"]}),
                "Projection": _projection(block),
            }
            for block in op.inputs["localSecondaryIndexes"]
        ]
    if op.inputs.get("streamEnabled"):
        parameters["StreamSpecification"] = _stream(op)
    if (op.inputs.get("serverSideEncryption") or {}).get("enabled"):
        parameters["SSESpecification"] = _encryption(op)
    if op.inputs.get("onDemandThroughput"):
        parameters["OnDemandThroughput"] = _throughput_limits(op)
    for name, member in (("tableClass", "TableClass"), ("deletionProtectionEnabled", "DeletionProtectionEnabled")):
        if op.inputs.get(name) is not None:
            parameters[member] = op.inputs[name]
    if op.inputs.get("tags"):
        parameters["Tags"] = [{"Key": key, "Value": value} for key, value in sorted(op.inputs["tags"].items())]
    return op.call("CreateTable", **parameters)


def _wait_until_active(op: Operation) -> None:
    """Wait until the table is active: DynamoDB accepts one update at a time."""
    for _ in op.attempts():
        if op.call("DescribeTable", TableName=op.id)["Table"]["TableStatus"] == "ACTIVE":
            return
    raise CloudError("dynamodb", "wait", "NotReady", f"{op.id} did not become active")


def update_capacity(op: Operation) -> None:
    if op.creating:
        return
    more: dict[str, Any] = {} if _on_demand(op) else {"ProvisionedThroughput": _provisioned(op.inputs)}
    op.call("UpdateTable", TableName=op.id, BillingMode=op.inputs.get("billingMode") or "PROVISIONED", **more)


def update_table(op: Operation) -> None:
    """Update the other settings that UpdateTable has, one call each."""
    if op.creating:
        return
    parts: list[tuple[set[str], dict[str, Any]]] = [
        (
            {"deletionProtectionEnabled"},
            {"DeletionProtectionEnabled": bool(op.inputs.get("deletionProtectionEnabled"))},
        ),
        ({"tableClass"}, {"TableClass": op.inputs.get("tableClass") or "STANDARD"}),
        ({"streamEnabled", "streamViewType"}, {"StreamSpecification": _stream(op)}),
        ({"serverSideEncryption"}, {"SSESpecification": _encryption(op)}),
        ({"onDemandThroughput"}, {"OnDemandThroughput": _throughput_limits(op)}),
    ]
    for names, parameters in parts:
        if names & op.changed:
            op.call("UpdateTable", TableName=op.id, **parameters)
            _wait_until_active(op)


def update_indexes(op: Operation) -> None:
    """Create and delete indexes one by one. One that differs is deleted first."""
    if op.creating:
        return
    existing = {i["name"]: i for i in op.state.get("globalSecondaryIndexes") or []}
    expected = {i["name"]: i for i in op.inputs.get("globalSecondaryIndexes") or []}
    same = {n for n in existing.keys() & expected.keys() if _fixed_parts(existing[n]) == _fixed_parts(expected[n])}
    steps: list[dict[str, Any]] = [{"Delete": {"IndexName": name}} for name in sorted(existing.keys() - same)]
    steps += [{"Create": _index(op, expected[name])} for name in sorted(expected.keys() - same)]
    if not _on_demand(op):
        steps += [
            {"Update": {"IndexName": name, "ProvisionedThroughput": _provisioned(expected[name])}}
            for name in sorted(same)
            if _provisioned(expected[name]) != _provisioned(existing[name])
        ]
    for step in steps:
        change: dict[str, Any] = {"GlobalSecondaryIndexUpdates": [step]}
        op.call("UpdateTable", TableName=op.id, AttributeDefinitions=_attributes(op), **change)
        _wait_until_active(op)


def _fixed_parts(index: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the parts of an index that cannot be updated."""
    return keys(index), index.get("projectionType"), sorted(index.get("nonKeyAttributes") or [])


def update_ttl(op: Operation) -> None:
    """Enable or disable the time to live. Both need the name of the attribute."""
    block, was = op.inputs.get("ttl") or {}, op.state.get("ttl") or {}
    name, on = block.get("attributeName") or was.get("attributeName"), bool(block.get("enabled"))
    if name and on != bool(was.get("enabled")):
        spec = {"AttributeName": name, "Enabled": on}
        op.call("UpdateTimeToLive", TableName=op.id, TimeToLiveSpecification=spec)


def update_recovery(op: Operation) -> None:
    block = op.inputs.get("pointInTimeRecovery") or {}
    spec: dict[str, Any] = {"PointInTimeRecoveryEnabled": bool(block.get("enabled"))}
    if block.get("enabled") and block.get("recoveryPeriodInDays"):
        spec["RecoveryPeriodInDays"] = block["recoveryPeriodInDays"]
    op.call("UpdateContinuousBackups", TableName=op.id, PointInTimeRecoverySpecification=spec)
