"""Adds tags and labels where they are missing: all that a pack changes, and only when it is told to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pulumi_policy.proxy import UnknownValueError
from pulumi_policy.secret import Secret

# AWS resources whose tags are a mapping, by what the program itself gave some of them
_AWS = "aws:"
_KUBERNETES = "kubernetes:"


def remedied(
    kind: str, inputs: Mapping[str, Any], tags: Mapping[str, str], labels: Mapping[str, str]
) -> Mapping[str, Any] | None:
    """The inputs with what was missing, or None where nothing was; what is not known yet is left alone."""
    if kind.startswith(_AWS) and tags:
        return _added(inputs, ("tags",), tags)
    if kind.startswith(_KUBERNETES) and labels and "metadata" in inputs:
        return _added(inputs, ("metadata", "labels"), labels)
    return None


def _added(inputs: Mapping[str, Any], path: tuple[str, ...], wanted: Mapping[str, str]) -> Mapping[str, Any] | None:
    here, *rest = path
    try:
        present: object = inputs.get(here, dict[str, Any]())
    except UnknownValueError:
        return None
    if isinstance(_target(inputs).get(here), Secret):
        return None
    # Only what has tags already is known to take tags: an input that a type lacks would be refused
    if not isinstance(present, Mapping) or (here == "tags" and here not in inputs):
        return None
    below = cast("Mapping[str, Any]", present)
    if rest:
        inner = _added(below, tuple(rest), wanted)
        return None if inner is None else _with(inputs, here, inner)
    missing = {key: value for key, value in wanted.items() if key not in below}
    return _with(inputs, here, _merged(below, missing)) if missing else None


def _with(whole: Mapping[str, Any], key: str, value: Any) -> dict[str, Any]:
    """The proxy itself stays for all else: only so do unknown and secret values go back as they came."""
    raw = cast("Mapping[str, Any]", _target(whole))
    return {**raw, key: value}


def _merged(present: Mapping[str, Any], more: Mapping[str, str]) -> dict[str, Any]:
    return {**cast("Mapping[str, Any]", _target(present)), **more}


def _target(proxy: Mapping[str, Any]) -> Any:
    """What the SDK's proxy stands before, which it puts on the wire again unread."""
    try:
        return proxy["__target"]
    except KeyError:
        return proxy
