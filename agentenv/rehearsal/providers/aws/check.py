"""What can be told at preview, without calling anything: inputs that cannot be, by name and path.

Unknown values pass untouched: they are checked at the update, when they are known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from agentenv.rehearsal.providers.aws import api_calls as calls
from agentenv.rehearsal.providers.aws import name_mapping as spelling
from agentenv.rehearsal.providers.aws import shapes
from agentenv.rehearsal.providers.aws import value_kinds as kinds
from agentenv.rehearsal.providers.aws.row import Call, Problem, Row
from agentenv.rehearsal.providers.common.property_values import UNKNOWN, Path, spell

NAMES: Final = {"s": "a string", "b": "a boolean", "i": "an integer", "n": "a number"}
HIDDEN: Final = "the value"


class Checker:
    """One check of one resource's inputs; `problems` fills up as it goes."""

    def __init__(self, row: Row, shape: shapes.Shape, secrets: frozenset[Path]) -> None:
        self.row = row
        self.shape = shape
        self.secrets = secrets
        self.problems: list[Problem] = []

    def check(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs in the form that is kept; look at `problems` before using them."""
        kept: dict[str, Any] = {}
        for name, value in inputs.items():
            if name.startswith("__") or value is None:
                continue
            fact = self.shape.inputs.get(name)
            if fact is None:
                near = kinds.nearest(name, self.shape.inputs)
                self.problems.append((name, f"{self.row.type} has no input {name!r}{near}"))
            elif name in self.row.refused and not kinds.empty(value):
                self.problems.append((name, f"the stand-in provider cannot carry this out: {self.row.refused[name]}"))
            else:
                kept[name] = self._value(value, fact.type, (name,), name)
        for name, fact in self.shape.inputs.items():
            if fact.required and name not in kept and inputs.get(name) is None:
                self.problems.append((name, f"is required by {self.row.type} and missing"))
        if not self.problems:
            for rule in self.row.rules:
                self.problems.extend(rule(kept))
            self.problems.extend(self._by_models(kept))
        self.problems = list(dict.fromkeys(self.problems))  # two operations may have the same member
        return kept

    def _wrong(self, path: Path, message: str, value: Any) -> None:
        if any(path[: len(s)] == s or s[: len(path)] == path for s in self.secrets):
            message = message.replace(repr(value), HIDDEN).replace(str(value), HIDDEN)
        self.problems.append((spell(path), message))

    def _value(self, value: Any, kind: Any, path: Path, dotted: str) -> Any:
        if value is UNKNOWN or value is None:
            return value
        special = self.row.kinds.get(dotted)
        if special is not None and special.turn is not kinds.plain_turn:
            value = special.turn(value)
        found = len(self.problems)
        if isinstance(kind, dict):
            value = self._object(value, kind, path, dotted)
        elif isinstance(kind, list):
            value = self._many(value, kind, path, dotted)
        else:
            value = self._scalar(value, kind, path, dotted, special is None)
        if special is not None and len(self.problems) == found and (special.whole or not isinstance(value, list)):
            wrong = special.wrong(value)
            if wrong:
                self._wrong(path, wrong, value)
        return value

    def _object(self, value: Any, kind: dict[str, Any], path: Path, dotted: str) -> Any:
        if not isinstance(value, dict):
            self._wrong(path, f"must be an object with {', '.join(sorted(kind))}, found {_what(value)}", value)
            return value
        facts = shapes.fields(kind)
        out: dict[str, Any] = {}
        for key, item in value.items():
            if key.startswith("__"):
                continue
            if key not in facts:
                self._wrong((*path, key), f"is not known here{kinds.nearest(key, facts)}", item)
                continue
            out[key] = self._value(item, facts[key].type, (*path, key), f"{dotted}.{key}")
        for key, fact in facts.items():
            if fact.required and value.get(key) is None:
                self._wrong((*path, key), "is required and missing", None)
        return out

    def _many(self, value: Any, kind: list[Any], path: Path, dotted: str) -> Any:
        if kind[0] == "array":
            if not isinstance(value, list):
                self._wrong(path, f"must be a list, found {_what(value)}", value)
                return value
            return [self._value(item, kind[1], (*path, i), dotted) for i, item in enumerate(value)]
        if not isinstance(value, dict):
            self._wrong(path, f"must be a map, found {_what(value)}", value)
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
                self._wrong((*path, key), "a tag's key has 1 to 128 characters and does not begin with aws:", key)
            if isinstance(value, str) and len(value) > 256:
                self._wrong((*path, key), f"a tag's value has at most 256 characters, this has {len(value)}", value)

    def _scalar(self, value: Any, kind: str, path: Path, dotted: str, plain: bool) -> Any:  # noqa: PLR0911 - a case a type
        if kind == "s":
            if isinstance(value, bool):
                return "true" if value else "false"
            if isinstance(value, int | float):
                return str(value)
            if not isinstance(value, str):
                self._wrong(path, f"must be {NAMES[kind]}, found {_what(value)}", value)
            elif plain and dotted.rsplit(".", maxsplit=1)[-1].endswith(("Arn", "Arns")):
                wrong = kinds.IS_ARN.wrong(value)
                if wrong:
                    self._wrong(path, wrong, value)
            return value
        if kind == "b":
            if value in {"true", "false"} and isinstance(value, str):
                return value == "true"
            if not isinstance(value, bool):
                self._wrong(path, f"must be {NAMES[kind]}, found {_what(value)}", value)
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
            self._wrong(path, f"must be {NAMES[kind]}, found {_what(value)} {value!r}", value)
            return value
        if float(number).is_integer():
            return int(number)
        if kind == "i":
            self._wrong(path, f"must be {NAMES[kind]}, found {value!r}", value)
        return number

    def _by_models(self, inputs: Mapping[str, Any]) -> Iterator[Problem]:
        """Patterns, lengths and enumerations, where an input goes straight into a member of an operation."""
        for call in (self.row.create, *self.row.sets):
            if not isinstance(call, Call):
                continue
            members = calls.members(call.service or self.row.service, call.operation)
            for name, value in inputs.items():
                if (call.takes is None or name in call.takes) and name not in call.turns and name != "tags":
                    found = call.names.get(name) or spelling.member(members, name) or ""
                    if found in members:
                        yield from self._fits(value, members[found], (name,), name, call.names)

    def _fits(self, value: Any, model: Any, path: Path, dotted: str, names: Mapping[str, str]) -> Iterator[Problem]:
        if value is UNKNOWN or value is None:
            return
        kind = model.type_name
        if kind == "list":
            for index, item in enumerate(value if isinstance(value, list) else [value]):
                yield from self._fits(item, model.member, (*path, index), dotted, names)
        elif kind == "structure" and isinstance(value, dict):
            for key, item in value.items():
                here = f"{dotted}.{key}"
                found = names.get(here) or spelling.member(model.members, key)
                if found in model.members:
                    yield from self._fits(item, model.members[found], (*path, key), here, names)
                elif item is not None:
                    allowed = ", ".join(sorted(model.members))
                    yield spell((*path, key)), f"is an output; {model.name} takes {allowed}"
        elif kind == "string" and isinstance(value, str) and value:
            wrong = text_wrong(value, model)
            if wrong:
                hidden = any(path[: len(s)] == s for s in self.secrets)
                yield spell(path), wrong.replace(repr(value), HIDDEN) if hidden else wrong
        elif kind in {"integer", "long"} and isinstance(value, int | float):
            least, most = model.metadata.get("min"), model.metadata.get("max")
            if (least is not None and value < least) or (most is not None and value > most):
                yield spell(path), f"{value!r} is out of range: allowed is {least} to {most}"


def text_wrong(value: str, model: Any) -> str | None:
    """What the service's model has against a text, if anything."""
    allowed = getattr(model, "enum", None)
    if allowed and value not in allowed:
        return f"{value!r} is not allowed{kinds.nearest(value, allowed)}; use one of {', '.join(allowed)}"
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
        return True  # the models use Java's classes here and there; the service itself will judge
    return bool(compiled.search(value) if pattern[0] == "^" or pattern[-1] == "$" else compiled.fullmatch(value))


def _what(value: Any) -> str:
    for kind, word in ((bool, "a boolean"), (dict, "an object"), (list, "a list"), (str, "text")):
        if isinstance(value, kind):
            return word
    return "a number"
