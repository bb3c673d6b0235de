"""Recognises a call: which service, which operation, with which parameters, in whatever protocol it came.

The signature's scope names the service; the service's own model, as botocore ships it, names the operation and says
how its parameters are spelled. Moto's request parsers do the reading; CBOR is read by botocore's own codec (`cbor`).
"""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from moto.core.parse import PROTOCOL_PARSERS
from moto.core.request import Request, determine_request_protocol
from moto.core.routing import get_service_router
from moto.core.utils import get_service_model
from werkzeug.exceptions import HTTPException

from rehearsal.cloud import cbor

if TYPE_CHECKING:
    from moto.core.model import OperationModel, ServiceModel, Shape

ACCOUNT = "123456789012"
RPC = re.compile(r"/service/(?P<target>[^/]+)/operation/(?P<operation>[^/]+)/?$")
SCOPE = re.compile(r"Credential=(?P<key>[^/,\s]+)/(?P<date>\d{8})/(?P<region>[^/]+)/(?P<service>[^/]+)/aws4_request")


class Unreadable(Exception):
    """The request names an operation, but its body or a value in it cannot be read."""


@dataclass
class Call:
    """One request, recognised."""

    service: str
    operation: OperationModel
    protocol: str
    region: str
    key: str
    request: Request
    body: bytes
    labels: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The operation's name."""
        return str(self.operation.name)

    @property
    def model(self) -> ServiceModel:
        """The service's model."""
        return self.operation.service_model


@dataclass(frozen=True)
class Scope:
    """What a request's signature says of itself."""

    service: str
    region: str
    key: str


@dataclass(frozen=True)
class Stranger:
    """A request for a service that we know, whose operation its model does not have."""

    service: str
    operation: str
    protocol: str


@cache
def signing_names() -> dict[str, list[str]]:
    """Services by the name they sign with, where that is not their own name alone."""
    text = files("rehearsal.cloud").joinpath("data/signing_names.json").read_text(encoding="utf-8")
    return json.loads(text)


def scope_of(request: Request) -> Scope | None:
    """Service and region that the request was signed for, in its header or in its query."""
    found = SCOPE.search(request.headers.get("Authorization", "")) or SCOPE.search(
        "Credential=" + unquote(request.args.get("X-Amz-Credential", ""))
    )
    return Scope(found["service"], found["region"], found["key"]) if found else None


def model_of(service: str) -> ServiceModel | None:
    """The service's model, or nothing where botocore has none of that name."""
    try:
        return get_service_model(service)
    except Exception:  # noqa: BLE001 -- the loader raises a class of its own for each way of not knowing
        return None


def candidates(signed: str) -> list[ServiceModel]:
    """The services that may be meant by a signing name."""
    names = signing_names().get(signed, [signed])
    return [model for name in names if (model := model_of(name)) is not None]


def read_body(request: Request) -> bytes:
    """The whole body, unpacked if the client compressed it."""
    body = request.get_data(cache=True, parse_form_data=False)
    if request.headers.get("Content-Encoding", "").lower() == "gzip":
        try:
            body = gzip.decompress(body)
        except (OSError, EOFError) as error:
            raise Unreadable(f"The body is not gzip: {error}") from error
        request.environ.pop("HTTP_CONTENT_ENCODING")
        request._cached_data = body  # noqa: SLF001 -- werkzeug has no other way to exchange a body that was read
    return body


def recognise(request: Request, scope: Scope, body: bytes) -> Call | Stranger | None:
    """The call that a signed request makes; a Stranger if its service has no such operation; None if no service."""
    rpc = RPC.match(request.path)
    named = ""
    models = candidates(scope.service)
    if request.path.startswith("/v20180820/"):
        # S3 Control signs as S3, whose objects could have any path; no bucket has a name that begins like this.
        models = [model for model in models if model.service_name == "s3control"] or models
    for model in models:
        if rpc and "smithy-rpc-v2-cbor" in model.metadata.get("protocols", []):
            named = rpc["operation"]
            if named in model.operation_names:
                operation = model.operation_model(named)
                return _call(model, operation, "smithy-rpc-v2-cbor", scope, request, body)
            continue
        found = _routed(model, request, scope, body)
        if found is not None:
            return found
    if not models:
        return None
    target = request.headers.get("X-Amz-Target", "").rpartition(".")[2]
    named = named or target or request.values.get("Action", "") or f"{request.method} {request.path}"
    return Stranger(str(models[0].service_name), named, _spoken(models[0], request))


def _spoken(model: ServiceModel, request: Request) -> str:
    """The protocol of a request to a service."""
    if request.headers.get("Smithy-Protocol") == "rpc-v2-cbor":
        return "smithy-rpc-v2-cbor"
    try:
        return determine_request_protocol(model, request.content_type)
    except NotImplementedError:
        return str(model.protocol)


def _routed(model: ServiceModel, request: Request, scope: Scope, body: bytes) -> Call | None:
    version = request.values.get("Version") if model.protocol in {"query", "ec2"} else None
    if version and version != model.api_version:
        return None
    try:
        operation, labels = get_service_router(str(model.service_name)).match(request)
    except (HTTPException, NotImplementedError):
        return None
    call = _call(model, operation, _spoken(model, request), scope, request, body)
    call.labels = labels
    return call


def _call(
    model: ServiceModel, operation: OperationModel, protocol: str, scope: Scope, request: Request, body: bytes
) -> Call:
    return Call(str(model.service_name), operation, protocol, scope.region, scope.key, request, body)


def parameters_of(call: Call) -> dict[str, Any]:
    """What the call says, by the names of its operation's model."""
    shape = call.operation.input_shape
    if shape is None:
        return {}
    try:
        if call.protocol == "smithy-rpc-v2-cbor":
            return cbor.read(call.body, shape) if call.body else {}
        if call.protocol in {"json", "rest-json"} and call.body and not _streams(call):
            whole = json.loads(call.body)
            if not isinstance(whole, dict | list):
                raise Unreadable(f"The body is {type(whole).__name__}, not an object.")
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
    except Unreadable:
        raise
    except Exception as error:  # the parsers raise whatever a malformed value runs into
        raise Unreadable(f"{type(error).__name__}: {error}") from error
    return {name: value for name, value in parsed.items() if not _unsaid(value, shape.members[name])}


def _streams(call: Call) -> bool:
    """Whether the body is a payload of its own and not an object of parameters."""
    shape = call.operation.input_shape
    payload = shape.serialization.get("payload") if shape is not None else None
    return bool(payload) and shape.members[payload].type_name in {"blob", "string"}  # type: ignore[union-attr]


def _unsaid(value: Any, shape: Shape) -> bool:
    """Whether a value stands for nothing: the parsers read lists and maps beside the body as empty if not sent."""
    return value is None or (value in ([], {}) and shape.serialization.get("location") in {"querystring", "headers"})
