"""Remediation: add missing tags and labels. A pack changes nothing else, and does this only if it is enabled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pulumi_policy.proxy import UnknownValueError
from pulumi_policy.secret import Secret

_AWS = "aws:"
_KUBERNETES = "kubernetes:"


def with_missing_tags(
    kind: str, inputs: Mapping[str, Any], tags: Mapping[str, str], labels: Mapping[str, str]
) -> Mapping[str, Any] | None:
    """Return the inputs with the missing tags or labels; None if nothing is missing or the values are unknown."""
    if kind.startswith(_AWS) and tags:
        return _with_missing(inputs, ("tags",), tags)
    if kind.startswith(_KUBERNETES) and labels and "metadata" in inputs:
        return _with_missing(inputs, ("metadata", "labels"), labels)
    return None


def _with_missing(
    inputs: Mapping[str, Any], path: tuple[str, ...], required: Mapping[str, str]
) -> Mapping[str, Any] | None:
    key, *rest = path
    try:
        present: object = inputs.get(key, dict[str, Any]())
    except UnknownValueError:
        return None
    if isinstance(_target(inputs).get(key), Secret):
        return None
    # Only a resource that has tags is known to take tags: the engine rejects an input that a type lacks
    if not isinstance(present, Mapping) or (key == "tags" and key not in inputs):
        return None
    below = cast("Mapping[str, Any]", present)
    if rest:
        inner = _with_missing(below, tuple(rest), required)
        return None if inner is None else _with(inputs, key, inner)
    missing = {name: value for name, value in required.items() if name not in below}
    return _with(inputs, key, _merged(below, missing)) if missing else None


def _with(values: Mapping[str, Any], key: str, value: Any) -> dict[str, Any]:
    """Return the values with one replaced. The others stay proxies, so that unknown and secret values stay intact."""
    raw = cast("Mapping[str, Any]", _target(values))
    return {**raw, key: value}


def _merged(present: Mapping[str, Any], more: Mapping[str, str]) -> dict[str, Any]:
    return {**cast("Mapping[str, Any]", _target(present)), **more}


def _target(proxy: Mapping[str, Any]) -> Any:
    """Return the object behind the SDK's proxy, which the SDK serializes without reading it."""
    try:
        return proxy["__target"]
    except KeyError:
        return proxy
