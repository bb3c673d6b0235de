"""Registers the resources that its configuration names: only their types, inputs and ties matter to a policy."""

import asyncio
from typing import Any

import pulumi

UNKNOWN = "<unknown>"


def not_known_yet() -> pulumi.Output[Any]:
    """What every id is at a first preview."""
    value: asyncio.Future[Any] = asyncio.get_event_loop().create_future()
    value.set_result(None)
    known: asyncio.Future[bool] = asyncio.get_event_loop().create_future()
    known.set_result(False)
    return pulumi.Output(set(), value, known)


def read(value: Any) -> Any:
    """The value as a program would have it."""
    if value == UNKNOWN:
        return not_known_yet()
    if isinstance(value, dict):
        return {key: read(below) for key, below in value.items()}
    return [read(below) for below in value] if isinstance(value, list) else value


made: dict[str, pulumi.ComponentResource] = {}
for row in pulumi.Config().require_object("resources"):
    options = pulumi.ResourceOptions(parent=made.get(row.get("parent")))
    made[row["name"]] = pulumi.ComponentResource(row["type"], row["name"], read(row.get("inputs") or {}), options)
for row in pulumi.Config().require_object("resources"):
    made[row["name"]].register_outputs(row.get("outputs") or {})
