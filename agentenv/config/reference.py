"""The reference of the settings, for editors and for readers: pure functions from the settings to text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from agentenv.config import vocabulary
from agentenv.config.constraints import ROWS
from agentenv.config.mistakes import NAMESPACE
from agentenv.config.reader import REGION_KEY, SECTIONS
from agentenv.config.sections.capabilities import WORDS
from agentenv.config.vocabulary import Schema, describe, resolved
from agentenv.core.nodes.tier_rules import RULES
from agentenv.core.nodes.tiers import WALL_LABEL

WRITTEN_BY = "Written by `python -m agentenv.generate` from `agentenv/config/`; change it there."

_TOP_LEVEL: dict[str, Schema] = {
    "environment": {"description": "Pulumi ESC environments to import.", "type": ["array", "object"]},
    "secretsprovider": {"description": "What encrypts the stack's secrets.", "type": "string"},
    "encryptedkey": {"description": "The data key, encrypted by the provider.", "type": "string"},
    "encryptionsalt": {"description": "The salt of the passphrase.", "type": "string"},
}


def stack_schema() -> Schema:
    """The JSON Schema of a whole stack file."""
    own = vocabulary.schema()
    sections = {f"{NAMESPACE}:{name}": own["properties"][name] for name in SECTIONS}
    sections[f"{NAMESPACE}:protect"] = {
        "description": sections[f"{NAMESPACE}:protect"]["description"],
        "default": "auto",
        "enum": [True, False, "true", "false", "auto"],
    }
    # The engine takes a key without a namespace for one of the project's.
    sections |= {name: sections[f"{NAMESPACE}:{name}"] for name in SECTIONS}
    config: Schema = {
        "description": "The configuration of the stack.",
        "type": "object",
        "properties": {REGION_KEY: own["properties"]["region"], **sections},
        # Keys of other namespaces belong to providers, who check them.
        "patternProperties": {rf"^(?!{NAMESPACE}:)[^:]+:.+$": {}},
        "additionalProperties": False,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Stack file of an agent environment",
        "description": WRITTEN_BY,
        "type": "object",
        "properties": {"config": config, **_TOP_LEVEL},
        "additionalProperties": False,
        # An ESC environment may bring the region; otherwise the file has to.
        "if": {"not": {"required": ["environment"]}},
        "then": {"required": ["config"], "properties": {"config": {"required": [REGION_KEY]}}},
        "$defs": own["$defs"],
    }


def stack_schema_text() -> str:
    """The JSON Schema as it is kept in the repository."""
    return json.dumps(stack_schema(), indent=2, ensure_ascii=False) + "\n"


def settings_page() -> str:
    """The reference page: every setting, every tier, every capability and every refusal."""
    lines = [
        "# Settings",
        "",
        f"<!-- {WRITTEN_BY} -->",
        "",
        "What a stack file `stacks/Pulumi.<stack>.yaml` may say under `config`. `agentenv check` reads one and lists",
        "every mistake in it; `pulumi up` does the same before it registers anything. Unknown keys are refused.",
        "",
        "| key | meaning |",
        "|---|---|",
        f"| `{REGION_KEY}` | {_about(vocabulary.schema()['properties']['region'])} Required. |",
    ]
    own = vocabulary.schema()["properties"]
    lines += [f"| `{NAMESPACE}:{name}` | {_about(own[name])} |" for name in SECTIONS]
    for name in SECTIONS:
        node = resolved(own[name])
        rows = list(_rows(node, name))
        if not rows:
            continue
        about = resolved(node.get("items", node)).get("description", "")
        lines += [
            "",
            f"## {name}",
            "",
            _text(about),
            "",
            "| setting | allowed | default | meaning |",
            "|---|---|---|---|",
        ]
        lines += rows
    lines += ["", *_tiers()]
    lines += ["", "## Capabilities by name", "", "| word | reaches |", "|---|---|"]
    lines += [f"| `{word}` | {meaning} |" for word, meaning in WORDS.items()]
    lines += ["", *_refusals()]
    return "\n".join(lines) + "\n"


def _rows(node: Schema, path: str) -> Iterator[str]:
    """A row for each setting below a place, those of a mapping in it after it."""
    node = resolved(node)
    if node.get("type") == "array":
        yield from _rows(node["items"], f"{path}[]")
        return
    for choice in node.get("anyOf", ()):
        if "properties" in resolved(choice):
            yield from _rows(choice, path)
    for key, inner in node.get("properties", {}).items():
        default = _default(inner, required=key in node.get("required", ()))
        yield f"| `{path}.{key}` | {_cell(_allowed(inner))} | {default} | {_about(inner)} |"
        yield from _rows(inner, f"{path}.{key}")


def _allowed(node: Schema) -> str:
    node = resolved(node)
    if "enum" in node:
        return ", ".join(f"`{word}`" for word in node["enum"])
    if node.get("type") == "array" and "enum" in (items := resolved(node["items"])):
        return f"a list, each one of {', '.join(f'`{word}`' for word in items['enum'])}"
    return describe(node)


def _default(node: Schema, *, required: bool) -> str:
    if required:
        return "required"
    default: Any = node.get("default")
    if default is None:
        return ""
    if isinstance(default, dict):
        return "as below"
    return f"`{json.dumps(default, ensure_ascii=False) if not isinstance(default, str) else default}`"


def _about(node: Schema) -> str:
    """What a setting means: what is said where it stands, else what its kind says of itself."""
    return _cell(node.get("description") or resolved(node).get("description", ""))


def _tiers() -> Iterator[str]:
    yield "## Tiers"
    yield ""
    yield "| tier | on nodes of | runtime class | to AWS by | graphics processors | for callers with roles |"
    yield "|---|---|---|---|---|---|"
    for rule in RULES:
        cells = (
            f"`{rule.tier}`",
            ", ".join(f"`{WALL_LABEL}={wall.word}`" for wall in rule.walls),
            ", ".join(f"`{name}`" if name else "none" for name in rule.runtime_classes),
            ", ".join(f"`{kind}`" for kind in rule.identities),
            "yes" if rule.gpu else "no",
            ", ".join(f"`{role}`" for role in rule.roles),
        )
        yield f"| {' | '.join(cells)} |"


def _refusals() -> Iterator[str]:
    yield "## Combinations that are refused"
    yield ""
    yield "Each setting may be well by itself and still not go together with another."
    yield ""
    yield "| refusal | why | allowed | way out |"
    yield "|---|---|---|---|"
    for row in ROWS:
        yield f"| `{row.id}` | {_cell(row.reason)} | {_cell(row.allowed)} | {_cell(row.way_out)} |"


def _cell(text: str) -> str:
    return _text(text).replace("|", "\\|")


def _text(text: str) -> str:
    return " ".join(text.split())
