"""The table against the official schema: nothing of it missing, nothing invented, no input that nobody uses."""

import importlib
import inspect
import json
import os
import re
from pathlib import Path

import pytest

from agentenv.rehearsal.providers.aws import api_calls as calls
from agentenv.rehearsal.providers.aws import coverage, functions, rows, shapes
from agentenv.rehearsal.providers.aws.row import Call, Form, Look, Row

FACTS = "AGENTENV_FACTS"
OWN_FIELDS = {"id", "region", "account", "partition"}


@pytest.fixture
def facts() -> Path:
    folder = os.environ.get(FACTS)
    if not folder:
        pytest.skip(f"needs {FACTS}: the folder that has aws-schema.json, the official schema's extract")
    return Path(folder)


def test_the_shapes_are_the_official_ones(facts: Path) -> None:
    assert shapes.HERE.read_text(encoding="utf-8") == shapes.render(facts)


def test_no_row_has_a_name_the_schema_lacks(facts: Path) -> None:
    schema = json.loads((facts / "aws-schema.json").read_text(encoding="utf-8"))
    assert set(rows.TABLE) <= set(schema["resources"])
    assert set(functions.TABLE) - set(shapes.beside()) <= set(schema["functions"])
    assert not set(shapes.beside()) & (set(schema["functions"]) | set(schema["resources"]))


def test_what_the_extract_leaves_out_is_as_the_sdk_has_it() -> None:
    (token,) = shapes.beside()
    assert token == "aws:resourcegroupstaggingapi/getResources:getResources"
    sdk = importlib.import_module("pulumi_aws.resourcegroupstaggingapi")
    shape = shapes.shape(token)
    arguments = set(inspect.signature(sdk.get_resources).parameters) - {"opts"}
    assert {_snake(name) for name in shape.inputs} == arguments
    results = {name for name, kind in vars(sdk.GetResourcesResult).items() if isinstance(kind, property)}
    assert {_snake(name) for name in shape.outputs} == results
    told = importlib.import_module("pulumi_aws.resourcegroupstaggingapi.outputs")
    mapping = told.GetResourcesResourceTagMappingListResult
    fields = {name for name, kind in vars(mapping).items() if isinstance(kind, property)}
    assert {_snake(name) for name in shape.outputs["resourceTagMappingLists"].type[1]} == fields


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


@pytest.mark.parametrize("row", rows.TABLE.values(), ids=rows.TABLE.keys())
def test_every_input_is_used_or_refused_by_name(row: Row) -> None:
    shape = shapes.shape(row.type)
    used = coverage.mapped(row.type)
    assert not used & row.refused.keys()
    assert used | row.refused.keys() == set(shape.inputs)
    assert all(reason for reason in row.refused.values())


@pytest.mark.parametrize("row", rows.TABLE.values(), ids=rows.TABLE.keys())
def test_what_does_not_replace_can_be_changed_in_place(row: Row) -> None:
    shape = shapes.shape(row.type)
    free = {n for n, f in shape.inputs.items() if not f.replaces} - row.replaces - row.refused.keys() - {"region"}
    assert free <= coverage.changeable(row)


@pytest.mark.parametrize("row", rows.TABLE.values(), ids=rows.TABLE.keys())
def test_a_row_names_only_what_exists(row: Row) -> None:
    shape = shapes.shape(row.type)
    tops = {name.split(".")[0] for name in (*row.kinds, *row.forms, *row.ordered, *row.fills, *row.defaults)}
    assert tops <= set(shape.inputs) | set(shape.outputs)
    assert {*row.unread, *row.refused, *row.twins, *row.undeclared} <= set(shape.inputs)
    assert {*row.shows, *row.moves} <= set(shape.outputs)
    for text in row.shows.values():
        if isinstance(text, Form):
            from agentenv.rehearsal.providers.aws.operation import FIELD

            assert set(FIELD.findall(text)) <= set(shape.outputs) | OWN_FIELDS


def calls_of(row: Row) -> list[tuple[str, set[str]]]:
    steps = [one for one in (row.create, *row.sets, *row.delete) if isinstance(one, Call)]
    out = [(f"{one.service or row.service} {one.operation}", {*one.given, *one.names_at_top()}) for one in steps]
    looks = [one for one in (row.find, *row.also) if isinstance(one, Look)]
    return out + [(f"{one.service or row.service} {one.operation}", set(one.given)) for one in looks]


@pytest.mark.parametrize("row", rows.TABLE.values(), ids=rows.TABLE.keys())
def test_operations_and_members_are_botocores(row: Row) -> None:
    for operation, members in calls_of(row):
        assert members <= set(calls.members(*operation.split())), operation
    if row.tags:
        service = row.tags.service or row.service
        assert {*row.tags.on, row.tags.member} <= set(calls.members(service, row.tags.put))
        named = {*row.tags.on} if row.tags.whole else {*row.tags.on, row.tags.keys}
        assert named <= set(calls.members(service, row.tags.drop))
        if row.tags.create and isinstance(row.create, Call):
            assert row.tags.create in calls.members(service, row.create.operation)


@pytest.mark.parametrize("row", rows.TABLE.values(), ids=rows.TABLE.keys())
def test_no_link_of_the_schema_to_tags_is_missing(row: Row) -> None:
    assert ("tags" in shapes.shape(row.type).inputs) == (row.tags is not None)
