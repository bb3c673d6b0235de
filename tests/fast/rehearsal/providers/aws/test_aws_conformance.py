"""The table against the official schema: nothing of it missing, nothing invented, no input that nobody uses."""

import importlib
import inspect
import json
import re
from pathlib import Path

import pytest

from agentenv.rehearsal.providers.aws import api_calls, coverage, functions, rows, shapes
from agentenv.rehearsal.providers.aws.row import Call, ReadCall, ResourceType, Template
from tests.fast.rehearsal.providers.aws.official import sdk_kind

OWN_FIELDS = {"id", "region", "account", "partition"}


def test_shapes_match_the_official_schema(facts: Path) -> None:
    assert shapes.HERE.read_text(encoding="utf-8") == shapes.render(facts)


def test_no_row_has_a_name_the_schema_lacks(facts: Path) -> None:
    schema = json.loads((facts / "aws-schema.json").read_text(encoding="utf-8"))
    assert set(rows.TABLE) - set(shapes.beside()) <= set(schema["resources"])
    assert set(functions.TABLE) - set(shapes.beside()) <= set(schema["functions"])
    assert not set(shapes.beside()) & (set(schema["functions"]) | set(schema["resources"]))


def test_functions_that_the_extract_leaves_out_are_those_of_the_sdk() -> None:
    (token,) = set(shapes.beside()) & set(functions.TABLE)
    assert token == "aws:resourcegroupstaggingapi/getResources:getResources"
    sdk = importlib.import_module("pulumi_aws.resourcegroupstaggingapi")
    shape = shapes.shape(token)
    arguments = set(inspect.signature(sdk.get_resources).parameters) - {"opts"}
    assert {_snake(name) for name in shape.inputs} == arguments
    results = {name for name, kind in vars(sdk.GetResourcesResult).items() if isinstance(kind, property)}
    assert {_snake(name) for name in shape.outputs} == results
    outputs_module = importlib.import_module("pulumi_aws.resourcegroupstaggingapi.outputs")
    mapping = outputs_module.GetResourcesResourceTagMappingListResult
    fields = {name for name, kind in vars(mapping).items() if isinstance(kind, property)}
    assert {_snake(name) for name in shape.outputs["resourceTagMappingLists"].type[1]} == fields


@pytest.mark.parametrize("token", sorted(set(shapes.beside()) & set(rows.TABLE)))
def test_resources_that_the_extract_leaves_out_are_those_of_the_sdk(token: str) -> None:
    shape, resource = shapes.shape(token), sdk_kind(token)
    outputs = {name for name, kind in vars(resource).items() if isinstance(kind, property)}
    assert {_snake(name) for name in shape.outputs} == outputs
    arguments = importlib.import_module(resource.__module__).__dict__[f"{resource.__name__}Args"]
    parameters = inspect.signature(arguments).parameters
    assert {_snake(name) for name in shape.inputs} == set(parameters)
    required = {name for name, value in parameters.items() if value.default is inspect.Parameter.empty}
    assert {_snake(name) for name, field in shape.inputs.items() if field.required} == required


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


@pytest.mark.parametrize("row", rows.TABLE.values(), ids=rows.TABLE.keys())
def test_every_input_is_used_or_refused_by_name(row: ResourceType) -> None:
    shape = shapes.shape(row.type)
    used = coverage.mapped_inputs(row.type)
    assert not used & row.unsupported.keys()
    assert used | row.unsupported.keys() == set(shape.inputs)
    assert all(reason for reason in row.unsupported.values())


@pytest.mark.parametrize("row", rows.TABLE.values(), ids=rows.TABLE.keys())
def test_input_without_replacement_is_updated_in_place(row: ResourceType) -> None:
    shape = shapes.shape(row.type)
    free = (
        {n for n, f in shape.inputs.items() if not f.replaces}
        - row.replace_on_changes
        - row.unsupported.keys()
        - {"region"}
    )
    assert free <= coverage.updatable_inputs(row)


@pytest.mark.parametrize("row", rows.TABLE.values(), ids=rows.TABLE.keys())
def test_row_names_only_existing_properties(row: ResourceType) -> None:
    shape = shapes.shape(row.type)
    tops = {
        name.split(".")[0]
        for name in (*row.value_kinds, *row.normalize, *row.ordered_lists, *row.computed, *row.defaults)
    }
    assert tops <= set(shape.inputs) | set(shape.outputs)
    assert {*row.write_only, *row.unsupported, *row.duplicate_inputs, *row.compared_if_set} <= set(shape.inputs)
    assert {*row.output_sources, *row.updated_outputs} <= set(shape.outputs)
    for text in row.output_sources.values():
        if isinstance(text, Template):
            from agentenv.rehearsal.providers.aws.operation import FIELD

            assert set(FIELD.findall(text)) <= set(shape.outputs) | OWN_FIELDS


def calls_of(row: ResourceType) -> list[tuple[str, set[str]]]:
    steps = [step for step in (row.create, *row.updates, *row.delete) if isinstance(step, Call)]
    out = [
        (
            f"{step.service or row.service} {step.operation}",
            {*step.constants, *(member for path, member in step.member_names.items() if "." not in path)},
        )
        for step in steps
    ]
    reads = [read for read in (row.read, *row.more_reads) if isinstance(read, ReadCall)]
    return out + [(f"{r.service or row.service} {r.operation}", set(r.constants)) for r in reads]


@pytest.mark.parametrize("row", rows.TABLE.values(), ids=rows.TABLE.keys())
def test_operations_and_members_exist_in_botocore(row: ResourceType) -> None:
    for operation, members in calls_of(row):
        assert members <= set(api_calls.members(*operation.split())), operation
    if row.tags:
        service = row.tags.service or row.service
        assert {*row.tags.constants, row.tags.tags_member} <= set(api_calls.members(service, row.tags.tag_operation))
        named = {*row.tags.constants} if row.tags.wrapper else {*row.tags.constants, row.tags.keys_member}
        assert named <= set(api_calls.members(service, row.tags.untag_operation))
        if row.tags.create_member and isinstance(row.create, Call):
            assert row.tags.create_member in api_calls.members(service, row.create.operation)


@pytest.mark.parametrize("row", rows.TABLE.values(), ids=rows.TABLE.keys())
def test_no_link_of_the_schema_to_tags_is_missing(row: ResourceType) -> None:
    assert ("tags" in shapes.shape(row.type).inputs) == (row.tags is not None)
