"""Errors on their way to the engine: what was half made travels with them, what is secret does not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import grpc
from pulumi.runtime.proto import provider_pb2

from agentenv.rehearsal.providers.common.property_values import Path

if TYPE_CHECKING:
    from google.protobuf import struct_pb2

SHORTEST: Final = 4  # a secret of fewer characters would blacken half the message


@dataclass(frozen=True)
class Left:
    """A resource that exists although its operation failed."""

    id: str
    properties: struct_pb2.Struct
    inputs: struct_pb2.Struct | None  # None: those that were asked for
    reasons: Sequence[str]


class HalfMade(grpc.Status):
    """An error's status that carries the resource it left behind, for the engine to keep."""

    def __init__(self, left: Left, message: str) -> None:
        detail = provider_pb2.ErrorResourceInitFailed(
            id=left.id, properties=left.properties, inputs=left.inputs, reasons=list(left.reasons)
        )
        status = status_type()(code=grpc.StatusCode.UNKNOWN.value[0], message=message)
        status.details.add().Pack(detail)
        self.code = grpc.StatusCode.UNKNOWN
        self.details = message
        self.trailing_metadata = (("grpc-status-details-bin", status.SerializeToString()),)


def status_type() -> Any:
    """The type `google.rpc.Status`, which two packages bring and only one can load: whichever came first."""
    try:
        from pulumi.runtime.proto import status_pb2
    except TypeError:
        from google.rpc import status_pb2
    return status_pb2.Status


def without_secrets(message: str, values: Mapping[str, Any], secrets: Iterable[Path]) -> str:
    """A message in which no secret value stands, whoever put it there."""
    for path in secrets:
        found: Any = values
        for part in path:
            try:
                found = found[part]
            except (KeyError, IndexError, TypeError):
                found = None
                break
        for text in _texts(found):
            message = message.replace(text, "[secret]")
    return message


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for item in value.values() for text in _texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [value] if isinstance(value, str) and len(value) >= SHORTEST else []
