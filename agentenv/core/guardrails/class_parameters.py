"""How a rule reads the ConfigMap of the class in whose namespace a request is."""

from __future__ import annotations

from agentenv.core.guardrails.guardrail import text


def said(key: str) -> str:
    """What the class says under a key; nothing where it has none."""
    return f"params.?data[?{text(key)}].orValue('')"


def listed(key: str) -> str:
    """The items of a list that the class says under a key."""
    return f"{said(key)}.split(',').filter(item, item != '')"
