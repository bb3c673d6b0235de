"""The packs' configuration: its schema, with which the engine rejects wrong types, and the parsed configuration.

Every key is optional. Each field of `PolicyContext` but `settings` has a key.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic.alias_generators import to_camel

from agentenv.core.capabilities.unknown_values import as_list, as_mapping
from agentenv.core.nodes.tiers import GPU_PLUGIN
from agentenv.policies.packs.enforcement import LEVELS, Enforcement, Level, Strictness, default_strictness
from agentenv.policies.rules.registry import all_rules
from agentenv.policies.verdicts import ALWAYS_REPORTED, PACK_FINDINGS, SEVERITIES
from agentenv.policies.view.environment import PolicyContext
from agentenv.policies.waivers import FILE

if TYPE_CHECKING:
    from agentenv.config import Settings

_TEXTS: Final = {"type": "array", "items": {"type": "string"}}
_SCHEMAS: Final[Mapping[str, dict[str, Any]]] = {
    "str": {"type": "string"},
    "tuple[str, ...]": _TEXTS,
    "int": {"type": "integer"},
    "float | None": {"type": "number"},
    "bool": {"type": "boolean"},
}
_SEVERITIES: Final = {"type": "array", "items": {"type": "string", "enum": list(SEVERITIES)}}


@dataclass(frozen=True)
class Configuration:
    """The parsed configuration of a pack."""

    context: PolicyContext
    enforcement: Enforcement
    waivers: Path = FILE
    # The file for all findings as JSON; none if empty
    record: Path | None = None
    # What remediation adds if it is missing; `enforcementLevel: remediate` enables it
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    mistakes: tuple[str, ...] = ()


def schema() -> dict[str, dict[str, Any]]:
    """Return the JSON schema of each key of the configuration."""
    own: dict[str, dict[str, Any]] = {
        "enforcement": {
            "type": "object",
            "description": "By environment: the severities that stop a deployment if a rule fails, and if it is "
            "indeterminate. A list that is left out keeps its default.",
            "additionalProperties": {
                "type": "object",
                "properties": {"fail": _SEVERITIES, "indeterminate": _SEVERITIES},
                "additionalProperties": False,
            },
        },
        "rules": {
            "type": "object",
            "description": "By rule: the level of its findings, regardless of severity.",
            "additionalProperties": {"type": "string", "enum": list(LEVELS)},
        },
        "waivers": {"type": "string", "description": "The file of waivers; policies/waivers.yaml by default."},
        "record": {"type": "string", "description": "A file for all findings, as JSON."},
        "tags": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Tags to add."},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Labels to add."},
    }
    context = {
        to_camel(each.name): {**_SCHEMAS[str(each.type)], "description": each.metadata["description"]}
        for each in fields(PolicyContext)
        if each.name != "settings"
    }
    return {**context, **own}


def read(raw: Mapping[str, object], environment: str, settings: Settings | None = None) -> Configuration:
    """Parse the configuration of a pack for a stack. A key with a mistake keeps its strict default."""
    mistakes = _unknown_keys(raw)
    environment = str(raw.get("environment") or environment)
    context = replace(from_settings(settings), environment=environment)
    for each in fields(PolicyContext):
        key = to_camel(each.name)
        if key in raw and each.name not in {"environment", "settings"}:
            value = raw[key]
            items = as_list(value)
            context = replace(context, **{each.name: value if items is None else tuple(items)})
    levels = cast("Mapping[str, Level]", as_mapping(raw.get("rules")) or {})
    known = {*(rule.id for rule in all_rules()), *PACK_FINDINGS}
    mistakes += [f"rules: there is no rule {name}" for name in levels if name not in known]
    mistakes += [f"rules: {name} is always reported" for name in levels if name in ALWAYS_REPORTED]
    by_environment = as_mapping(raw.get("enforcement")) or {}
    strict = {name: _strictness(value, default_strictness(name)) for name, value in by_environment.items()}
    paths = {key: Path(str(raw[key])) for key in ("waivers", "record") if raw.get(key)}
    # A pack runs in its own folder, to which nobody means a path to be relative
    mistakes += [f"{key}: the path has to be absolute" for key, path in paths.items() if not path.is_absolute()]
    return Configuration(
        context,
        Enforcement(environment, strict, levels),
        waivers=paths.get("waivers", FILE),
        record=paths["record"] if "record" in paths and paths["record"].is_absolute() else None,
        tags=_texts(raw.get("tags")),
        labels=_texts(raw.get("labels")),
        mistakes=tuple(mistakes),
    )


def from_settings(settings: Settings | None) -> PolicyContext:
    """Return the context from the stack's own settings, if it is a stack of this project."""
    if settings is None:
        return PolicyContext()
    return PolicyContext(
        settings=settings,
        vpc_ranges=(str(settings.network.cidr), *map(str, settings.network.peers)),
        service_ranges=(str(settings.cluster.service_cidr),),
        node_programs=(GPU_PLUGIN,) if settings.capacity.gpu.limit else (),
    )


def _unknown_keys(raw: Mapping[str, object]) -> list[str]:
    known = list(schema())
    mistakes: list[str] = []
    for key in raw:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            mistakes.append(f"there is no key '{key}'" + (f"; did you mean '{near[0]}'?" if near else ""))
    return mistakes


def _strictness(value: object, default: Strictness) -> Strictness:
    """Return the strictness of an environment; a list that is left out keeps its default."""
    raw = as_mapping(value) or {}
    chosen = {
        key: tuple(severity for severity in SEVERITIES if severity in (as_list(raw.get(key)) or []))
        for key in ("fail", "indeterminate")
        if key in raw
    }
    return replace(default, **chosen)


def _texts(value: object) -> dict[str, str]:
    return {key: str(text) for key, text in (as_mapping(value) or {}).items()}
