"""Encode results and errors in the call's protocol, by the service's model."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from moto.core.errors import COMMON_ERROR_CODES, get_error_model
from moto.core.exceptions import ServiceException
from moto.core.model import OperationModel
from moto.core.serialize import SerializationContext, get_serializer_class

from agentenv.rehearsal.cloud import cbor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentenv.rehearsal.cloud.requests import Call, UnknownOperation


class AwsError(ServiceException):
    """An error response with AWS's own code.

    `members` are what the service's model has beside the message, such as EKS's `clusterName`. The HTTP status is the
    model's; `status` is for codes that the model does not list.
    """

    def __init__(self, code: str, message: str, status: int | None = None, **members: Any) -> None:
        super().__init__(code, message)
        self.status = status
        self.ErrorCode = code  # EFS has the name among its members too
        self.__dict__.update(members)


@dataclass(frozen=True)
class Response:
    """The response to the client."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def ok(self) -> bool:
        """Return whether the call succeeded."""
        return self.status < 400


def result(call: Call, value: Mapping[str, Any]) -> Response:
    """Return the response to a successful call."""
    if call.protocol == "smithy-rpc-v2-cbor":
        body = cbor.write(dict(value), call.operation.output_shape)
        return Response(200, _cbor_headers(), body)
    return _serialised(call.model, call.operation, call.protocol, value, None)


def error_response(call: Call, reason: ServiceException) -> Response:
    """Return the error response to a call."""
    return _refused(call.model, call.operation, call.protocol, reason)


def unknown_operation_response(unknown: UnknownOperation, model: Any) -> Response:
    """Return the response to an operation that the service does not have."""
    nothing = OperationModel({"http": {}, "name": unknown.operation}, model, unknown.operation)
    return _refused(model, nothing, unknown.protocol, unknown_operation_error(unknown.protocol, unknown.operation))


def unknown_operation_error(protocol: str, operation: str) -> AwsError:
    """Return AWS's own error for an unknown operation, which SDKs do not retry."""
    text = f"The rehearsal's cloud does not know the operation {operation}."
    match protocol:
        case "query" | "ec2":
            return AwsError("InvalidAction", text, 400)
        case "rest-xml":
            return AwsError("MethodNotAllowed", text, 405)
        case "json":
            return AwsError("UnknownOperationException", text, 400)
        case _:
            return AwsError("UnknownOperationException", text, 404)


def _refused(model: Any, operation: Any, protocol: str, reason: ServiceException) -> Response:
    if reason.code not in COMMON_ERROR_CODES:
        COMMON_ERROR_CODES.append(reason.code)  # moto's list of names that models leave out; it warns of any other
    status = getattr(reason, "status", None)
    if protocol != "smithy-rpc-v2-cbor":
        return _serialised(model, operation, protocol, reason, status)
    shape: Any = get_error_model(reason, model)
    # The modelled name goes in the body; clients that grew up with the query protocol look for its code in a header.
    error_document = {
        "__type": f"{model.metadata.get('targetPrefix', model.service_name)}#{shape.name}",
        "message": reason.message,
    }
    serialized = cbor.write_plain(error_document)
    headers = _cbor_headers()
    if model.is_query_compatible:
        headers["x-amzn-query-error"] = f"{shape.error_code};{'Sender' if shape.is_sender_fault else 'Receiver'}"
    return Response(status or shape.metadata.get("error", {}).get("httpStatusCode", 400), headers, serialized)


def _cbor_headers() -> dict[str, str]:
    return {"Content-Type": cbor.CONTENT_TYPE, "Smithy-Protocol": "rpc-v2-cbor", "x-amzn-RequestId": str(uuid.uuid4())}


def _serialised(model: Any, operation: Any, protocol: str, value: object, status: int | None) -> Response:
    request_id = str(uuid.uuid4())
    serializer = get_serializer_class(str(model.service_name), protocol)(operation, SerializationContext(request_id))
    serialized = serializer.serialize(value)
    body = serialized["body"]
    return Response(
        status or serialized["status_code"],
        {**serialized["headers"], "x-amzn-RequestId": request_id},
        body.encode() if isinstance(body, str) else body,
    )
