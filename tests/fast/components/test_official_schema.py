"""The components' resources have no input that the official provider's schema refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fast.components.existing import existing_resources
from tests.fast.components.graph import Graph, RegisteredResource, registered
from tests.fast.components.shapes import network, storage
from tests.fast.components.test_adopted import cluster as adopted_cluster
from tests.fast.components.test_adopted import network as adopted_network
from tests.fast.components.test_adopted import storage as adopted_storage

SCHEMA = "aws-schema.json"


@pytest.fixture(scope="module")
def schema(facts: Path) -> dict[str, Any]:
    return json.loads((facts / SCHEMA).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def everything() -> Graph:
    """A graph with every resource that can be registered, each with every input that it may have."""

    def build() -> None:
        network(nat="per-zone", endpoints=("sts", "ecr.api"))
        storage("elastic", archiveAfter="90d")
        storage("provisioned", throughput="provisioned", provisionedMibps=10)
        adopted_network()
        adopted_cluster()
        adopted_storage()

    return registered(build, existing=existing_resources())


def unknown(value: object, type_: Any, schema: dict[str, Any], path: str) -> list[str]:
    """Return the paths of a value that a schema's type does not have."""
    if isinstance(type_, list):
        shape, *inner = type_
        if shape == "oneOf":
            return (
                []
                if any(not unknown(value, option, schema, path) for option in inner)
                else [f"{path} is none of {inner}"]
            )
        parts = enumerate(value) if isinstance(value, list) else value.items() if isinstance(value, dict) else None
        if parts is None or isinstance(value, list) != (shape == "array"):
            return [f"{path} is no {shape}"]
        return [bad for key, part in parts for bad in unknown(part, inner[0], schema, f"{path}.{key}")]
    if type_.startswith("@"):
        fields = schema["types"][type_[1:]].get("properties", {})
        if not isinstance(value, dict):
            return [f"{path} is no {type_}"]
        strange = [f"{path}.{key}" for key in value if key not in fields]
        known = [(key, part) for key, part in value.items() if key in fields]
        return strange + [
            bad for key, part in known for bad in unknown(part, fields[key]["type"], schema, f"{path}.{key}")
        ]
    kinds = {"string": str, "boolean": bool, "integer": float, "number": float}
    return [] if isinstance(value, kinds[type_]) else [f"{path} is no {type_}"]


def faults(resource: RegisteredResource, schema: dict[str, Any]) -> list[str]:
    """Return the mistakes that the official provider would find in a resource."""
    shape = schema["resources"].get(resource.type)
    if shape is None:
        return [f"{resource.type} is not known"]
    missing = [f"{resource.name}.{key} is missing" for key in shape["required"] if key not in resource.inputs]
    strange = [f"{resource.name}.{key} is not known" for key in resource.inputs if key not in shape["inputs"]]
    wrong = [
        bad
        for key, value in resource.inputs.items()
        if key in shape["inputs"]
        for bad in unknown(value, shape["inputs"][key]["type"], schema, f"{resource.name}.{key}")
    ]
    return [
        *missing,
        *strange,
        *wrong,
        *(f"{key} is not known" for key in resource.ignored if key not in shape["inputs"]),
    ]


def test_every_resource_is_one_that_the_official_provider_takes(schema: dict[str, Any], everything: Graph) -> None:
    assert len({resource.type for resource in everything.aws_resources()}) > 20
    assert not [fault for resource in everything.aws_resources() for fault in faults(resource, schema)]


def test_every_function_is_one_that_the_official_provider_has(schema: dict[str, Any], everything: Graph) -> None:
    invoked = {token for token, _ in everything.invokes}
    assert invoked
    assert invoked <= set(schema["functions"])


def test_what_may_have_to_move_later_is_not_something_that_replaces(schema: dict[str, Any]) -> None:
    """Growing, shrinking and other settings change inputs in place; only what names a thing's place replaces it."""
    small = registered(lambda: (network(endpoints=("sts",)), storage()))
    large = registered(
        lambda: (
            network(zones=3, nat="per-zone", endpoints=("sts", "logs"), flow_log_days=90),
            storage(fileSystems=2, throughput="bursting", infrequentAccessAfter="7d", backup=False),
        )
    )
    after = large.shape()
    changed = {
        (type_, name, key)
        for (type_, name), inputs in small.shape().items()
        for key, value in inputs.items()
        if after[type_, name].get(key) != value
    }
    assert changed
    assert not [
        change for change in changed if schema["resources"][change[0]]["inputs"][change[2]].get("willReplaceOnChanges")
    ]
