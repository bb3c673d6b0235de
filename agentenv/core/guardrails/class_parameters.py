"""How a rule reads the ConfigMap of the class in whose namespace a request is."""

from __future__ import annotations

from agentenv.core.guardrails.guardrail import quoted


def parameter(key: str) -> str:
    """What the class says under a key; nothing where it has none."""
    return f"params.?data[?{quoted(key)}].orValue('')"


def list_parameter(key: str) -> str:
    """The items of a list that the class says under a key."""
    return f"{parameter(key)}.split(',').filter(item, item != '')"
