"""The provider without its wire: check, diff, create, read, update, delete and invoke on plain values."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from agentenv.rehearsal.providers.aws import auto_naming as naming
from agentenv.rehearsal.providers.aws import check, coverage, diff, functions, rows, shapes
from agentenv.rehearsal.providers.aws import execute as work
from agentenv.rehearsal.providers.aws import outputs as looking
from agentenv.rehearsal.providers.aws import provider_config as settings
from agentenv.rehearsal.providers.aws.api_calls import Cloud
from agentenv.rehearsal.providers.aws.operation import Situation
from agentenv.rehearsal.providers.aws.row import Problem, Row
from agentenv.rehearsal.providers.common.property_values import UNKNOWN, Path, has_unknown

PATIENCE: Final = "AGENTENV_AWS_PATIENCE"  # seconds to wait for a state, or for a refusal that passes
LONGEST_WAIT: Final = 60.0
META: Final = naming.DEFAULTS_KEY


class Unsupported(Exception):
    """A type or function this stand-in does not have."""


class Impossible(Exception):
    """An id or a request that cannot be carried out."""


@dataclass(frozen=True)
class Compared:
    changes: list[diff.Change]
    first_delete: bool

    @property
    def replaces(self) -> list[str]:
        return sorted({str(change.path[0]) for change in self.changes if change.replaces})


@dataclass
class Provider:
    configuration: settings.Configuration | None = None
    cloud: Cloud = field(init=False)

    def configure(self, values: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> None:
        problems = settings.check(values, environment)
        if problems:
            raise Impossible("; ".join(f"{name}: {reason}" for name, reason in problems))
        self.configuration = settings.configuration(values, environment)
        self.cloud = Cloud(self.configuration.access)

    def _configured(self) -> settings.Configuration:
        if self.configuration is None:
            raise Impossible("the aws provider was not configured")
        return self.configuration

    # -- at preview ---------------------------------------------------------------------------------------------------

    def check(
        self,
        token: str,
        name: str,
        new: Mapping[str, Any],
        old: Mapping[str, Any],
        *,
        secrets: frozenset[Path] = frozenset(),
        seed: bytes = b"",
        proposed: str = "",
        naming_off: bool = False,
    ) -> tuple[dict[str, Any], list[Problem]]:
        """The inputs to keep (defaults, default tags and a name put in), and what is wrong with them."""
        row, shape = known(token)
        asked: dict[str, Any] = {k: v for k, v in new.items() if k != META}
        self._add_tags(row, asked)
        filled: list[str] = []
        for key, value in row.defaults.items():
            outer, _, inner = key.partition(".")
            if not inner and asked.get(key) is None:
                asked[key] = copy.deepcopy(value)
                filled.append(key)
            elif inner and isinstance(asked.get(outer), dict) and asked[outer].get(inner) is None:
                asked[outer] = {**asked[outer], inner: value}
        problems: list[Problem] = []
        rule = row.name
        if rule and not asked.get(rule.input) and not asked.get(rule.prefix_input):
            if old.get(rule.input) and naming.was_auto(old, rule.input):
                asked[rule.input] = old[rule.input]
                filled.append(rule.input)
            elif naming_off:
                problems.append((rule.input, "automatic naming is switched off: give a name"))
            else:
                try:
                    asked[rule.input] = naming.auto(rule, name, asked, seed, proposed)
                    filled.append(rule.input)
                except naming.TooLong as error:
                    problems.append((rule.input, str(error)))
        checker = check.Checker(row, shape, secrets)
        kept = checker.check(asked)
        mapped = coverage.mapped(token) | row.refused.keys()
        problems += checker.problems
        problems += [
            (key, f"the stand-in provider has no mapping for {key!r} of {token}") for key in kept if key not in mapped
        ]
        if filled:
            kept[META] = sorted(filled)
        return kept, problems

    def _add_tags(self, row: Row, asked: dict[str, Any]) -> None:
        given = self._configured().tags
        if row.tags and given and asked.get("tags") is not UNKNOWN:
            asked["tags"] = {**given, **(asked.get("tags") or {})}

    def diff(
        self, token: str, old: Mapping[str, Any], new: Mapping[str, Any], ignored: tuple[str, ...] = ()
    ) -> Compared:
        row, shape = known(token)
        found = [c for c in diff.changes(row, shape, old, new) if not _ignored(c.path, ignored)]
        replaced = any(change.replaces for change in found)
        named = row.name is not None and _same_own_name(row.name.input, old, new)
        return Compared(found, replaced and (row.first_delete or named))

    def preview_create(self, token: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """What a create would answer: what follows from the inputs is known, everything else is not yet."""
        row, shape = known(token)
        out: dict[str, Any] = {}
        for name in shape.outputs:
            if name == "tagsAll" and row.tags:
                out[name] = inputs.get("tags") or {}
            elif inputs.get(name) is not None:
                out[name] = _filled(row, shape.outputs[name].type, inputs[name], name)
            elif name not in shape.inputs or shape.computed(name):
                out[name] = UNKNOWN
        if row.regional and "region" in out:
            out["region"] = inputs.get("region") or self._configured().access.region
        return out

    def preview_update(self, token: str, state: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
        """What an update would answer: what was, with the new inputs, and unknown what an update moves."""
        row, shape = known(token)
        out = {k: v for k, v in state.items() if k not in shape.inputs or shape.computed(k) or k in inputs}
        out.update({name: value for name, value in inputs.items() if name in shape.outputs})
        if row.tags:
            out["tagsAll"] = inputs.get("tags") or {}
        out.update(dict.fromkeys(row.moves & shape.outputs.keys(), UNKNOWN))
        return out

    # -- for real -----------------------------------------------------------------------------------------------------

    def situation(self, token: str, timeout: float = 0, **parts: Any) -> Situation:
        row, shape = known(token)
        self._configured()
        patience = timeout or float(os.environ.get(PATIENCE, LONGEST_WAIT))
        return Situation(row, shape, self.cloud, patience=patience, **parts)

    def create(self, token: str, inputs: Mapping[str, Any], timeout: float = 0) -> tuple[str, dict[str, Any]]:
        _all_known(token, inputs)
        s = self.situation(token, timeout, inputs=_bare(inputs))
        told = work.create(s)
        return s.id, told

    def read(
        self, token: str, id_: str, state: Mapping[str, Any], inputs: Mapping[str, Any]
    ) -> tuple[str, dict[str, Any], dict[str, Any]] | None:
        """Id, outputs and inputs as the cloud has them now; nothing if it is gone. Without a state it is an import."""
        row, _ = known(token)
        importing = not state
        told: Mapping[str, Any] = {}
        if importing and row.parse:
            try:
                id_, told = row.parse(id_)
            except ValueError as error:
                raise Impossible(f"{id_!r} cannot be imported as {token}: {error}") from None
        before = {**told, **inputs}
        s = self.situation(token, inputs=_bare(before), old=dict(before), state=dict(state), id=id_)
        try:
            outputs = work.read(s)
        except work.Gone:
            return None
        return s.id, outputs, looking.inputs_of(s, outputs, importing=importing)

    def update(
        self,
        token: str,
        id_: str,
        state: Mapping[str, Any],
        old: Mapping[str, Any],
        new: Mapping[str, Any],
        *,
        timeout: float = 0,
        ignored: tuple[str, ...] = (),
    ) -> dict[str, Any]:
        _all_known(token, new)
        changed = frozenset(str(change.path[0]) for change in self.diff(token, old, new, ignored).changes)
        parts = {"inputs": _bare(new), "old": dict(old), "state": dict(state), "id": id_, "changed": changed}
        return work.update(self.situation(token, timeout, **parts))

    def delete(
        self, token: str, id_: str, state: Mapping[str, Any], inputs: Mapping[str, Any], timeout: float = 0
    ) -> None:
        work.delete(self.situation(token, timeout, inputs=_bare(inputs or state), state=dict(state), id=id_))

    def invoke(self, token: str, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
        if token not in functions.TABLE:
            raise Unsupported(_lacking("function", token, functions.TABLE))
        self._configured()
        return functions.invoke(self.cloud, token, arguments)


def known(token: str) -> tuple[Row, shapes.Shape]:
    if token not in rows.TABLE:
        raise Unsupported(_lacking("type", token, rows.TABLE))
    return rows.TABLE[token], shapes.shape(token)


def _lacking(what: str, token: str, table: Mapping[str, object]) -> str:
    from agentenv.rehearsal.providers.aws.value_kinds import nearest

    return (
        f"the stand-in aws provider has no {what} {token!r}{nearest(token, table)}. "
        "Add a row (agentenv/rehearsal/providers/aws says how), or install the official aws plugin: "
        "it wins wherever it is on PATH"
    )


def _bare(inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in inputs.items() if not k.startswith("__") and v is not None}


def _all_known(token: str, inputs: Mapping[str, Any]) -> None:
    unknown = sorted(k for k, v in inputs.items() if has_unknown(v))
    if unknown:
        raise Impossible(f"{token}: still unknown when it was to be carried out: {', '.join(unknown)}")


def _ignored(path: Path, ignored: tuple[str, ...]) -> bool:
    from agentenv.rehearsal.providers.common.property_values import spell

    text = spell(path)
    return any(text == one or text.startswith((f"{one}.", f"{one}[")) for one in ignored)


def _same_own_name(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """A name the program chose and kept: both cannot exist at once."""
    return bool(new.get(name)) and old.get(name) == new.get(name) and not naming.was_auto(new, name)


def _filled(row: Row, kind: Any, value: Any, dotted: str) -> Any:
    if not isinstance(value, dict) or not isinstance(kind, dict):
        return value
    out = {k: _filled(row, kind[k]["t"], v, f"{dotted}.{k}") if k in kind else v for k, v in value.items()}
    for part in kind:
        if f"{dotted}.{part}" in row.fills and out.get(part) is None:
            out[part] = UNKNOWN
    return out
