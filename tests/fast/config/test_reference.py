"""Tests of the generated reference, and that schema, engine and settings accept the same stack files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from agentenv.config import vocabulary
from agentenv.config.constraints import CONSTRAINTS
from agentenv.config.reader import SECTIONS
from agentenv.config.reference import settings_page, stack_schema
from agentenv.config.sections.capabilities import WORDS
from agentenv.core.nodes.tier_rules import RULES
from tests.fast.config.stack_samples import config, fargate, mistakes_of, sandbox
from tests.fast.config.test_settings import TEN_MISTAKES

ROOT = Path(__file__).resolve().parents[3]
STACKS = ("local", "dev", "staging", "prod", "full", "adopted")
VALIDATOR = jsonschema.Draft202012Validator(stack_schema())


def stack(name: str) -> dict[str, Any]:
    """A stack file; JSON knows neither tuples nor dates, and neither does one of ours."""
    return json.loads(json.dumps(yaml.safe_load((ROOT / "stacks" / f"Pulumi.{name}.yaml").read_text("utf-8"))))


def test_the_schema_is_valid() -> None:
    jsonschema.Draft202012Validator.check_schema(stack_schema())


@pytest.mark.parametrize("name", STACKS)
def test_the_stack_files_are_valid_in_schema_and_settings(name: str) -> None:
    assert [error.message for error in VALIDATOR.iter_errors(stack(name))] == []
    assert mistakes_of(stack(name)["config"], name) == []


@pytest.mark.parametrize("name", STACKS)
def test_the_stack_files_point_editors_to_the_schema(name: str) -> None:
    first = (ROOT / "stacks" / f"Pulumi.{name}.yaml").read_text("utf-8").splitlines()[0]
    schema = first.removeprefix("# yaml-language-server: $schema=")
    assert (ROOT / "stacks" / schema).resolve() == ROOT / "docs" / "reference" / "stack.schema.json"


def test_the_stack_files_differ_where_expected() -> None:
    networks = [stack(name)["config"]["agent-environment:network"] for name in STACKS if name != "adopted"]
    assert len({network["cidr"] for network in networks}) == len(networks)
    assert [stack(name)["config"]["aws:region"] for name in ("local", "prod")] == ["us-east-1", "us-east-1"]
    assert networks[0]["zones"] == 2


def test_a_stack_file_of_five_lines_is_valid() -> None:
    text = f"""\
config:
  aws:region: us-east-1
  agent-environment:cluster: {{publicAccessCidrs: [203.0.113.0/24]}}
  agent-environment:sandboxClasses:
    - {json.dumps(sandbox())}
"""
    assert len(text.splitlines()) == 5
    document = yaml.safe_load(text)
    assert list(VALIDATOR.iter_errors(document)) == []
    assert mistakes_of(document["config"]) == []


BAD: dict[str, dict[str, Any]] = {
    "no region": {},
    "bad region": config(region="us-east1"),
    "unknown section": {**config(), "agent-environment:netwrok": {}},
    "unknown section without a namespace": {**config(), "netwrok": {}},
    "unknown key": config({"network": {"cdir": "10.40.0.0/16"}}),
    "unknown nested key": config({"sandboxClasses": [sandbox(pool={"sise": 1})]}),
    "unknown word": config({"network": {"nat": "both"}}),
    "unknown capability": config({"sandboxClasses": [sandbox(capabilities=["dsn"])]}),
    "capability of two kinds": config(
        {"sandboxClasses": [sandbox(capabilities=[{"cidr": "10.0.0.0/8", "class": "standard"}])]}
    ),
    "capability of no kind": config({"sandboxClasses": [sandbox(capabilities=[{"ports": [1]}])]}),
    "too few zones": config({"network": {"zones": 1}}),
    "too many zones": config({"network": {"zones": 7}}),
    "one zone by name": config({"network": {"zones": ["us-east-1a"]}}),
    "zone without a region": config({"network": {"zones": ["a", "b"]}}),
    "not a range": config({"network": {"cidr": "10.40.0.0"}}),
    "not a retention": config({"network": {"flowLogDays": 2}}),
    "not a version": config({"cluster": {"version": "1.20"}}),
    "a version without quotes": config({"cluster": {"version": 1.35}}),
    "not a principal": config({"cluster": {"admins": ["platform"]}}),
    "root as a principal": config({"cluster": {"admins": ["arn:aws:iam::111122223333:root"]}}),
    "a duration without unit": config({"storage": {"retainDeletedFor": "30"}}),
    "a duration as a number": config({"storage": {"retainDeletedFor": 30}}),
    "no duration": config({"storage": {"retainDeletedFor": ""}}),
    "text for a number": config({"storage": {"fileSystems": "1"}}),
    "text for a switch": config({"storage": {"backup": "true"}}),
    "a number for a switch": config({"storage": {"backup": 1}}),
    "a switch for a number": config({"storage": {"fileSystems": True}}),
    "no file system": config({"storage": {"fileSystems": 0}}),
    "an image by its tag": config({"sandboxClasses": [sandbox(image="sandbox:latest")]}),
    "no image": config({"sandboxClasses": [{"name": "a"}]}),
    "a name in capitals": config({"sandboxClasses": [sandbox("A")]}),
    "a mapping for a list": config({"sandboxClasses": sandbox()}),
    "a list for a mapping": config({"network": []}),
    "memory without unit": config({"sandboxClasses": [sandbox(resources={"memory": "512"})]}),
    "memory as a number": config({"sandboxClasses": [sandbox(resources={"memory": 512})]}),
    "no cores": config({"sandboxClasses": [sandbox(resources={"cpu": 0})]}),
    "a share over one": config({"sandboxClasses": [sandbox(pool={"missRate": 5})]}),
    "a relative path": config({"sandboxClasses": [sandbox(storage={"mountPath": "home"})]}),
    "a path upwards": config({"sandboxClasses": [sandbox(storage={"mountPath": "/home/../etc"})]}),
    "a person as a user": config({"workspaces": [{"name": "a", "class": "b", "user": "a@example.com"}]}),
    "no money": config({"cost": {"monthlyBudget": 0}}),
    "money in words": config({"cost": {"monthlyBudget": "much"}}),
    "not an address": config({"cost": {"alertTo": "platform"}}),
    "a plain http issuer": config({"service": {"issuer": "http://login.example.com"}}),
    "not a switch": config({"protect": "perhaps"}),
    "a secret": config({"cost": {"owner": {"secure": "v1:abc"}}}),
    "ten mistakes": {key: json.loads(v) if isinstance(v, str) and "{" in v else v for key, v in TEN_MISTAKES.items()},
}


@pytest.mark.parametrize("name", BAD)
def test_schema_and_settings_refuse_the_same_values(name: str) -> None:
    assert list(VALIDATOR.iter_errors({"config": BAD[name]})) != []
    assert mistakes_of(BAD[name]) != []


GOOD: dict[str, dict[str, Any]] = {
    "a region": config(),
    "another namespace": {**config(), "kubernetes:context": "x", "aws:defaultTags": {"tags": {}}},
    "no namespace": {**config(), "network": {"nat": "single"}},
    "cores as a number": config({"sandboxClasses": [sandbox(resources={"cpu": 0.5})]}),
    "money as text": config({"cost": {"perUserCap": "3.00"}}),
    "every capability": config({"sandboxClasses": [sandbox(capabilities=[*WORDS, {"cidr": "203.0.113.0/24"}])]}),
    "fargate": config({"sandboxClasses": [fargate(pool={"size": 0})]}),
    "protect as a switch": config({"protect": True}),
    "protect as the engine has it": config({"protect": "auto"}),
}


@pytest.mark.parametrize("name", GOOD)
def test_schema_and_settings_accept_the_same_values(name: str) -> None:
    assert [error.message for error in VALIDATOR.iter_errors({"config": GOOD[name]})] == []
    assert mistakes_of(GOOD[name]) == []


def test_a_stack_file_has_no_keys_that_the_engine_does_not_know() -> None:
    assert list(VALIDATOR.iter_errors({"config": config(), "encryptionsalt": "v1:x", "environment": ["team"]})) == []
    assert list(VALIDATOR.iter_errors({"config": config(), "confg": {}})) != []
    assert list(VALIDATOR.iter_errors({})) != []


def test_every_default_is_a_valid_value() -> None:
    definitions = vocabulary.schema()["$defs"]
    for definition in [vocabulary.schema(), *definitions.values()]:
        for key, node in definition.get("properties", {}).items():
            if node.get("default") is not None:
                jsonschema.Draft202012Validator({**node, "$defs": definitions}).validate(node["default"])
                assert "PT" not in str(node["default"]), key


def test_every_setting_has_a_description() -> None:
    for definition in [vocabulary.schema(), *vocabulary.schema()["$defs"].values()]:
        (mapping,) = [choice for choice in definition.get("anyOf", [definition]) if "properties" in choice]
        for key, node in mapping["properties"].items():
            assert node.get("description") or vocabulary.resolved(node).get("description"), key


def test_the_reference_lists_every_setting_and_constraint() -> None:
    page = settings_page()
    for name in SECTIONS:
        assert f"`agent-environment:{name}`" in page
        for key in vocabulary.keys((name,)):
            assert f"| `{name}.{key}` |" in page
    for key in vocabulary.keys(("sandboxClasses", 0)):
        assert f"| `sandboxClasses[].{key}` |" in page
    assert "| `sandboxClasses[].resources.burst.memory` |" in page
    assert all(f"| `{row.id}` | {row.reason} |" in page for row in CONSTRAINTS)
    assert all(f"| `{rule.tier}` | " in page for rule in RULES)
    assert all(line.count("|") - line.count("\\|") >= 3 for line in page.splitlines() if line.startswith("|"))


PROJECT = yaml.safe_load((ROOT / "Pulumi.yaml").read_text("utf-8"))["config"]


def test_the_project_declares_every_section_and_nothing_else() -> None:
    assert list(PROJECT) == list(SECTIONS)
    types = {"object": "object", "array": "array", "string": "boolean"}
    for name, declared in PROJECT.items():
        node = vocabulary.resolved(vocabulary.schema()["properties"][name])
        assert types[declared["type"]] == node["type"], name
        assert declared["description"], name


def test_the_project_requires_no_configuration_but_access_to_the_cluster() -> None:
    assert all("default" in declared for declared in PROJECT.values())
    defaults = {
        f"agent-environment:{name}": value["default"] if value["type"] == "string" else json.dumps(value["default"])
        for name, value in PROJECT.items()
    }
    for environment in ("dev", "prod"):
        (mistake,) = mistakes_of({"aws:region": "us-east-1", **defaults}, environment)
        assert mistake.path == "agent-environment:cluster.publicAccessCidrs"
        assert mistakes_of({**defaults, **config()}, environment) == []
