"""Decides as AWS does whether a policy allows a call, as far as the project's own policies go."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

ANONYMOUS = None


def decided(
    policy: dict[str, Any], caller: str | None, action: str, context: dict[str, str], *, on: str | None = None
) -> str:
    """`deny` where one statement refuses, else `allow` where one allows, else `silent`; `on` is the resource's ARN, for
    policies that tell resources apart."""
    known = {**context, **({"aws:PrincipalArn": caller} if caller else {})}
    effects = {
        statement["Effect"]
        for statement in policy["Statement"]
        if _names(statement, caller)
        and any(fnmatchcase(action, pattern) for pattern in _list(statement["Action"]))
        and (on is None or any(fnmatchcase(on, pattern) for pattern in _list(statement["Resource"])))
        and _holds(statement.get("Condition", {}), known)
    }
    return "deny" if "Deny" in effects else "allow" if "Allow" in effects else "silent"


def _names(statement: dict[str, Any], caller: str | None) -> bool:
    principal = statement["Principal"]
    named = (
        [name for value in principal.values() for name in _list(value)] if isinstance(principal, dict) else [principal]
    )
    return "*" in named or caller in named


def _holds(condition: dict[str, dict[str, Any]], known: dict[str, str]) -> bool:
    return all(
        _compared(operator, known.get(key), _list(expected))
        for operator, keys in condition.items()
        for key, expected in keys.items()
    )


def _compared(operator: str, value: str | None, expected: list[str]) -> bool:
    if operator == "Null":
        return (value is None) == (expected == ["true"])
    if operator in {"Bool", "StringEquals"}:
        return value in expected
    if operator in {"ArnLike", "StringLike"}:
        return value is not None and any(fnmatchcase(value, pattern) for pattern in expected)
    raise NotImplementedError(operator)


def _list(value: Any) -> list[str]:
    return list(value) if isinstance(value, list | tuple) else [value]
