"""Kinds of values: what the official provider refuses at preview, and when two spellings say the same.

A kind belongs to an input by its path in a row's `kinds`, or by rule (every `...Arn` is an ARN).
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
LONGEST_POLICY_VALUE = 60


def plain_same(left: Any, right: Any) -> bool:
    return left == right


def plain_turn(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Kind:
    """`wrong` tells what is wrong with a value (None: nothing); `same` whether two values mean the same."""

    wrong: Callable[[Any], str | None] = lambda _: None
    same: Callable[[Any, Any], bool] = plain_same
    turn: Callable[[Any], Any] = plain_turn  # to the form that is kept, at check
    whole: bool = False  # for a list: it is judged as one, not item by item


def _cidr_wrong(value: Any, version: int, shortest: int, longest: int) -> str | None:
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


def _cidr_same(left: Any, right: Any) -> bool:
    try:
        return ipaddress.ip_network(left, strict=False) == ipaddress.ip_network(right, strict=False)
    except (ValueError, TypeError):
        return left == right


def cidr(shortest: int = 0, longest: int = 32) -> Kind:
    return Kind(functools.partial(_cidr_wrong, version=4, shortest=shortest, longest=longest), _cidr_same)


def cidr6(shortest: int = 0, longest: int = 128) -> Kind:
    return Kind(functools.partial(_cidr_wrong, version=6, shortest=shortest, longest=longest), _cidr_same)


def _arn_wrong(value: Any) -> str | None:
    if isinstance(value, str) and (not value or ARN.match(value)):
        return None
    return f"{value!r} is not an ARN: expected arn:partition:service:region:account:resource"


def _address_wrong(value: Any) -> str | None:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return f"{value!r} is not an IP address"
    return None


def _json(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


def _json_wrong(value: Any) -> str | None:
    if not value:
        return None
    try:
        parsed = _json(value)
    except ValueError as error:
        return f"is not valid JSON: {error}"
    return None if isinstance(parsed, dict) else "is JSON, but not an object"


def _policy_wrong(value: Any) -> str | None:
    wrong = _json_wrong(value)
    if wrong or not value:
        return wrong
    statements = _json(value).get("Statement")
    if statements is None:
        return "is not a policy: it has no Statement"
    for index, statement in enumerate(statements if isinstance(statements, list) else [statements]):
        if not isinstance(statement, dict) or statement.get("Effect") not in {"Allow", "Deny"}:
            return f"is not a policy: Statement[{index}] needs an Effect of Allow or Deny"
    return None


def _json_same(left: Any, right: Any) -> bool:
    try:
        return bool(_json(left or "{}") == _json(right or "{}"))
    except ValueError:
        return left == right


SETS: Final = frozenset({"action", "notaction", "resource", "notresource", "principal", "notprincipal", "condition"})


def policy_meaning(value: Any, key: str = "") -> Any:
    """A policy with what does not matter taken out: key order, one text or a list of one, the order of a list."""
    if key == "Statement":
        items = value if isinstance(value, list) else [value]
        return tuple(sorted((policy_meaning(item) for item in items), key=repr))
    if isinstance(value, dict):
        if key.lower() in {"principal", "notprincipal"} and value == {"AWS": "*"}:
            return ("*",)
        return tuple(
            sorted((k, policy_meaning(v, key if key.lower() in SETS else k)) for k, v in value.items() if v is not None)
        )
    if isinstance(value, list) or key.lower() in SETS:
        items = value if isinstance(value, list) else [value]
        return tuple(sorted({_word(item) for item in items}))
    return _word(value)


def _word(item: Any) -> str:
    return ("true" if item else "false") if isinstance(item, bool) else str(item)


def _policy_same(left: Any, right: Any) -> bool:
    if left == right:
        return True
    try:
        return bool(policy_meaning(_json(left or "{}")) == policy_meaning(_json(right or "{}")))
    except ValueError:
        return False


def as_text(value: Any) -> Any:
    """A document given as an object is kept as text, as the services take it."""
    return json.dumps(value, separators=(",", ":")) if isinstance(value, dict | list) else value


def among(*allowed: str | int) -> Kind:
    def wrong(value: Any) -> str | None:
        if value in allowed:
            return None
        return f"{value!r} is not allowed: use one of {', '.join(str(a) for a in allowed)}"

    return Kind(wrong)


def between(least: float, most: float) -> Kind:
    def wrong(value: Any) -> str | None:
        return None if least <= value <= most else f"{value!r} is out of range: allowed is {least} to {most}"

    return Kind(wrong)


def matching(pattern: str, says: str) -> Kind:
    compiled = re.compile(pattern)

    def wrong(value: Any) -> str | None:
        return None if compiled.fullmatch(str(value)) else f"{value!r} {says}"

    return Kind(wrong)


CIDR: Final = cidr()
CIDR6: Final = cidr6()
IS_ARN: Final = Kind(_arn_wrong)
ADDRESS: Final = Kind(_address_wrong)
POLICY: Final = Kind(_policy_wrong, _policy_same, as_text)
JSON: Final = Kind(_json_wrong, _json_same, as_text)
ANY_CASE: Final = Kind(same=lambda left, right: str(left).lower() == str(right).lower())
PLAIN: Final = Kind()


def exactly_one(*names: str) -> Callable[[Mapping[str, Any]], list[tuple[str, str]]]:
    def rule(inputs: Mapping[str, Any]) -> list[tuple[str, str]]:
        given = [n for n in names if inputs.get(n) not in (None, "", [])]
        if len(given) == 1:
            return []
        found = f"{' and '.join(given)} are given" if given else "none is given"
        return [((given or list(names))[0], f"exactly one of {', '.join(names)} is needed, {found}")]

    return rule


def at_most_one(*names: str) -> Callable[[Mapping[str, Any]], list[tuple[str, str]]]:
    def rule(inputs: Mapping[str, Any]) -> list[tuple[str, str]]:
        given = [n for n in names if inputs.get(n) not in (None, "", [])]
        return [(given[1], f"conflicts with {given[0]}: give one of them")] if len(given) > 1 else []

    return rule


def nearest(word: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)` if something is near, else nothing."""
    import difflib

    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


def left_out(value: Any) -> bool:
    """Nothing was said."""
    return value is None or (isinstance(value, str | list | dict) and len(value) == 0)


def empty(value: Any) -> bool:
    """What the official provider cannot tell from a value left out: nothing, no, and zero."""
    return left_out(value) or value is False or (isinstance(value, int | float) and value == 0)
