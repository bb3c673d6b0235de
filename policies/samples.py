"""The samples beside the rules: resources that are good, bad or not known yet, and the exact findings they lead to.

A rule's folder `rules/<family>/samples/<ID>/` has `good*.yaml`, `bad*.yaml` and `unknown*.yaml`; each document of a
file is one sample. docs/policies.md shows one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal, cast

import yaml

from agentenv.config import read as read_settings
from agentenv.core.capabilities.unknown_values import UNKNOWN, as_list, as_mapping
from agentenv.policies.offline import resources_of_objects
from agentenv.policies.verdicts import Verdict
from agentenv.policies.view.environment import Situation
from agentenv.policies.view.resource import Resource

RULES = Path(__file__).parent / "rules"

Sort = Literal["good", "bad", "unknown"]
SORTS: tuple[Sort, ...] = ("good", "bad", "unknown")
KEYS = {"name", "situation", "pod", "objects", "resources", "expect"}
# The name of a resource, the verdict on it, and where
Expected = tuple[str, Verdict, str]


@dataclass(frozen=True)
class Sample:
    """One sample of a rule."""

    rule: str
    sort: Sort
    name: str
    resources: tuple[Resource, ...]
    situation: Situation
    expected: Counter[Expected]


class _Loader(yaml.CSafeLoader):
    """YAML in which `!unknown` stands for a value that is not known yet."""


def _unknown(*_: object) -> object:
    return UNKNOWN


_Loader.add_constructor("!unknown", _unknown)


class SampleError(ValueError):
    """A sample that cannot be read, and what is wrong with it."""


def samples_of(rule: str, folder: Path = RULES) -> list[Sample]:
    """All samples of a rule."""
    return [
        _sample(rule, sort, f"{file.name}#{index}", document)
        for sort in SORTS
        for file in sorted(folder.glob(f"*/samples/{rule}/{sort}*.yaml"))
        for index, document in enumerate(yaml.load_all(file.read_text(encoding="utf-8"), Loader=_Loader))
        if document is not None
    ]


def _sample(rule: str, sort: Sort, place: str, document: object) -> Sample:
    raw = as_mapping(document)
    if raw is None or not set(raw) <= KEYS:
        raise SampleError(f"{rule}/{place}: a sample is a mapping of {', '.join(sorted(KEYS))}")
    situation = _situation(as_mapping(raw.get("situation")) or {})
    things = list(as_list(raw.get("objects")) or [])
    if "pod" in raw:
        things.append({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "sample"}, "spec": raw["pod"]})
    found = [
        *resources_of_objects(things, situation, source="sample"),
        *(_resource(as_mapping(one) or {}, situation) for one in as_list(raw.get("resources")) or []),
    ]
    if not found:
        raise SampleError(f"{rule}/{place}: a sample needs a pod, objects or resources")
    expected = Counter(_expected(f"{rule}/{place}", as_list(raw.get("expect")) or [], found))
    name = f"{place} {raw.get('name', '')}".strip()
    return Sample(rule, sort, name, tuple(found), situation, expected)


def _expected(place: str, raw: list[object], resources: list[Resource]) -> Iterator[Expected]:
    for one in raw:
        words = dict(as_mapping(one) or {})
        owner = words.pop("of", resources[0].name)
        verdict, path = next(iter(words.items()), ("", ""))
        if len(words) != 1 or verdict not in {kind.value for kind in Verdict}:
            raise SampleError(f"{place}: an expected finding is `<verdict>: <path>`, with `of: <resource>`: {one}")
        yield str(owner or ""), Verdict(verdict), str(path or "")


def _resource(raw: Mapping[str, object], situation: Situation) -> Resource:
    kind, name = str(raw["type"]), str(raw["name"])
    return Resource(
        urn_of(kind, name),
        kind,
        name,
        as_mapping(raw.get("inputs")) or {},
        parent=next(iter(_urns([raw["parent"]] if "parent" in raw else [])), ""),
        dependencies=_urns(raw.get("dependencies")),
        property_dependencies={
            key: _urns(value) for key, value in (as_mapping(raw.get("propertyDependencies")) or {}).items()
        },
        outputs=as_mapping(raw.get("outputs")) or {},
        situation=situation,
    )


def urn_of(kind: str, name: str) -> str:
    """The URN of a sample's resource; in a sample others are written as `<type>::<name>`."""
    return f"urn:pulumi:sample::sample::{kind}::{name}"


def _urns(raw: object) -> frozenset[str]:
    return frozenset(f"urn:pulumi:sample::sample::{one}" for one in as_list(raw) or [])


def _situation(raw: Mapping[str, object]) -> Situation:
    given: dict[str, object] = {}
    for field in fields(Situation):
        if field.name in raw:
            value = raw[field.name]
            given[field.name] = tuple(cast("list[object]", value)) if isinstance(value, list) else value
    if "settings" in given:
        given["settings"] = read_settings(as_mapping(given["settings"]) or {}, "sample")
    if strange := set(raw) - set(given):
        raise SampleError(f"no such words about the platform: {sorted(strange)}")
    return Situation(**given)  # pyright: ignore[reportArgumentType] the samples are ours
