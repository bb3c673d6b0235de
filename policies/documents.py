"""Reads YAML as data: manifests of anybody's, and the samples of our own rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

import yaml

from model.capabilities.plain import UNKNOWN

# Written in C where the library has it: reading takes longer than all rules together
_Safe: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Safe):
    """What a tag of another tool (`!Ref`, `!reference`) stands for is not known, and neither is our own `!unknown`."""


def _unknown(*_: object) -> object:
    return UNKNOWN


def _as_text(_loader: object, node: yaml.ScalarNode) -> str:
    return node.value


_loader = cast("Any", _Loader)
_loader.add_multi_constructor("!", _unknown)
# A lone `=` is a type of its own in YAML 1.1, which the safe loader knows and cannot make
_loader.add_constructor("tag:yaml.org,2002:value", _as_text)


# What aliases may make of a document: so many values, and so many times what stands there
MOST_VALUES: Final = 100_000
MOST_TIMES: Final = 10


class GrownError(yaml.YAMLError):
    """A document that its aliases make larger than anybody can read; in a few lines it may be without end."""


def documents(text: str) -> Iterator[object]:
    """The documents of a text of YAML, or of JSON."""
    for document in yaml.load_all(text, Loader=_loader):
        if "&" in text and "*" in text:
            _bounded(document)
        yield document


def _bounded(document: object) -> None:
    counted: dict[int, int] = {}
    values = _count(document, counted)
    if values > max(MOST_VALUES, MOST_TIMES * len(counted)):
        raise GrownError("its aliases make it too large to be read")


def _count(value: object, counted: dict[int, int]) -> int:
    """How many values there are in it, each alias for itself; what stands in many places is gone through once."""
    key = id(value)
    if isinstance(value, Mapping):
        below = list(cast("Mapping[object, object]", value).values())
    elif isinstance(value, list):
        below = cast("list[object]", value)
    else:
        return 1
    if key not in counted:
        # One that holds itself is counted once on its way
        counted[key] = 1
        counted[key] += sum(_count(one, counted) for one in below)
    return counted[key]
