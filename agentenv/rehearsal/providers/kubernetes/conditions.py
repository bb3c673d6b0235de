"""Wait conditions of the program: the annotation `pulumi.com/waitFor`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from agentenv.rehearsal.providers.kubernetes import jsonpath, objects
from agentenv.rehearsal.providers.kubernetes.readiness import READY, Verdict, waiting

Check = Callable[[Mapping[str, Any]], Verdict]


class InvalidCondition(ValueError):
    """The annotation is not valid: what was found, and what is allowed."""


def parse(annotation: str) -> Check:
    """Parse one expression or a JSON list of them, all of which must hold."""
    try:
        listed = json.loads(annotation)
    except ValueError:
        listed = annotation
    expressions = listed if isinstance(listed, list) else [annotation]
    if not expressions:
        raise InvalidCondition(f"{objects.WAIT_FOR}: at least one condition is needed")
    checks = [_check(str(expression)) for expression in expressions]

    def test(obj: Mapping[str, Any]) -> Verdict:
        open_verdicts = [v for v in (check(obj) for check in checks) if not v.done]
        return waiting(*(text for v in open_verdicts for text in v.reasons)) if open_verdicts else READY

    return test


def _check(expression: str) -> Check:
    how, _, rest = expression.partition("=")
    if how == "condition" and rest:
        return _condition(rest)
    if how == "jsonpath":
        return _path(rest)
    raise InvalidCondition(
        f'{objects.WAIT_FOR}: {expression!r} must be "condition=<type>[=<status>]" or "jsonpath={{.path}}[=<value>]"'
    )


def _condition(text: str) -> Check:
    kind, _, status = text.partition("=")
    status = status or "True"

    def test(obj: Mapping[str, Any]) -> Verdict:
        condition = objects.condition(obj, kind)
        current = objects.is_observed({**obj, "status": {**(obj.get("status") or {}), **condition}})
        if current and str(condition.get("status", "")).casefold() == status.casefold():
            return READY
        message = f": {condition['message']}" if condition.get("message") else ""
        return waiting(f"waiting for condition {kind}={status} (found {condition.get('status', 'none')!r}{message})")

    return test


def _path(text: str) -> Check:
    end = text.rfind("}")
    if not text.startswith("{") or end < 0 or (text[end + 1 :] and not text[end + 1 :].startswith("=")):
        raise InvalidCondition(
            f"{objects.WAIT_FOR}: the path in {text!r} must stand in braces: jsonpath={{.path}}=value"
        )
    expected = text[end + 2 :]
    if text.endswith("}="):
        raise InvalidCondition(f"{objects.WAIT_FOR}: {text!r} ends without a value")
    try:
        path = jsonpath.parse(text[1:end].strip())
    except jsonpath.InvalidPath as error:
        raise InvalidCondition(f"{objects.WAIT_FOR}: {error}") from None

    def test(obj: Mapping[str, Any]) -> Verdict:
        if not objects.is_observed(obj):
            return waiting("waiting for the controller to see the latest change")
        condition = path.select(obj)
        if not condition:
            return waiting(f"waiting for {text} (nothing there yet)")
        if not expected or format_value(condition[0]) == expected:
            return READY
        return waiting(f"waiting for {text} (found {format_value(condition[0])!r})")

    return test


def format_value(value: Any) -> str:
    """Return a value as kubectl prints it."""
    return value if isinstance(value, str) else json.dumps(value)
