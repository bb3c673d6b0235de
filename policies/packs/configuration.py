"""The packs' configuration: its schema, by which the engine refuses wrong types, and the reading of what was given.

Everybody may leave everything out. What the platform says about itself has a key for each field of `Situation`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from agentenv.core.capabilities.unknown_values import as_list, as_mapping
from agentenv.core.nodes.tiers import GPU_PLUGIN
from agentenv.policies.packs.enforcement import LEVELS, Enforcement, Level, Strictness, usual
from agentenv.policies.rules.registry import all_rules
from agentenv.policies.verdicts import ALWAYS, OWN, SEVERITIES
from agentenv.policies.view.environment import Situation
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
    """How a pack runs here."""

    situation: Situation
    enforcement: Enforcement
    waivers: Path = FILE
    # Where all findings are written as JSON, passes counted; nowhere when empty
    record: Path | None = None
    # What remediation adds where it is missing; `enforcementLevel: remediate` switches it on
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    mistakes: tuple[str, ...] = ()


def camel(name: str) -> str:
    """A name of Python's as JSON has it."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def schema() -> dict[str, dict[str, Any]]:
    """The properties of the configuration, each with what it may be."""
    own: dict[str, dict[str, Any]] = {
        "enforcement": {
            "type": "object",
            "description": "By environment: which severities stop a deployment where a rule fails or cannot tell; "
            "what is left out stays as it is there.",
            "additionalProperties": {
                "type": "object",
                "properties": {"fail": _SEVERITIES, "indeterminate": _SEVERITIES},
                "additionalProperties": False,
            },
        },
        "rules": {
            "type": "object",
            "description": "By rule: what becomes of its findings, whatever their severity.",
            "additionalProperties": {"type": "string", "enum": list(LEVELS)},
        },
        "waivers": {"type": "string", "description": "The file of waivers; policies/waivers.yaml when not said."},
        "record": {"type": "string", "description": "A file to write all findings to, as JSON."},
        "tags": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Tags to add."},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Labels to add."},
    }
    told = {
        camel(one.name): {**_SCHEMAS[str(one.type)], "description": one.metadata["says"]}
        for one in fields(Situation)
        if one.name != "settings"
    }
    return {**told, **own}


def read(given: Mapping[str, object], environment: str, settings: Settings | None = None) -> Configuration:
    """The configuration of a pack for a stack; mistakes are told, and leave the careful default in place."""
    mistakes = list(_strange(given))
    environment = str(given.get("environment") or environment)
    situation = replace(from_settings(settings), environment=environment)
    for one in fields(Situation):
        key = camel(one.name)
        if key in given and one.name not in {"environment", "settings"}:
            value = given[key]
            situation = replace(situation, **{one.name: tuple(as_list(value) or ()) if _many(value) else value})
    levels = cast("Mapping[str, Level]", as_mapping(given.get("rules")) or {})
    known = {*(rule.id for rule in all_rules()), *OWN}
    mistakes += [f"rules: there is no rule {name}" for name in levels if name not in known]
    mistakes += [f"rules: {name} is always told" for name in levels if name in ALWAYS]
    by_environment = as_mapping(given.get("enforcement")) or {}
    strict = {name: _strictness(value, usual(name)) for name, value in by_environment.items()}
    paths = {key: Path(str(given[key])) for key in ("waivers", "record") if given.get(key)}
    # A pack is run in its own folder: whoever writes a path thinks of another one
    mistakes += [f"{key}: the path has to be absolute" for key, path in paths.items() if not path.is_absolute()]
    return Configuration(
        situation,
        Enforcement(environment, strict, levels),
        waivers=paths.get("waivers", FILE),
        record=paths["record"] if "record" in paths and paths["record"].is_absolute() else None,
        tags=_texts(given.get("tags")),
        labels=_texts(given.get("labels")),
        mistakes=tuple(mistakes),
    )


def from_settings(settings: Settings | None) -> Situation:
    """What a stack of ours says about itself in its settings."""
    if settings is None:
        return Situation()
    return Situation(
        settings=settings,
        vpc_ranges=(str(settings.network.cidr), *map(str, settings.network.peers)),
        service_ranges=(str(settings.cluster.service_cidr),),
        node_programs=(GPU_PLUGIN,) if settings.capacity.gpu.limit else (),
    )


def _strange(given: Mapping[str, object]) -> list[str]:
    known = list(schema())
    found: list[str] = []
    for key in given:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            found.append(f"there is no key '{key}'" + (f"; did you mean '{near[0]}'?" if near else ""))
    return found


def _strictness(value: object, otherwise: Strictness) -> Strictness:
    """What was said of an environment; what was not said is as it is there anyway."""
    raw = as_mapping(value) or {}
    chosen = {key: tuple(one for one in SEVERITIES if one in (as_list(raw.get(key)) or [])) for key in raw}
    return replace(
        otherwise, **{key: severities for key, severities in chosen.items() if key in ("fail", "indeterminate")}
    )


def _many(value: object) -> bool:
    return isinstance(value, list | tuple)


def _texts(value: object) -> dict[str, str]:
    return {key: str(one) for key, one in (as_mapping(value) or {}).items()}
