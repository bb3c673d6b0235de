"""What the program itself asks to wait for: the annotation `pulumi.com/waitFor`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from agentenv.rehearsal.providers.kubernetes import jsonpath, objects
from agentenv.rehearsal.providers.kubernetes.verdict import READY, Verdict, waiting

Wanted = Callable[[Mapping[str, Any]], Verdict]


class BadCondition(ValueError):
    """An annotation that cannot be read: what was found, and what is allowed."""


def parse(annotation: str) -> Wanted:
    """One expression or a JSON list of them; all must hold."""
    try:
        listed = json.loads(annotation)
    except ValueError:
        listed = annotation
    expressions = listed if isinstance(listed, list) else [annotation]
    if not expressions:
        raise BadCondition(f"{objects.WAIT_FOR}: at least one condition is needed")
    wanted = [_one(str(expression)) for expression in expressions]

    def test(obj: Mapping[str, Any]) -> Verdict:
        open_ones = [v for v in (one(obj) for one in wanted) if not v.done]
        return waiting(*(text for v in open_ones for text in v.reasons)) if open_ones else READY

    return test


def _one(expression: str) -> Wanted:
    how, _, rest = expression.partition("=")
    if how == "condition" and rest:
        return _condition(rest)
    if how == "jsonpath":
        return _path(rest)
    raise BadCondition(
        f'{objects.WAIT_FOR}: {expression!r} must be "condition=<type>[=<status>]" or "jsonpath={{.path}}[=<value>]"'
    )


def _condition(text: str) -> Wanted:
    kind, _, status = text.partition("=")
    status = status or "True"

    def test(obj: Mapping[str, Any]) -> Verdict:
        found = objects.condition(obj, kind)
        current = objects.settled({**obj, "status": {**(obj.get("status") or {}), **found}})
        if current and str(found.get("status", "")).casefold() == status.casefold():
            return READY
        said = f": {found['message']}" if found.get("message") else ""
        return waiting(f"waiting for condition {kind}={status} (found {found.get('status', 'none')!r}{said})")

    return test


def _path(text: str) -> Wanted:
    end = text.rfind("}")
    if not text.startswith("{") or end < 0 or (text[end + 1 :] and not text[end + 1 :].startswith("=")):
        raise BadCondition(f"{objects.WAIT_FOR}: the path in {text!r} must stand in braces: jsonpath={{.path}}=value")
    expected = text[end + 2 :]
    if text.endswith("}="):
        raise BadCondition(f"{objects.WAIT_FOR}: {text!r} ends without a value")
    try:
        path = jsonpath.parse(text[1:end].strip())
    except jsonpath.BadPath as error:
        raise BadCondition(f"{objects.WAIT_FOR}: {error}") from None

    def test(obj: Mapping[str, Any]) -> Verdict:
        if not objects.settled(obj):
            return waiting("waiting for the controller to see the latest change")
        found = path.select(obj)
        if not found:
            return waiting(f"waiting for {text} (nothing there yet)")
        if not expected or spelled(found[0]) == expected:
            return READY
        return waiting(f"waiting for {text} (found {spelled(found[0])!r})")

    return test


def spelled(value: Any) -> str:
    """A value as kubectl prints it."""
    return value if isinstance(value, str) else json.dumps(value)
