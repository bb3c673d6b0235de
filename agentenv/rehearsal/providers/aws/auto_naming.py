"""Names for resources that are given none: the logical name and a random suffix, kept over updates."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from typing import Any, Final

from agentenv.rehearsal.providers.aws.row import Name, Row

SUFFIX: Final = 7  # hexadecimal digits, as the official provider's
LONG_SUFFIX: Final = 26  # what follows a namePrefix
DEFAULTS_KEY: Final = "__defaults"


class TooLong(Exception):
    """The prefix leaves no room for a suffix."""


def auto(rule: Name, logical: str, inputs: Mapping[str, Any], seed: bytes, proposed: str = "") -> str:
    """A name for a resource of that logical name; the same seed gives the same name."""
    ending = rule.suffix(inputs)
    if proposed:
        return proposed if proposed.endswith(ending) else proposed + ending
    room = rule.longest - len(rule.prefix) - len(ending) - SUFFIX - 1
    if len(logical) > room:
        raise TooLong(
            f"the resource's name {logical!r} is too long to make a name from: at most {room} characters, "
            f"or set {rule.input} yourself (at most {rule.longest})"
        )
    digits = hashlib.sha256(seed).hexdigest()[:SUFFIX] if seed else secrets.token_hex(SUFFIX)[:SUFFIX]
    return f"{rule.prefix}{logical}-{digits}{ending}"


def was_auto(inputs: Mapping[str, Any], name: str) -> bool:
    return name in inputs.get(DEFAULTS_KEY, ())


def from_prefix(row: Row, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs with the name that a `namePrefix` asks for, made anew."""
    rule = row.name
    if rule and inputs.get(rule.prefix_input) and not inputs.get(rule.input):
        made = inputs[rule.prefix_input] + secrets.token_hex(LONG_SUFFIX)[:LONG_SUFFIX]
        return {**inputs, rule.input: made[: rule.longest]}
    return dict(inputs)
