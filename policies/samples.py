"""Read the samples of the rules: good, bad and unknown resources, with the exact findings that they lead to.

The folder `rules/<family>/samples/<ID>/` has `good*.yaml`, `bad*.yaml` and `unknown*.yaml`; each document is a sample.
docs/policies.md shows one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Final, Literal, cast

import yaml

from agentenv.config import read as read_settings
from agentenv.core.capabilities.unknown_values import UNKNOWN, as_list, as_mapping
from agentenv.policies.offline import resources_of_objects
from agentenv.policies.verdicts import Verdict
from agentenv.policies.view.environment import PolicyContext
from agentenv.policies.view.resource import Resource

RULES = Path(__file__).parent / "rules"

Sort = Literal["good", "bad", "unknown"]
SORTS: tuple[Sort, ...] = ("good", "bad", "unknown")
KEYS = {"name", "context", "pod", "objects", "resources", "expect"}
# The name of a resource, the verdict, and the path
Expected = tuple[str, Verdict, str]


@dataclass(frozen=True)
class Sample:
    """One sample of a rule."""

    rule: str
    sort: Sort
    name: str
    resources: tuple[Resource, ...]
    context: PolicyContext
    expected: Counter[Expected]


class _Loader(yaml.CSafeLoader):
    """A YAML loader in which `!unknown` is a value that is not known yet."""


def _unknown(*_: object) -> object:
    return UNKNOWN


_Loader.add_constructor("!unknown", _unknown)


class SampleError(ValueError):
    """A sample is invalid; the message has the reason."""


@cache
def samples_of(rule: str, folder: Path = RULES) -> tuple[Sample, ...]:
    """Return all samples of a rule."""
    return tuple(
        _sample(rule, sort, f"{file.name}#{index}", document)
        for sort in SORTS
        for file in sorted(folder.glob(f"*/samples/{rule}/{sort}*.yaml"))
        for index, document in enumerate(yaml.load_all(file.read_text(encoding="utf-8"), Loader=_Loader))
        if document is not None
    )


def _sample(rule: str, sort: Sort, location: str, document: object) -> Sample:
    raw = as_mapping(document)
    if raw is None or not set(raw) <= KEYS:
        raise SampleError(f"{rule}/{location}: a sample is a mapping of {', '.join(sorted(KEYS))}")
    context = _context(as_mapping(raw.get("context")) or {})
    manifests = list(as_list(raw.get("objects")) or [])
    if "pod" in raw:
        manifests.append({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "sample"}, "spec": raw["pod"]})
    every = [
        *resources_of_objects(manifests, context, source="sample"),
        *(_resource(as_mapping(row) or {}, context) for row in as_list(raw.get("resources")) or []),
    ]
    if not every:
        raise SampleError(f"{rule}/{location}: a sample needs a pod, objects or resources")
    expected = Counter(_expected(f"{rule}/{location}", as_list(raw.get("expect")) or [], every))
    name = f"{location} {raw.get('name', '')}".strip()
    return Sample(rule, sort, name, tuple(every), context, expected)


def _expected(location: str, rows: list[object], resources: list[Resource]) -> Iterator[Expected]:
    for row in rows:
        keys = dict(as_mapping(row) or {})
        resource = keys.pop("of", resources[0].name)
        verdict, path = next(iter(keys.items()), ("", ""))
        if len(keys) != 1 or verdict not in {kind.value for kind in Verdict}:
            raise SampleError(f"{location}: an expected finding is `<verdict>: <path>`, with `of: <resource>`: {row}")
        yield str(resource or ""), Verdict(verdict), str(path or "")


def _resource(raw: Mapping[str, object], context: PolicyContext) -> Resource:
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
        context=context,
    )


def urn_of(kind: str, name: str) -> str:
    """Return the URN of a sample's resource; samples refer to it as `<type>::<name>`."""
    return f"urn:pulumi:sample::sample::{kind}::{name}"


def _urns(raw: object) -> frozenset[str]:
    return frozenset(f"urn:pulumi:sample::sample::{name}" for name in as_list(raw) or [])


# Every stack says from where its API server is reached
_REACHED: Final = {"agent-environment:cluster": {"publicAccessCidrs": ["203.0.113.0/24"]}}


def _context(raw: Mapping[str, object]) -> PolicyContext:
    values: dict[str, object] = {}
    for field in fields(PolicyContext):
        if field.name in raw:
            value = raw[field.name]
            values[field.name] = tuple(cast("list[object]", value)) if isinstance(value, list) else value
    if "settings" in values:
        values["settings"] = read_settings({**_REACHED, **(as_mapping(values["settings"]) or {})}, "sample")
    if unknown_keys := set(raw) - set(values):
        raise SampleError(f"the context has no field {sorted(unknown_keys)}")
    return PolicyContext(**values)  # pyright: ignore[reportArgumentType] the samples are ours
