"""Recognize a call: its service, operation and parameters, in any protocol.

The signature's scope names the service. The service's model, as botocore ships it, names the operation and how its
parameters are encoded. Moto's request parsers read them; CBOR is read by botocore's own codec (`cbor`).
"""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import unquote

from moto.core.parse import PROTOCOL_PARSERS
from moto.core.request import Request, determine_request_protocol
from moto.core.routing import get_service_router
from moto.core.utils import get_service_model
from werkzeug.exceptions import HTTPException

from agentenv.rehearsal.cloud import cbor

REGION = "us-east-1"  # the default
RPC = re.compile(r"/service/(?P<target>[^/]+)/operation/(?P<operation>[^/]+)/?$")
SCOPE = re.compile(r"Credential=(?P<key>[^/,\s]+)/(?P<date>\d{8})/(?P<region>[^/]+)/(?P<service>[^/]+)/aws4_request")


class MalformedRequest(Exception):
    """The request names an operation, but its body or a value in it cannot be read."""


@dataclass
class Call:
    """One recognized request.

    The operation's model is `Any` to a type checker: botocore's models consist of cached properties that hide types.
    """

    service: str
    operation: Any
    protocol: str
    region: str
    key: str
    request: Request
    body: bytes
    labels: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return the operation's name."""
        return str(self.operation.name)

    @property
    def model(self) -> Any:
        """Return the service's model, `Any` like its operations."""
        return self.operation.service_model


@dataclass(frozen=True)
class Scope:
    """The credential scope of a request's signature."""

    service: str
    region: str
    key: str


@dataclass(frozen=True)
class UnknownOperation:
    """A request to a known service, whose model does not have the operation."""

    service: str
    operation: str
    protocol: str


@cache
def signing_names() -> dict[str, list[str]]:
    """Return the services by signing name, where that is not their own name alone."""
    text = files("agentenv.rehearsal.cloud").joinpath("data/signing_names.json").read_text(encoding="utf-8")
    return json.loads(text)


def scope_of(request: Request) -> Scope | None:
    """Return the scope that the request was signed for, in its header or in its query."""
    match = SCOPE.search(request.headers.get("Authorization", "")) or SCOPE.search(
        "Credential=" + unquote(request.args.get("X-Amz-Credential", ""))
    )
    return Scope(match["service"], match["region"], match["key"]) if match else None


def needs_no_signature(request: Request) -> bool:
    """Return whether it is an STS operation that needs no credentials, according to its model."""
    model = service_model("sts")
    operation_name = request.values.get("Action", "")
    return (
        request.values.get("Version") == model.api_version
        and operation_name in model.operation_names
        and model.operation_model(operation_name).auth_type == "none"
    )


def service_model(service: str) -> Any:
    """Return the service's model, or None where botocore has none of that name."""
    try:
        return get_service_model(service)
    except Exception:  # noqa: BLE001 -- the loader raises a class of its own for each way of not knowing
        return None


def candidates(signed: str) -> list[Any]:
    """Return the services that may be meant by a signing name."""
    names = signing_names().get(signed, [signed])
    return [model for name in names if (model := service_model(name)) is not None]


def read_body(request: Request, scope: Scope | None) -> bytes:
    """Return the whole body, decompressed unless it is for S3, which stores it as it is."""
    body = request.get_data(cache=True, parse_form_data=False)
    if request.headers.get("Content-Encoding", "").lower() == "gzip" and scope and scope.service != "s3":
        try:
            body = gzip.decompress(body)
        except (OSError, EOFError) as error:
            raise MalformedRequest(f"The body is not gzip: {error}") from error
        request.environ.pop("HTTP_CONTENT_ENCODING")
        request._cached_data = body
    return body


def recognize(request: Request, scope: Scope, body: bytes) -> Call | UnknownOperation | None:
    """Return the call of a signed request; UnknownOperation if the service does not have it; None without a service."""
    rpc = RPC.match(request.path)
    operation_name = ""
    models = candidates(scope.service)
    if request.path.startswith("/v20180820/"):
        # S3 Control signs as S3, whose objects could have any path; no bucket has a name that begins like this.
        models = [model for model in models if model.service_name == "s3control"] or models
    for model in models:
        if rpc and "smithy-rpc-v2-cbor" in model.metadata.get("protocols", []):
            operation_name = rpc["operation"]
            if operation_name in model.operation_names:
                operation = model.operation_model(operation_name)
                named_service = str(model.service_name)
                return Call(named_service, operation, "smithy-rpc-v2-cbor", scope.region, scope.key, request, body)
            continue
        call = _routed(model, request, scope, body)
        if call is not None:
            return call
    if not models:
        return None
    target = request.headers.get("X-Amz-Target", "").rpartition(".")[2]
    operation_name = operation_name or target or request.values.get("Action", "") or f"{request.method} {request.path}"
    return UnknownOperation(str(models[0].service_name), operation_name, _protocol_of(models[0], request))


def _protocol_of(model: Any, request: Request) -> str:
    """Return the protocol of a request to a service."""
    if request.headers.get("Smithy-Protocol") == "rpc-v2-cbor":
        return "smithy-rpc-v2-cbor"
    try:
        return determine_request_protocol(model, request.content_type)
    except NotImplementedError:
        return str(model.protocol)


def _routed(model: Any, request: Request, scope: Scope, body: bytes) -> Call | None:
    version = request.values.get("Version") if model.protocol in {"query", "ec2"} else None
    if version and version != model.api_version:
        return None
    try:
        operation, labels = get_service_router(str(model.service_name)).match(request)
    except (HTTPException, NotImplementedError):
        return None
    protocol = _protocol_of(model, request)
    return Call(str(model.service_name), operation, protocol, scope.region, scope.key, request, body, labels)


def parameters_of(call: Call) -> dict[str, Any]:
    """Return the call's parameters, by the names of its operation's model."""
    shape = call.operation.input_shape
    if shape is None:
        return {}
    try:
        if call.protocol == "smithy-rpc-v2-cbor":
            return cbor.read(call.body, shape) if call.body else {}
        if call.protocol in {"json", "rest-json"} and call.body and not _streams(call):
            json.loads(call.body)  # the parser below takes whatever is no JSON for a message
        parsed = PROTOCOL_PARSERS[call.protocol](call.operation).parse(
            {
                "method": call.request.method,
                "values": call.request.values,
                "headers": call.request.headers,
                "body": call.body,
                "url_path": call.request.path,
                "url_params": call.labels,
            }
        )
    except Exception as error:  # the parsers raise whatever a malformed value runs into
        raise MalformedRequest(f"{type(error).__name__}: {error}") from error
    return {name: value for name, value in parsed.items() if not _is_absent(value, shape.members[name])}


def _streams(call: Call) -> bool:
    """Return whether the body is a payload and not an object of parameters."""
    shape = call.operation.input_shape
    payload = shape.serialization.get("payload")
    return bool(payload) and shape.members[payload].type_name in {"blob", "string"}


def _is_absent(value: Any, shape: Any) -> bool:
    """Return whether a value was not sent: the parsers read absent lists and maps beside the body as empty."""
    return value is None or (value in ([], {}) and shape.serialization.get("location") in {"querystring", "headers"})
