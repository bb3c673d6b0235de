"""Register the resources in the configuration; policies see only their types, inputs and relations."""

import asyncio
from typing import Any

import pulumi

UNKNOWN = "<unknown>"


def unknown_output() -> pulumi.Output[Any]:
    """Return an unknown output, as every id is at a first preview."""
    value: asyncio.Future[Any] = asyncio.get_event_loop().create_future()
    value.set_result(None)
    known: asyncio.Future[bool] = asyncio.get_event_loop().create_future()
    known.set_result(False)
    return pulumi.Output(set(), value, known)


def read(value: Any) -> Any:
    """Return a value with its unknown parts as outputs."""
    if value == UNKNOWN:
        return unknown_output()
    if isinstance(value, dict):
        return {key: read(below) for key, below in value.items()}
    return [read(below) for below in value] if isinstance(value, list) else value


resources: dict[str, pulumi.ComponentResource] = {}
for row in pulumi.Config().require_object("resources"):
    options = pulumi.ResourceOptions(parent=resources.get(row.get("parent")))
    resources[row["name"]] = pulumi.ComponentResource(row["type"], row["name"], read(row.get("inputs") or {}), options)
for row in pulumi.Config().require_object("resources"):
    resources[row["name"]].register_outputs(row.get("outputs") or {})
