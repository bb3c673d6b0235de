"""The keys and values that are allowed at a place of a stack file, from the JSON Schema of the settings.

Messages, the reference and editors use the same schema.
"""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from agentenv.config.mistakes import Place
from agentenv.config.settings import Settings
from agentenv.config.values import duration_text
from agentenv.core.values.quantities import Quantity

Schema = dict[str, Any]


class _Untitled(GenerateJsonSchema):
    """Omit generated titles, which repeat the name of a field; the remaining titles name types."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - the signature is pydantic's
        return False

    def encode_default(self, dft: Any) -> Any:
        """Return a default as it is written in a stack file."""
        if isinstance(dft, Quantity):
            return dft.text
        if isinstance(dft, timedelta):
            return duration_text(dft)
        if isinstance(dft, BaseModel):
            return dft.model_dump(mode="json", by_alias=True, exclude_none=True)
        return super().encode_default(dft)


@cache
def schema() -> Schema:
    """Return the JSON Schema of all settings."""
    return Settings.model_json_schema(by_alias=True, schema_generator=_Untitled)


def resolved(node: Schema) -> Schema:
    """Return a schema node with its reference resolved and without the choice of null."""
    reference = node.get("$ref")
    if isinstance(reference, str):
        return resolved(schema()["$defs"][reference.rsplit("/", 1)[1]])
    choices = [choice for choice in node.get("anyOf", ()) if choice.get("type") != "null"]
    if len(choices) == 1 and "anyOf" in node:
        # The title of an optional value is beside the choice.
        return {**resolved(choices[0]), **({"title": node["title"]} if "title" in node else {})}
    return node


def at(place: Place) -> Schema | None:
    """Return the schema of a place; None if the settings have no such place."""
    node = schema()
    for token in place:
        node = _step(resolved(node), token)
        if node is None:
            return None
    return resolved(node)


def _step(node: Schema, token: str | int) -> Schema | None:
    for choice in (node, *(resolved(choice) for choice in node.get("anyOf", ()))):
        inner = choice.get("items") if isinstance(token, int) else choice.get("properties", {}).get(token)
        if isinstance(inner, dict):
            return inner  # pyright: ignore[reportUnknownVariableType] - generated from our models
    return None


def keys(place: Place) -> list[str]:
    """Return the allowed keys of the mapping at a place."""
    node = at(place)
    if node is None:
        return []
    choices = (node, *(resolved(choice) for choice in node.get("anyOf", ())))
    return sorted({key for choice in choices for key in choice.get("properties", {})})


def words(place: Place) -> list[str]:
    """Return the allowed values at a place, if it has an enumeration."""
    node = at(place) or {}
    return [str(word) for word in node.get("enum", ())]


def sections_with(key: str) -> list[str]:
    """Return the sections with a key of this name, as a hint for a key in the wrong section."""
    return [name for name in schema()["properties"] if key in keys((name,)) or key in keys((name, 0))]


def allowed(place: Place) -> str:
    """Return a description of the allowed values at a place."""
    node = at(place)
    return "nothing of this name" if node is None else describe(node)


def describe(node: Schema) -> str:  # noqa: PLR0911 - one return for each kind of schema
    """Return a description of the values that a schema node allows."""
    node = resolved(node)
    if "properties" in node:
        return "a mapping"
    if "title" in node:
        return str(node["title"])
    if "const" in node:
        return str(node["const"])
    if "enum" in node:
        return f"one of {', '.join(str(word) for word in node['enum'])}"
    if "anyOf" in node:
        return " or ".join(describe(choice) for choice in node["anyOf"])
    match node.get("type"):
        case "array":
            return f"a list{_bounds(node, 'minItems', 'maxItems')}, each {describe(node['items'])}"
        case "integer":
            return f"a whole number{_bounds(node, 'minimum', 'maximum')}"
        case "boolean":
            return "true or false"
        case "string" if "pattern" in node:
            return f"text that matches {node['pattern']}"
        case "string":
            return f"text{_bounds(node, 'minLength', 'maxLength')}"
        case _:
            return "a value"


def _bounds(node: Schema, least: str, most: str) -> str:
    low, high = node.get(least), node.get(most)
    if low is not None and high is not None:
        return f" from {low} to {high}" if least == "minimum" else f" of {low} to {high}"
    if high is not None:
        return f" of at most {high}"
    return f" of at least {low}" if low is not None else ""
