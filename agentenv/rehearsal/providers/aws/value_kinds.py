"""Kinds of values: which values are valid at preview, and which two spellings are equal.

A row sets the kind of an input by path in `value_kinds`. Every input that ends in `Arn` is an ARN.
"""

from __future__ import annotations

import functools
import ipaddress
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

ARN: Final = re.compile(r"^arn:aws[\w-]*:[^:]+:[a-z0-9-]*:(\d{12}|aws|[a-z-]*)?:.+$")


def identical(left: Any, right: Any) -> bool:
    return left == right


def unchanged(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class ValueKind:
    """`validate` returns the problem of a value, or None; `equal` whether two values mean the same."""

    validate: Callable[[Any], str | None] = lambda _: None
    equal: Callable[[Any, Any], bool] = identical
    normalize: Callable[[Any], Any] = unchanged  # to the form the state keeps, at check
    whole_list: bool = False  # the kind of the list itself, not of its items


def _cidr_problem(value: Any, version: int, shortest: int, longest: int) -> str | None:
    try:
        network = ipaddress.ip_network(value, strict=False)
    except ValueError:
        return (
            f"{value!r} is not an IPv{version} CIDR block such as {'10.0.0.0/16' if version == 4 else '2001:db8::/56'}"
        )
    if "/" not in value or network.version != version:
        return f"{value!r} is not an IPv{version} CIDR block with a prefix length"
    if str(ipaddress.ip_interface(value).ip) != str(network.network_address):
        return f"{value!r} has host bits set: write {network}"
    if not shortest <= network.prefixlen <= longest:
        return f"{value!r} has a prefix of /{network.prefixlen}; allowed is /{shortest} to /{longest}"
    return None


def _same_network(left: Any, right: Any) -> bool:
    try:
        return ipaddress.ip_network(left, strict=False) == ipaddress.ip_network(right, strict=False)
    except (ValueError, TypeError):
        return left == right


def cidr(shortest: int = 0, longest: int = 32) -> ValueKind:
    return ValueKind(functools.partial(_cidr_problem, version=4, shortest=shortest, longest=longest), _same_network)


def cidr6(shortest: int = 0, longest: int = 128) -> ValueKind:
    return ValueKind(functools.partial(_cidr_problem, version=6, shortest=shortest, longest=longest), _same_network)


def _arn_problem(value: Any) -> str | None:
    if isinstance(value, str) and (not value or ARN.match(value)):
        return None
    return f"{value!r} is not an ARN: expected arn:partition:service:region:account:resource"


def _address_problem(value: Any) -> str | None:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return f"{value!r} is not an IP address"
    return None


def _json(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


def _json_problem(value: Any) -> str | None:
    if not value:
        return None
    try:
        parsed = _json(value)
    except ValueError as error:
        return f"is not valid JSON: {error}"
    return None if isinstance(parsed, dict) else "is JSON, but not an object"


def _policy_problem(value: Any) -> str | None:
    problem = _json_problem(value)
    if problem or not value:
        return problem
    statements = _json(value).get("Statement")
    if statements is None:
        return "is not a policy: it has no Statement"
    for index, statement in enumerate(statements if isinstance(statements, list) else [statements]):
        if not isinstance(statement, dict) or statement.get("Effect") not in {"Allow", "Deny"}:
            return f"is not a policy: Statement[{index}] needs an Effect of Allow or Deny"
    return None


def _same_json(left: Any, right: Any) -> bool:
    try:
        return bool(_json(left or "{}") == _json(right or "{}"))
    except ValueError:
        return left == right


SETS: Final = frozenset({"action", "notaction", "resource", "notresource", "principal", "notprincipal", "condition"})


def normalized_policy(value: Any, key: str = "") -> Any:
    """Return a policy in one form, whatever its key order, its list order, or a text in place of a list of one."""
    if key == "Statement":
        items = value if isinstance(value, list) else [value]
        return tuple(sorted((normalized_policy(item) for item in items), key=repr))
    if isinstance(value, dict):
        if key.lower() in {"principal", "notprincipal"} and value == {"AWS": "*"}:
            return ("*",)
        return tuple(
            sorted(
                (k, normalized_policy(v, key if key.lower() in SETS else k)) for k, v in value.items() if v is not None
            )
        )
    if isinstance(value, list) or key.lower() in SETS:
        items = value if isinstance(value, list) else [value]
        return tuple(sorted({_text(item) for item in items}))
    return _text(value)


def _text(item: Any) -> str:
    return ("true" if item else "false") if isinstance(item, bool) else str(item)


def _same_policy(left: Any, right: Any) -> bool:
    if left == right:
        return True
    try:
        return bool(normalized_policy(_json(left or "{}")) == normalized_policy(_json(right or "{}")))
    except ValueError:
        return False


def as_text(value: Any) -> Any:
    """Return a document that is an object as JSON text, as the services take it."""
    return json.dumps(value, separators=(",", ":")) if isinstance(value, dict | list) else value


def one_of(*allowed: str | int) -> ValueKind:
    def validate(value: Any) -> str | None:
        if value in allowed:
            return None
        return f"{value!r} is not allowed: use one of {', '.join(str(a) for a in allowed)}"

    return ValueKind(validate)


def between(least: float, most: float) -> ValueKind:
    def validate(value: Any) -> str | None:
        return None if least <= value <= most else f"{value!r} is out of range: allowed is {least} to {most}"

    return ValueKind(validate)


def matching(pattern: str, problem: str) -> ValueKind:
    compiled = re.compile(pattern)

    def validate(value: Any) -> str | None:
        return None if compiled.fullmatch(str(value)) else f"{value!r} {problem}"

    return ValueKind(validate)


CIDR: Final = cidr()
CIDR6: Final = cidr6()
IS_ARN: Final = ValueKind(_arn_problem)
ADDRESS: Final = ValueKind(_address_problem)
POLICY: Final = ValueKind(_policy_problem, _same_policy, as_text)
JSON: Final = ValueKind(_json_problem, _same_json, as_text)
PLAIN: Final = ValueKind()


def exactly_one(*names: str) -> Callable[[Mapping[str, Any]], list[tuple[str, str]]]:
    def rule(inputs: Mapping[str, Any]) -> list[tuple[str, str]]:
        present = [n for n in names if inputs.get(n) not in (None, "", [])]
        if len(present) == 1:
            return []
        found = f"{' and '.join(present)} are set" if present else "none is set"
        return [((present or list(names))[0], f"exactly one of {', '.join(names)} is needed, {found}")]

    return rule


def at_least_one(*names: str) -> Callable[[Mapping[str, Any]], list[tuple[str, str]]]:
    def rule(inputs: Mapping[str, Any]) -> list[tuple[str, str]]:
        missing = all(inputs.get(name) in (None, "", []) for name in names)
        return [(names[0], f"one of {', '.join(names)} is needed, none is set")] if missing else []

    return rule


def at_most_one(*names: str) -> Callable[[Mapping[str, Any]], list[tuple[str, str]]]:
    def rule(inputs: Mapping[str, Any]) -> list[tuple[str, str]]:
        present = [n for n in names if inputs.get(n) not in (None, "", [])]
        return [(present[1], f"conflicts with {present[0]}: set one of them")] if len(present) > 1 else []

    return rule


def nearest(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` if a known word is similar, else an empty text."""
    import difflib

    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


def unset(value: Any) -> bool:
    """Return whether a value is None or empty."""
    return value is None or (isinstance(value, str | list | dict) and len(value) == 0)


def empty(value: Any) -> bool:
    """Return whether the official provider takes a value for an unset one: empty, false or zero."""
    return unset(value) or value is False or (isinstance(value, int | float) and value == 0)
