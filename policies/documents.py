"""Reads YAML as data: manifests of anybody's, and the samples of our own rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

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


def documents(text: str) -> Iterator[object]:
    """The documents of a text of YAML, or of JSON."""
    return yaml.load_all(text, Loader=_loader)
