"""The inputs and outputs of each supported type, from the official schema.

The plugin reads `shapes.json`. `python -m agentenv.rehearsal.providers.aws.shapes --from FOLDER` generates it from an
extract of the schema, and a test compares the two. A type in it is a short code: `s`tring, `b`oolean, `i`nteger,
`n`umber, `["array", T]`, `["map", T]`, or `{"property": {...}}` for an object. `beside.json` has in the same form what
the extract lacks; a test compares that with the official SDK.
"""

from __future__ import annotations

import argparse
import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).with_name("shapes.json")
BESIDE: Final = Path(__file__).with_name("beside.json")
TYPE_CODES: Final = {"string": "s", "boolean": "b", "integer": "i", "number": "n"}
MAX_DEPTH: Final = 8  # how far nested types are followed; nothing that has a row goes deeper


@dataclass(frozen=True)
class Property:
    type: Any
    required: bool = False
    replaces: bool = False
    secret: bool = False


@dataclass(frozen=True)
class Shape:
    """The properties of one type or function in the official schema."""

    inputs: dict[str, Property]
    outputs: dict[str, Property]  # `required` here: always present

    def computed(self, name: str) -> bool:
        """Return whether the service sets an input that the program does not: leaving it out is never a change."""
        return name in self.outputs and self.outputs[name].required and not self.inputs[name].required


def fields(kind: Any) -> dict[str, Property]:
    """Return the properties of an object type."""
    return {name: _property(fact) for name, fact in kind.items()}


def _property(fact: Any) -> Property:
    flags = fact.get("f", "")
    return Property(fact["t"], "*" in flags, "!" in flags, "$" in flags)


@functools.cache
def _facts() -> dict[str, Any]:
    return {**json.loads(HERE.read_text(encoding="utf-8")), **beside()}


@functools.cache
def beside() -> dict[str, Any]:
    """Return the shapes that the extract lacks."""
    return json.loads(BESIDE.read_text(encoding="utf-8"))


def known() -> frozenset[str]:
    """Return the tokens of resources and functions that have a shape."""
    return frozenset(_facts())


@functools.cache
def shape(token: str) -> Shape:
    fact = _facts()[token]
    return Shape(fields(fact["inputs"]), fields(fact["outputs"]))


def extract(schema: dict[str, Any], tokens: list[str]) -> dict[str, Any]:
    """Return the compact shapes of those tokens, from the extract of the official schema."""
    out: dict[str, Any] = {}
    for token in sorted(tokens):
        fact = schema["resources"].get(token) or schema["functions"].get(token)
        if fact is None:
            raise SystemExit(f"{token} is not in the schema: delete its row, or use a newer extract")
        out[token] = {
            "inputs": _compact(schema, fact["inputs"], fact.get("required", []), 0),
            "outputs": _compact(schema, fact["outputs"], fact.get("outputs_always", []), 0),
        }
    return out


def _compact(schema: dict[str, Any], properties: dict[str, Any], required: list[str], depth: int) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, fact in sorted(properties.items()):
        flags = (
            ("*" if name in required else "")
            + ("!" if fact.get("willReplaceOnChanges") else "")
            + ("$" if fact.get("secret") else "")
        )
        out[name] = {"t": _kind(schema, fact["type"], depth)} | ({"f": flags} if flags else {})
    return out


def _kind(schema: dict[str, Any], kind: Any, depth: int) -> Any:
    if isinstance(kind, list):
        if kind[0] == "oneOf":
            return "s"  # every union here is sent as text
        return [kind[0], _kind(schema, kind[1], depth)]
    if kind.startswith("@"):
        fact = schema["types"].get(kind[1:])
        if fact is None or "properties" not in fact or depth >= MAX_DEPTH:
            return "s"  # an enumeration, sent as text
        return _compact(schema, fact["properties"], fact.get("required", []), depth + 1)
    return TYPE_CODES.get(kind, "any")


def render(folder: Path) -> str:
    from agentenv.rehearsal.providers.aws import functions, rows

    schema = json.loads((folder / "aws-schema.json").read_text(encoding="utf-8"))
    facts = extract(schema, sorted({*rows.TABLE, *functions.TABLE} - set(beside())))
    lines = [f"{json.dumps(token)}: {json.dumps(fact, separators=(',', ':'))}" for token, fact in facts.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Write shapes.json from the official schema's extract.")
    parser.add_argument("--from", dest="folder", type=Path, required=True, help="folder that has aws-schema.json")
    HERE.write_text(render(parser.parse_args().folder), encoding="utf-8")


if __name__ == "__main__":
    main()
