"""The provider's operations on plain values: check, diff, create, read, update, delete and invoke."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from agentenv.rehearsal.providers.aws import (
    auto_naming,
    check,
    coverage,
    diff,
    execute,
    functions,
    provider_config,
    rows,
    shapes,
)
from agentenv.rehearsal.providers.aws.api_calls import Cloud
from agentenv.rehearsal.providers.aws.operation import Operation
from agentenv.rehearsal.providers.aws.outputs import read_inputs
from agentenv.rehearsal.providers.aws.row import Problem, ResourceType
from agentenv.rehearsal.providers.common.property_values import UNKNOWN, Path, has_unknown

TIMEOUT_VARIABLE: Final = "AGENTENV_AWS_PATIENCE"  # seconds to wait for a state, or to retry an error
DEFAULT_TIMEOUT: Final = 60.0
META: Final = auto_naming.DEFAULTS_KEY


class Unsupported(Exception):
    """The stand-in does not have this type or function."""


class InvalidRequest(Exception):
    """The id or the request is not valid."""


@dataclass(frozen=True)
class DiffResult:
    """The changes between two sets of inputs, and how a replacement is ordered."""

    changes: list[diff.Change]
    delete_before_replace: bool

    @property
    def replaces(self) -> list[str]:
        return sorted({str(change.path[0]) for change in self.changes if change.replaces})


@dataclass
class Provider:
    configuration: provider_config.Configuration | None = None
    cloud: Cloud = field(init=False)

    def configure(self, values: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> None:
        problems = provider_config.check(values, environment)
        if problems:
            raise InvalidRequest("; ".join(f"{name}: {reason}" for name, reason in problems))
        self.configuration = provider_config.configuration(values, environment)
        self.cloud = Cloud(self.configuration.access)

    def _configured(self) -> provider_config.Configuration:
        if self.configuration is None:
            raise InvalidRequest("the aws provider was not configured")
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
        """Return the inputs with defaults, default tags and a name added, and their problems."""
        row, shape = row_and_shape(token)
        inputs: dict[str, Any] = {k: v for k, v in new.items() if k != META}
        self._add_tags(row, inputs)
        defaulted: list[str] = []
        for key, value in row.defaults.items():
            outer, _, inner = key.partition(".")
            if not inner and inputs.get(key) is None:
                inputs[key] = copy.deepcopy(value)
                defaulted.append(key)
            elif inner and isinstance(inputs.get(outer), dict) and inputs[outer].get(inner) is None:
                inputs[outer] = {**inputs[outer], inner: value}
        problems: list[Problem] = []
        rule = row.auto_name
        if rule and not inputs.get(rule.input) and not inputs.get(rule.prefix_input):
            if old.get(rule.input) and auto_naming.is_auto_named(old, rule.input):
                inputs[rule.input] = old[rule.input]
                defaulted.append(rule.input)
            elif naming_off:
                problems.append((rule.input, "automatic naming is disabled: set a name"))
            else:
                try:
                    inputs[rule.input] = auto_naming.auto_name(rule, name, inputs, seed, proposed)
                    defaulted.append(rule.input)
                except auto_naming.NameTooLong as error:
                    problems.append((rule.input, str(error)))
        checker = check.Checker(row, shape, secrets)
        checked = checker.check(inputs)
        mapped = coverage.mapped_inputs(token) | row.unsupported.keys()
        problems += checker.problems
        problems += [
            (key, f"the stand-in provider has no mapping for {key!r} of {token}")
            for key in checked
            if key not in mapped
        ]
        if defaulted:
            checked[META] = sorted(defaulted)
        return checked, problems

    def _add_tags(self, row: ResourceType, inputs: dict[str, Any]) -> None:
        default_tags = self._configured().tags
        if row.tags and default_tags and inputs.get("tags") is not UNKNOWN:
            inputs["tags"] = {**default_tags, **(inputs.get("tags") or {})}

    def diff(
        self, token: str, old: Mapping[str, Any], new: Mapping[str, Any], ignored: tuple[str, ...] = ()
    ) -> DiffResult:
        """Return the changes from the old inputs to the new ones."""
        row, shape = row_and_shape(token)
        changes = [c for c in diff.changes(row, shape, old, new) if not _ignored(c.path, ignored)]
        replaced = any(change.replaces for change in changes)
        same_name = row.auto_name is not None and _same_explicit_name(row.auto_name.input, old, new)
        return DiffResult(changes, replaced and (row.delete_before_replace or same_name))

    def preview_create(self, token: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs of a create at preview: those that follow from the inputs, the others unknown."""
        row, shape = row_and_shape(token)
        out: dict[str, Any] = {}
        for name in shape.outputs:
            if name == "tagsAll" and row.tags:
                out[name] = inputs.get("tags") or {}
            elif inputs.get(name) is not None:
                out[name] = _with_computed(row, shape.outputs[name].type, inputs[name], name)
            elif name not in shape.inputs or shape.computed(name):
                out[name] = UNKNOWN
        if row.regional and "region" in out:
            out["region"] = inputs.get("region") or self._configured().access.region
        return out

    def preview_update(self, token: str, state: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs of an update at preview: the state with the new inputs; `updated_outputs` are unknown."""
        row, shape = row_and_shape(token)
        out = {k: v for k, v in state.items() if k not in shape.inputs or shape.computed(k) or k in inputs}
        out.update({name: value for name, value in inputs.items() if name in shape.outputs})
        if row.tags:
            out["tagsAll"] = inputs.get("tags") or {}
        out.update(dict.fromkeys(row.updated_outputs & shape.outputs.keys(), UNKNOWN))
        return out

    # -- during an update----------------------------------------------------------------------------------------------

    def operation(self, token: str, timeout: float = 0, **parts: Any) -> Operation:
        """Return the context of an operation on a resource."""
        row, shape = row_and_shape(token)
        self._configured()
        timeout = timeout or float(os.environ.get(TIMEOUT_VARIABLE, DEFAULT_TIMEOUT))
        return Operation(row, shape, self.cloud, timeout=timeout, **parts)

    def create(self, token: str, inputs: Mapping[str, Any], timeout: float = 0) -> tuple[str, dict[str, Any]]:
        _check_known(token, inputs)
        op = self.operation(token, timeout, inputs=_without_metadata(inputs))
        outputs = execute.create(op)
        return op.id, outputs

    def read(
        self, token: str, id_: str, state: Mapping[str, Any], inputs: Mapping[str, Any]
    ) -> tuple[str, dict[str, Any], dict[str, Any]] | None:
        """Return the current id, outputs and inputs, or None if the resource does not exist. No state: an import."""
        row, _ = row_and_shape(token)
        importing = not state
        id_inputs: Mapping[str, Any] = {}
        if importing and row.parse_import_id:
            try:
                id_, id_inputs = row.parse_import_id(id_)
            except ValueError as error:
                raise InvalidRequest(f"{id_!r} cannot be imported as {token}: {error}") from None
        before = {**id_inputs, **inputs}
        op = self.operation(token, inputs=_without_metadata(before), old_inputs=dict(before), state=dict(state), id=id_)
        try:
            outputs = execute.read(op)
        except execute.NotFound:
            return None
        return op.id, outputs, read_inputs(op, outputs, importing=importing)

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
        _check_known(token, new)
        changed = frozenset(str(change.path[0]) for change in self.diff(token, old, new, ignored).changes)
        parts = {
            "inputs": _without_metadata(new),
            "old_inputs": dict(old),
            "state": dict(state),
            "id": id_,
            "changed": changed,
        }
        return execute.update(self.operation(token, timeout, **parts))

    def delete(
        self, token: str, id_: str, state: Mapping[str, Any], inputs: Mapping[str, Any], timeout: float = 0
    ) -> None:
        execute.delete(
            self.operation(token, timeout, inputs=_without_metadata(inputs or state), state=dict(state), id=id_)
        )

    def invoke(self, token: str, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
        if token not in functions.TABLE:
            raise Unsupported(_unsupported_message("function", token, functions.TABLE))
        self._configured()
        return functions.invoke(self.cloud, token, arguments)


def row_and_shape(token: str) -> tuple[ResourceType, shapes.Shape]:
    """Return the row and the shape of a type."""
    if token not in rows.TABLE:
        raise Unsupported(_unsupported_message("type", token, rows.TABLE))
    return rows.TABLE[token], shapes.shape(token)


def _unsupported_message(kind: str, token: str, table: Mapping[str, object]) -> str:
    from agentenv.rehearsal.providers.aws.value_kinds import nearest

    return (
        f"the stand-in aws provider has no {kind} {token!r}{nearest(token, table)}. "
        "Add a row (see agentenv/rehearsal/providers/aws), or install the official aws plugin: "
        "it is used if it is on PATH"
    )


def _without_metadata(inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in inputs.items() if not k.startswith("__") and v is not None}


def _check_known(token: str, inputs: Mapping[str, Any]) -> None:
    unknown = sorted(k for k, v in inputs.items() if has_unknown(v))
    if unknown:
        raise InvalidRequest(f"{token}: still unknown during the update: {', '.join(unknown)}")


def _ignored(path: Path, ignored: tuple[str, ...]) -> bool:
    from agentenv.rehearsal.providers.common.property_values import format_path

    text = format_path(path)
    return any(text == prefix or text.startswith((f"{prefix}.", f"{prefix}[")) for prefix in ignored)


def _same_explicit_name(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Return whether the program sets the same name again: both resources cannot exist at once."""
    return bool(new.get(name)) and old.get(name) == new.get(name) and not auto_naming.is_auto_named(new, name)


def _with_computed(row: ResourceType, kind: Any, value: Any, dotted: str) -> Any:
    if not isinstance(value, dict) or not isinstance(kind, dict):
        return value
    out = {k: _with_computed(row, kind[k]["t"], v, f"{dotted}.{k}") if k in kind else v for k, v in value.items()}
    for part in kind:
        if f"{dotted}.{part}" in row.computed and out.get(part) is None:
            out[part] = UNKNOWN
    return out
