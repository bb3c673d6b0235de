"""Validate a call's parameters against its service's model, with that service's error.

AWS validates requests against the same models: required members, types, enums, patterns, lengths and ranges. Moto
does not, so a program could pass here and fail there. Constraints that the published model states more strictly than
the service enforces are exempt by row in `data/lenient.json`, each with its reason.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import regex

from agentenv.rehearsal.cloud.responses import AwsError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentenv.rehearsal.cloud.requests import Call

PATTERN_SECONDS = 1.0
# The errors that operations may declare for invalid requests, in order of preference.
VALIDATION_ERRORS = (
    "ValidationException",
    "InvalidParameterException",
    "BadRequestException",
    "BadRequest",
    "InvalidRequestException",
    "InvalidInput",
)
NUMBERS = {"integer": int, "long": int, "short": int, "byte": int, "float": (int, float), "double": (int, float)}


@dataclass(frozen=True)
class Violation:
    """One value that the model does not allow."""

    path: str
    member: str
    shown: str
    constraint: str
    kind: str


@cache
def lenient() -> dict[str, str]:
    """Return the constraints that are not enforced, by `service.Shape.kind`, with the reason."""
    text = files("agentenv.rehearsal.cloud").joinpath("data/lenient.json").read_text(encoding="utf-8")
    return json.loads(text)


@cache
def compiled(pattern: str) -> regex.Pattern[str] | None:
    """Return a model's pattern, or None if its dialect is not supported."""
    try:
        return regex.compile(pattern)
    except regex.error:
        return None


def find_violations(service: str, operation: Any, parameters: dict[str, Any]) -> list[Violation]:
    """Return every violation of the model in the parameters."""
    shape = operation.input_shape
    return [] if shape is None else list(_Reader(service).walk(parameters, shape, "", ""))


def check_parameters(call: Call) -> None:
    """Raise the service's error if the parameters do not fit the model."""
    violations = find_violations(call.service, call.operation, call.parameters)
    if violations:
        raise validation_error(call, violations)


def validation_error(call: Call, violations: list[Violation]) -> AwsError:
    """Return the error for invalid parameters, in the service's own shape."""
    wrong_type = next((violation for violation in violations if violation.kind == "type"), None)
    if wrong_type and call.protocol not in {"ec2", "query", "rest-xml"}:
        return AwsError("SerializationException", f"{wrong_type.path}: {wrong_type.constraint}", 400)
    if call.protocol == "ec2":
        first = violations[0]
        if first.kind == "required":
            return AwsError("MissingParameter", f"The request must contain the parameter {first.member}", 400)
        text = f"Value ({first.shown}) for parameter {first.member} is invalid. {first.constraint}"
        return AwsError("InvalidParameterValue", text, 400)
    if call.service == "s3":
        return AwsError("InvalidArgument", f"{violations[0].member}: {violations[0].constraint}", 400)
    text = f"{len(violations)} validation error{'s' if len(violations) > 1 else ''} detected: " + "; ".join(
        f"Value {violation.shown} at '{violation.path}' failed to satisfy constraint: {violation.constraint}"
        for violation in violations
    )
    return AwsError(validation_code(call), text, 400)


def validation_code(call: Call) -> str:
    """Return the code with which this operation reports invalid values."""
    declared = {str(shape.name) for shape in call.operation.error_shapes}
    for code in VALIDATION_ERRORS:
        if code in declared:
            return code
    return "ValidationError" if call.protocol in {"query", "rest-xml"} else "ValidationException"


class _Reader:
    def __init__(self, service: str) -> None:
        self.service = service

    def walk(self, value: Any, shape: Any, path: str, member: str) -> Iterator[Violation]:
        kind = shape.type_name
        if getattr(shape, "is_document_type", False):
            return
        expected = {"structure": dict, "map": dict, "list": list, "string": str, "boolean": bool, **NUMBERS}.get(kind)
        wrong = expected is not None and not isinstance(value, expected)
        if wrong or (kind in NUMBERS and isinstance(value, bool)):
            yield Violation(path, member, "", f"Expected {kind}, found {type(value).__name__}.", "type")
            return
        if kind == "structure":
            yield from self._structure(value, shape, path)
        elif kind == "list":
            yield from self._length(len(value), shape, path, member, "[...]")
            for number, item in enumerate(value, start=1):
                yield from self.walk(item, shape.member, f"{path}.{number}.member", member)
        elif kind == "map":
            yield from self._length(len(value), shape, path, member, "{...}")
            for key, item in value.items():
                yield from self.walk(key, shape.key, f"{path}.key", member)
                yield from self.walk(item, shape.value, f"{path}.{key}.member", member)
        elif kind == "string":
            yield from self._string(value, shape, path, member)
        elif kind == "blob" and isinstance(value, bytes | str):
            yield from self._length(len(value), shape, path, member, "java.nio.HeapByteBuffer")
        elif kind in NUMBERS:
            yield from self._range(value, shape, path, member)

    def _structure(self, value: dict[str, Any], shape: Any, path: str) -> Iterator[Violation]:
        for name in shape.metadata.get("required", []):
            if name not in value and not self._lenient(shape, f"required.{name}"):
                yield Violation(_join(path, name), name, "null", "Member must not be null", "required")
        for name, item in value.items():
            inner = shape.members.get(name)
            if inner is not None:
                yield from self.walk(item, inner, _join(path, name), name)

    def _string(self, value: str, shape: Any, path: str, member: str) -> Iterator[Violation]:
        shown = "'***'" if shape.metadata.get("sensitive") else f"'{value[:200]}'"
        enum = shape.metadata.get("enum")
        if enum and value not in enum and not self._lenient(shape, "enum"):
            text = f"Member must satisfy enum value set: [{', '.join(sorted(enum))}]"
            yield Violation(path, member, shown, text, "enum")
        yield from self._length(len(value), shape, path, member, shown)
        pattern = shape.metadata.get("pattern")
        if pattern and not self._lenient(shape, "pattern") and not _fits(pattern, value):
            text = f"Member must satisfy regular expression pattern: {pattern}"
            yield Violation(path, member, shown, text, "pattern")

    def _length(self, length: int, shape: Any, path: str, member: str, shown: str) -> Iterator[Violation]:
        if length < (shape.metadata.get("min") or 0) and not self._lenient(shape, "min"):
            text = f"Member must have length greater than or equal to {shape.metadata['min']}"
            yield Violation(path, member, shown, text, "length")
        if length > (shape.metadata.get("max") or length) and not self._lenient(shape, "max"):
            text = f"Member must have length less than or equal to {shape.metadata['max']}"
            yield Violation(path, member, shown, text, "length")

    def _range(self, value: float, shape: Any, path: str, member: str) -> Iterator[Violation]:
        low, high = shape.metadata.get("min"), shape.metadata.get("max")
        if low is not None and value < float(low) and not self._lenient(shape, "min"):
            text = f"Member must have value greater than or equal to {low}"
            yield Violation(path, member, f"'{value}'", text, "range")
        if high is not None and value > float(high) and not self._lenient(shape, "max"):
            text = f"Member must have value less than or equal to {high}"
            yield Violation(path, member, f"'{value}'", text, "range")

    def _lenient(self, shape: Any, kind: str) -> bool:
        rows = lenient()
        return f"{self.service}.{shape.name}.{kind}" in rows or f"{self.service}.*.{kind}" in rows


def _join(path: str, name: str) -> str:
    """Join a member's path; AWS writes names with a small first letter, whatever the model has."""
    own = name[:1].lower() + name[1:]
    return f"{path}.{own}" if path else own


def _fits(pattern: str, value: str) -> bool:
    reader = compiled(pattern)
    if reader is None:
        return True
    try:
        # Older models write their patterns without anchors and mean the whole value.
        return reader.fullmatch(value, timeout=PATTERN_SECONDS) is not None
    except TimeoutError:
        return True
