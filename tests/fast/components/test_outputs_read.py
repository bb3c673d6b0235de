"""The outputs that the components read exist on AWS, and not only in the rehearsal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentenv.rehearsal.providers.aws.functions import FILTERS_ONLY
from tests.fast.components.graph import Graph
from tests.fast.components.reads import Read, everything, named_in_the_components, snake


@pytest.fixture(scope="module")
def reads() -> frozenset[Read]:
    return everything()[0]


@pytest.fixture(scope="module")
def graphs() -> tuple[Graph, ...]:
    return everything()[1]


def declared(read: Read, graphs: tuple[Graph, ...]) -> bool:
    """Return whether the program sets that output as an input of every such resource."""
    resources = [resource.inputs for graph in graphs for resource in graph.resources if resource.type == read.token]
    return bool(resources) and all(read.output in inputs for inputs in resources)


def test_every_type_and_function_of_the_source_is_looked_at(graphs: tuple[Graph, ...]) -> None:
    types, functions = named_in_the_components()
    assert types <= {resource.type for graph in graphs for resource in graph.resources}
    tokens = {token.removeprefix("aws:").partition("/") for graph in graphs for token, _ in graph.invokes}
    ran = {(package, snake(rest.rpartition(":")[2])) for package, _, rest in tokens}
    assert {
        (function.split(".")[1] if function.count(".") > 2 else "index", function.rpartition(".")[2])
        for function in functions
    } == ran


def test_nothing_is_read_that_may_be_null(reads: frozenset[Read], graphs: tuple[Graph, ...]) -> None:
    assert len(reads) > 60
    assert [read for read in reads if read.optional and not declared(read, graphs)] == []


def test_nothing_is_read_that_a_function_only_filters_by(reads: frozenset[Read]) -> None:
    """The SDK and the schema call such an output required; the official plugin leaves it out."""
    assert [read for read in reads if read.output in FILTERS_ONLY.get(read.token, ())] == []


def test_the_official_schema_has_all_that_is_read(
    reads: frozenset[Read], graphs: tuple[Graph, ...], facts: Path
) -> None:
    aws = json.loads((facts / "aws-schema.json").read_text(encoding="utf-8"))
    eks = json.loads((facts / "eks-schema.json").read_text(encoding="utf-8"))["resources"]

    def there(read: Read) -> bool:
        shape: Any
        if shape := aws["resources"].get(read.token):
            always = read.output in shape["outputs_always"]
            return read.output in shape["outputs"] and (always or declared(read, graphs))
        if shape := aws["functions"].get(read.token):
            return read.output in shape["outputs"]
        if shape := eks.get(read.token):
            return read.output in shape["required"]
        # A function that the extract leaves out: the SDK alone knows it.
        if read.token == "aws:resourcegroupstaggingapi/getResources:getResources":
            return True
        named = f":{read.token[0].lower()}{read.token[1:]}"
        nested = [kind for name, kind in aws["types"].items() if name.endswith(named)]
        return bool(nested) and all(read.output in kind["properties"] for kind in nested)

    assert [read for read in reads if not there(read)] == []
