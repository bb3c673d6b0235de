"""Tests that a stack file uses every setting of the reference, so that the rehearsals cover them.

The settings are walked by the schema that the reference is generated from. A setting counts as used where a stack file
gives it a value that is not its default. Of a setting with named values each is used somewhere, by default or not; of
one that takes a value, a list or a mapping, each of them. Periods that differ in their amount alone are one value.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from agentenv.cli.stack_files import all_stack_files, stack_name
from agentenv.cli.stack_yaml import read_document
from agentenv.config import read, vocabulary
from agentenv.config.mistakes import NAMESPACE
from agentenv.config.reader import SECTIONS
from agentenv.config.vocabulary import Schema, resolved

ROOT = Path(__file__).resolve().parents[3]
PERIOD = re.compile(r"\d+d")
FORMS: Mapping[type, str] = {list: "array", tuple: "array", dict: "object"}

Config = dict[str, Any]


@pytest.fixture(scope="module")
def stacks() -> dict[str, Config]:
    """The configuration of each stack file."""
    return {stack_name(path): read_document(path).value["config"] for path in all_stack_files(ROOT)}


def alternatives(node: Schema) -> list[Schema]:
    """Return the types that a value may have."""
    node = resolved(node)
    choices = [resolved(choice) for choice in node.get("anyOf", ()) if choice.get("type") != "null"]
    return choices or [node]


def walk(node: Schema, path: str, default: Any = None) -> Iterator[tuple[str, Schema, Any]]:
    """Yield every setting at a place and below it, with its schema and its default."""
    for choice in alternatives(node):
        if choice.get("type") == "array":
            yield from walk(choice["items"], f"{path}[]")
        for key, inner in choice.get("properties", {}).items():
            about = {**resolved(inner), **inner}
            inside = default.get(key) if isinstance(default, dict) else about.get("default")
            yield f"{path}.{key}", inner, inside
            yield from walk(inner, f"{path}.{key}", inside)


def settings() -> Iterator[tuple[str, Schema, Any]]:
    """Yield all settings of all sections."""
    sections = vocabulary.schema()["properties"]
    for name in SECTIONS:
        yield name, sections[name], sections[name].get("default")
        yield from walk(sections[name], name, sections[name].get("default"))


def values(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield every value of a configuration with the path of its setting."""
    yield path, value
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from values(inner, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from values(inner, f"{path}[]")


def by_section(config: Config) -> Config:
    """Return the sections of a stack file without their namespace."""
    return {key.removeprefix(f"{NAMESPACE}:"): value for key, value in config.items()}


def found(configs: Iterable[Config]) -> dict[str, list[Any]]:
    """Return the values of all configurations by the path of their setting."""
    by_path: dict[str, list[Any]] = {}
    for config in configs:
        for name in SECTIONS:
            for path, value in values(config[name], name) if name in config else ():
                by_path.setdefault(path, []).append(value)
    return by_path


def named(choice: Schema) -> list[Any]:
    """Return the values that a setting has names for; periods are one."""
    words = [word for word in choice.get("enum", ()) if isinstance(word, str)]
    periods = [word for word in words if PERIOD.fullmatch(word)]
    return [word for word in words if word not in periods[1:]]


def same(value: Any, word: str) -> bool:
    return value == word or (isinstance(value, str) and bool(PERIOD.fullmatch(word) and PERIOD.fullmatch(value)))


def form(choice: Schema) -> str:
    """Return whether a type of value is a list, a mapping, or neither."""
    return choice["type"] if choice.get("type") in FORMS.values() else "plain"


def missing(path: str, kinds: list[Schema], values_: list[Any]) -> Iterator[str]:
    """Yield the names and forms of values that are not among those given."""
    for word in (word for kind in kinds for word in named(kind)):
        if not any(same(value, word) for value in values_):
            yield f"{path}: {word}"
    forms = dict.fromkeys(form(kind) for kind in kinds)
    if len(forms) > 1:
        there = {FORMS.get(type(value), "plain") for value in values_ if value is not None}
        yield from (f"{path}: a value of type {form}" for form in forms if form not in there)


def unused(stacks: Mapping[str, Config]) -> list[str]:
    """Return what no stack file uses: settings by their path, values after it."""
    used = found(by_section(config) for config in stacks.values())
    effective = found(read(config, name).model_dump(mode="json", by_alias=True) for name, config in stacks.items())
    left: list[str] = []
    for path, node, default in settings():
        if all(value == default for value in used.get(path, [])):
            left.append(path)
        kinds = alternatives(node)
        inside = [
            alternative for kind in kinds if kind.get("type") == "array" for alternative in alternatives(kind["items"])
        ]
        for place, choices in ((path, kinds), (f"{path}[]", inside)):
            left += missing(place, choices, used.get(place, []) + effective.get(place, []))
    return left


def test_every_setting_is_used_by_a_stack(stacks: dict[str, Config]) -> None:
    assert unused(stacks) == []


@pytest.mark.parametrize(
    ("place", "value", "named"),
    [
        ("full.network.egressProxy.port", None, "network.egressProxy.port"),
        ("full.service.traces", None, "service.traces"),
        ("full.capacity.driftBudget", "0", "capacity.driftBudget"),
        ("full.sandboxClasses.0.identity.kind", "irsa", "sandboxClasses[].identity.kind: exchange"),
        ("full.sandboxClasses.3.kernel", "kata", "sandboxClasses[].kernel: nitro"),
        ("full.sandboxClasses.0.capabilities.7", "dns", "sandboxClasses[].capabilities[].protocol: udp"),
        ("adopted.storage.mountGroup", None, "storage.mountGroup"),
        ("adopted.network.nat", "single", "network.nat: none"),
    ],
)
def test_a_setting_that_a_stack_stops_using_is_named(
    stacks: dict[str, Config], place: str, value: Any, named: str
) -> None:
    changed = copy.deepcopy({name: stacks[name] for name in ("local", "full", "adopted")})
    stack, section, *way, last = (int(word) if word.isdigit() else word for word in place.split("."))
    inside: Any = changed[str(stack)][f"{NAMESPACE}:{section}"]
    for token in way:
        inside = inside[token]
    if value is None:
        del inside[last]
    else:
        inside[last] = value
    assert named in unused(changed)


def test_a_new_setting_is_named(stacks: dict[str, Config], monkeypatch: pytest.MonkeyPatch) -> None:
    grown = copy.deepcopy(vocabulary.schema())
    grown["$defs"]["Probe"]["properties"]["every"] = {"type": "integer", "default": 5}
    grown["$defs"]["EgressProxy"]["properties"]["protocol"] = {"enum": ["http", "socks"], "default": "http"}
    monkeypatch.setattr(vocabulary, "schema", lambda: grown)
    assert unused(stacks) == [
        "network.egressProxy.protocol",
        "network.egressProxy.protocol: http",
        "network.egressProxy.protocol: socks",
        "sandboxClasses[].probe.every",
    ]
