"""Automatic names of resources: the logical name and a random suffix, unchanged by updates."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from typing import Any, Final

from agentenv.rehearsal.providers.aws.row import AutoName, ResourceType

SUFFIX_LENGTH: Final = 7  # hexadecimal digits, as the official provider's
PREFIX_SUFFIX_LENGTH: Final = 26  # what follows a namePrefix
DEFAULTS_KEY: Final = "__defaults"


class NameTooLong(Exception):
    """The logical name leaves no space for a suffix."""


def auto_name(rule: AutoName, logical_name: str, inputs: Mapping[str, Any], seed: bytes, proposed: str = "") -> str:
    """Return a name for a resource of that logical name. The same seed gives the same name."""
    ending = rule.suffix(inputs)
    if proposed:
        return proposed if proposed.endswith(ending) else proposed + ending
    limit = rule.max_length - len(rule.prefix) - len(ending) - SUFFIX_LENGTH - 1
    if len(logical_name) > limit:
        raise NameTooLong(
            f"the resource's name {logical_name!r} is too long for an automatic name: at most {limit} characters, "
            f"or set {rule.input} yourself (at most {rule.max_length})"
        )
    digits = (
        hashlib.sha256(seed).hexdigest()[:SUFFIX_LENGTH] if seed else secrets.token_hex(SUFFIX_LENGTH)[:SUFFIX_LENGTH]
    )
    return f"{rule.prefix}{logical_name}-{digits}{ending}"


def is_auto_named(inputs: Mapping[str, Any], name: str) -> bool:
    """Return whether the input was set by automatic naming."""
    return name in inputs.get(DEFAULTS_KEY, ())


def with_name_from_prefix(row: ResourceType, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs with a new name if they have a `namePrefix` and no name."""
    rule = row.auto_name
    if rule and inputs.get(rule.prefix_input) and not inputs.get(rule.input):
        name = inputs[rule.prefix_input] + secrets.token_hex(PREFIX_SUFFIX_LENGTH)[:PREFIX_SUFFIX_LENGTH]
        return {**inputs, rule.input: name[: rule.max_length]}
    return dict(inputs)
