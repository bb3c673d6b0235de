"""The schema that other languages see."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pulumi.provider.experimental.component import ComponentProvider

from agentenv.components._lib.planned_documents import OUTPUT
from agentenv.components.package import EXPORTED_COMPONENTS
from tests.fast.components.existing import EXISTING, existing_resources
from tests.fast.components.graph import Graph, registered
from tests.fast.components.test_environment import environment


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return json.loads(ComponentProvider(EXPORTED_COMPONENTS, "agent-environment").schema or "")


def properties(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for token, resource in schema["resources"].items():
        for group in ("inputProperties", "properties"):
            yield from ((f"{token}.{name}", property_) for name, property_ in resource[group].items())
    for token, type_ in schema["types"].items():
        yield from ((f"{token}.{name}", property_) for name, property_ in type_["properties"].items())


@pytest.fixture(scope="module")
def graphs() -> tuple[Graph, ...]:
    """Graphs that have every component."""
    adopting = registered(lambda: environment(**EXISTING), existing=existing_resources())
    certificate = "arn:aws:acm:eu-west-1:123456789012:certificate/c"
    service = {"image": f"registry.example.com/service@sha256:{'ab' * 32}", "domain": "os.example.com"}
    service["certificate"] = certificate
    metered = registered(lambda: environment(service=service, cost={"monthlyBudget": 1, "alertTo": "a@example.com"}))
    return metered, adopting


def test_the_components_have_the_types_that_they_register(schema: dict[str, Any], graphs: tuple[Graph, ...]) -> None:
    every = [resource for graph in graphs for resource in graph.resources]
    registered_types = {resource.type for resource in every if resource.type.startswith("agent-environment:")}
    assert set(schema["resources"]) == registered_types
    assert all(schema["resources"][token]["isComponent"] for token in registered_types)


def test_everything_is_described(schema: dict[str, Any]) -> None:
    assert not [path for path, property_ in properties(schema) if not property_.get("description", "").strip()]
    assert all(part.get("description") for part in [*schema["resources"].values(), *schema["types"].values()])


def test_what_shapes_the_graph_is_plain_and_the_rest_may_be_an_output(schema: dict[str, Any]) -> None:
    plain = {path.partition("index:")[2] for path, property_ in properties(schema) if property_.get("plain")}
    assert {"Network.environment", "Network.settings", "Cluster.subnetIds"} < plain
    assert not {"Storage.vpcId", "Storage.clientRoleArns", "Cluster.logsKeyArn"} & plain


def test_outputs_are_registered_under_the_schemas_names(schema: dict[str, Any], graphs: tuple[Graph, ...]) -> None:
    for urn, outputs in (row for graph in graphs for row in graph.outputs.items()):
        component = schema["resources"].get(urn.split("::")[2].rpartition("$")[2])
        assert component is None or set(outputs) - {OUTPUT} <= set(component["properties"]), urn
