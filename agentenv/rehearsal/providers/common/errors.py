"""Errors for the engine: they carry a resource that was created half way, and no secret values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import grpc
from pulumi.runtime.proto import provider_pb2

from agentenv.rehearsal.providers.common.property_values import Path

if TYPE_CHECKING:
    from google.protobuf import struct_pb2

MIN_SECRET_LENGTH: Final = 4  # a shorter secret would replace half the message


@dataclass(frozen=True)
class PartialResource:
    """A resource that exists although its operation failed."""

    id: str
    properties: struct_pb2.Struct
    inputs: struct_pb2.Struct | None  # None: those of the request
    reasons: Sequence[str]


class InitFailedStatus(grpc.Status):
    """An error status that carries the resource, so that the engine keeps it in the state."""

    def __init__(self, resource: PartialResource, message: str) -> None:
        detail = provider_pb2.ErrorResourceInitFailed(
            id=resource.id, properties=resource.properties, inputs=resource.inputs, reasons=list(resource.reasons)
        )
        status = status_type()(code=grpc.StatusCode.UNKNOWN.value[0], message=message)
        status.details.add().Pack(detail)
        self.code = grpc.StatusCode.UNKNOWN
        self.details = message
        self.trailing_metadata = (("grpc-status-details-bin", status.SerializeToString()),)


def status_type() -> Any:
    """Return the type `google.rpc.Status`. Two packages define it, and only the first one imported can load."""
    try:
        from pulumi.runtime.proto import status_pb2
    except TypeError:
        from google.rpc import status_pb2
    return status_pb2.Status


def without_secrets(message: str, values: Mapping[str, Any], secrets: Iterable[Path]) -> str:
    """Return a message with all secret values replaced."""
    for path in secrets:
        value: Any = values
        for part in path:
            try:
                value = value[part]
            except (KeyError, IndexError, TypeError):
                value = None
                break
        for text in _texts(value):
            message = message.replace(text, "[secret]")
    return message


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for item in value.values() for text in _texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [value] if isinstance(value, str) and len(value) >= MIN_SECRET_LENGTH else []
