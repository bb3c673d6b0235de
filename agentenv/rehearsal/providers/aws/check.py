"""Validate inputs at preview, without calling the service. Each problem names its path.

Unknown values pass: they are checked during the update, when they are known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from agentenv.rehearsal.providers.aws import api_calls, name_mapping, shapes, value_kinds
from agentenv.rehearsal.providers.aws.row import Call, Problem, ResourceType
from agentenv.rehearsal.providers.common.property_values import UNKNOWN, Path, format_path

TYPE_NAMES: Final = {"s": "a string", "b": "a boolean", "i": "an integer", "n": "a number"}
REDACTED: Final = "the value"


class Checker:
    """One check of the inputs of one resource, which adds to `problems`."""

    def __init__(self, row: ResourceType, shape: shapes.Shape, secrets: frozenset[Path]) -> None:
        self.row = row
        self.shape = shape
        self.secrets = secrets
        self.problems: list[Problem] = []

    def check(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the inputs in the form the state keeps. They are usable only if `problems` is empty."""
        checked: dict[str, Any] = {}
        for name, value in inputs.items():
            if name.startswith("__") or value is None:
                continue
            fact = self.shape.inputs.get(name)
            if fact is None:
                suggestion = value_kinds.nearest(name, self.shape.inputs)
                self.problems.append((name, f"{self.row.type} has no input {name!r}{suggestion}"))
            elif name in self.row.unsupported and not value_kinds.empty(value):
                self.problems.append(
                    (name, f"the stand-in provider does not support this: {self.row.unsupported[name]}")
                )
            else:
                checked[name] = self._value(value, fact.type, (name,), name)
        for name, fact in self.shape.inputs.items():
            if fact.required and name not in checked and inputs.get(name) is None:
                self.problems.append((name, f"is required by {self.row.type} and missing"))
        if not self.problems:
            for validate in self.row.validators:
                self.problems.extend(validate(checked))
            self.problems.extend(self._check_by_models(checked))
        self.problems = list(dict.fromkeys(self.problems))  # two operations may have the same member
        return checked

    def _report(self, path: Path, message: str, value: Any) -> None:
        if any(path[: len(s)] == s or s[: len(path)] == path for s in self.secrets):
            message = message.replace(repr(value), REDACTED).replace(str(value), REDACTED)
        self.problems.append((format_path(path), message))

    def _value(self, value: Any, kind: Any, path: Path, dotted: str) -> Any:
        if value is UNKNOWN or value is None:
            return value
        special = self.row.value_kinds.get(dotted)
        if special is not None and special.normalize is not value_kinds.unchanged:
            value = special.normalize(value)
        problems_before = len(self.problems)
        if isinstance(kind, dict):
            value = self._object(value, kind, path, dotted)
        elif isinstance(kind, list):
            value = self._many(value, kind, path, dotted)
        else:
            value = self._scalar(value, kind, path, dotted, special is None)
        if (
            special is not None
            and len(self.problems) == problems_before
            and (special.whole_list or not isinstance(value, list))
        ):
            problem = special.validate(value)
            if problem:
                self._report(path, problem, value)
        return value

    def _object(self, value: Any, kind: dict[str, Any], path: Path, dotted: str) -> Any:
        if not isinstance(value, dict):
            self._report(path, f"must be an object with {', '.join(sorted(kind))}, found {_type_name(value)}", value)
            return value
        facts = shapes.fields(kind)
        out: dict[str, Any] = {}
        for key, item in value.items():
            if key.startswith("__"):
                continue
            if key not in facts:
                self._report((*path, key), f"is not known here{value_kinds.nearest(key, facts)}", item)
                continue
            out[key] = self._value(item, facts[key].type, (*path, key), f"{dotted}.{key}")
        for key, fact in facts.items():
            if fact.required and value.get(key) is None:
                self._report((*path, key), "is required and missing", None)
        return out

    def _many(self, value: Any, kind: list[Any], path: Path, dotted: str) -> Any:
        if kind[0] == "array":
            if not isinstance(value, list):
                self._report(path, f"must be a list, found {_type_name(value)}", value)
                return value
            return [self._value(item, kind[1], (*path, i), dotted) for i, item in enumerate(value)]
        if not isinstance(value, dict):
            self._report(path, f"must be a map, found {_type_name(value)}", value)
            return value
        out = {
            str(k): self._value(v, kind[1], (*path, k), f"{dotted}.*")
            for k, v in value.items()
            if not k.startswith("__")
        }
        if dotted == "tags":
            self._tags(out, path)
        return out

    def _tags(self, tags: Mapping[str, Any], path: Path) -> None:
        for key, value in tags.items():
            if not 1 <= len(key) <= 128 or key.lower().startswith("aws:"):
                self._report((*path, key), "a tag's key has 1 to 128 characters and does not begin with aws:", key)
            if isinstance(value, str) and len(value) > 256:
                self._report((*path, key), f"a tag's value has at most 256 characters, this has {len(value)}", value)

    def _scalar(self, value: Any, kind: str, path: Path, dotted: str, plain: bool) -> Any:  # noqa: PLR0911 - a case a type
        if kind == "s":
            if isinstance(value, bool):
                return "true" if value else "false"
            if isinstance(value, int | float):
                return str(value)
            if not isinstance(value, str):
                self._report(path, f"must be {TYPE_NAMES[kind]}, found {_type_name(value)}", value)
            elif plain and dotted.rsplit(".", maxsplit=1)[-1].endswith(("Arn", "Arns")):
                problem = value_kinds.IS_ARN.validate(value)
                if problem:
                    self._report(path, problem, value)
            return value
        if kind == "b":
            if value in {"true", "false"} and isinstance(value, str):
                return value == "true"
            if not isinstance(value, bool):
                self._report(path, f"must be {TYPE_NAMES[kind]}, found {_type_name(value)}", value)
            return value
        if kind in {"i", "n"}:
            return self._number(value, kind, path)
        return value

    def _number(self, value: Any, kind: str, path: Path) -> Any:
        number = value
        if isinstance(value, str):
            try:
                number = float(value)
            except ValueError:
                number = None
        if isinstance(number, bool) or not isinstance(number, int | float):
            self._report(path, f"must be {TYPE_NAMES[kind]}, found {_type_name(value)} {value!r}", value)
            return value
        if float(number).is_integer():
            return int(number)
        if kind == "i":
            self._report(path, f"must be {TYPE_NAMES[kind]}, found {value!r}", value)
        return number

    def _check_by_models(self, inputs: Mapping[str, Any]) -> Iterator[Problem]:
        """Check patterns, lengths and enumerations of the inputs that an operation takes unchanged."""
        for call in (self.row.create, *self.row.updates):
            if not isinstance(call, Call):
                continue
            members = api_calls.members(call.service or self.row.service, call.operation)
            for name, value in inputs.items():
                if (call.inputs is None or name in call.inputs) and name not in call.convert and name != "tags":
                    member = call.member_names.get(name) or name_mapping.member(members, name) or ""
                    if member in members:
                        yield from self._check_by_model(value, members[member], (name,), name, call.member_names)

    def _check_by_model(
        self, value: Any, model: Any, path: Path, dotted: str, names: Mapping[str, str]
    ) -> Iterator[Problem]:
        if value is UNKNOWN or value is None:
            return
        kind = model.type_name
        if kind == "list":
            for index, item in enumerate(value if isinstance(value, list) else [value]):
                yield from self._check_by_model(item, model.member, (*path, index), dotted, names)
        elif kind == "structure" and isinstance(value, dict):
            for key, item in value.items():
                here = f"{dotted}.{key}"
                member = names.get(here) or name_mapping.member(model.members, key)
                if member in model.members:
                    yield from self._check_by_model(item, model.members[member], (*path, key), here, names)
                elif item is not None:
                    allowed = ", ".join(sorted(model.members))
                    yield format_path((*path, key)), f"is an output; {model.name} takes {allowed}"
        elif kind == "string" and isinstance(value, str) and value:
            problem = text_problem(value, model)
            if problem:
                secret = any(path[: len(s)] == s for s in self.secrets)
                yield format_path(path), problem.replace(repr(value), REDACTED) if secret else problem
        elif kind in {"integer", "long"} and isinstance(value, int | float):
            least, most = model.metadata.get("min"), model.metadata.get("max")
            if (least is not None and value < least) or (most is not None and value > most):
                yield format_path(path), f"{value!r} is out of range: allowed is {least} to {most}"


def text_problem(value: str, model: Any) -> str | None:
    """Return how a text violates the service's model, or None."""
    allowed = getattr(model, "enum", None)
    if allowed and value not in allowed:
        return f"{value!r} is not allowed{value_kinds.nearest(value, allowed)}; use one of {', '.join(allowed)}"
    least, most = model.metadata.get("min"), model.metadata.get("max")
    if least is not None and len(value) < least:
        return f"{value!r} is too short: at least {least} characters"
    if most is not None and len(value) > most:
        return f"has {len(value)} characters: at most {most}"
    pattern = model.metadata.get("pattern")
    if pattern and not _matches(pattern, value):
        return f"{value!r} does not match {pattern}"
    return None


def _matches(pattern: str, value: str) -> bool:
    try:
        compiled = re.compile(pattern)
    except re.error:
        return True  # the models use Java's classes here and there; the service itself checks it
    return bool(compiled.search(value) if pattern[0] == "^" or pattern[-1] == "$" else compiled.fullmatch(value))


def _type_name(value: Any) -> str:
    for kind, word in ((bool, "a boolean"), (dict, "an object"), (list, "a list"), (str, "text")):
        if isinstance(value, kind):
            return word
    return "a number"
