"""Forward requests to moto, and recognize operations that it does not implement.

botocore's serializer encodes a call again in a protocol that moto supports if it came in another (CBOR), or if a
handler changed or created it. botocore's parser reads the response.
"""

from __future__ import annotations

import functools
import io
import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from botocore.parsers import create_parser
from botocore.serialize import create_serializer
from moto.backends import get_backend
from moto.core import responses, utils
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.exceptions import HTTPException
from werkzeug.test import EnvironBuilder

from agentenv.rehearsal.cloud.requests import service_model
from agentenv.rehearsal.cloud.responses import AwsError, Response

if TYPE_CHECKING:
    from moto.core.request import Request

    from agentenv.rehearsal.cloud.requests import Call

PROTOCOLS = ("json", "rest-json", "rest-xml", "query", "ec2")
# These block until something happens; under the lock they would block every other call.
BLOCKING = frozenset({("sqs", "ReceiveMessage"), ("stepfunctions", "StartSyncExecution"), ("lambda", "Invoke")})


class NotImplementedByMoto(Exception):
    """Moto does not implement the operation."""


# Moto lists a class's methods at each call, though they stay the same.
setattr(responses, "method_names_from_class", functools.cache(utils.method_names_from_class))  # noqa: B010 - imported there


class Dispatcher(DomainDispatcherApplication):
    """Moto's dispatcher, with errors for services that moto does not have, which it would print to standard output.

    It also caches the module of each host: moto lists its folders to find it, twice a request.
    """

    def __init__(self) -> None:
        super().__init__(create_backend_app)
        self._answering: dict[str | None, Any] = {}

    def get_backend_for_host(self, host: str | None) -> Any:
        """Return the module that serves a host name."""
        if host not in self._answering:
            self._answering[host] = self._backend_module(host)
        return self._answering[host]

    def _backend_module(self, host: str | None) -> Any:
        known = any(pattern.match(f"http://{host}") for _, pattern in self.backend_url_patterns)
        if host and "amazonaws.com" in host and not known:
            raise NotImplementedByMoto(f"moto has no service at {host}")
        return super().get_backend_for_host(host)


class MotoBackend:
    """Moto's applications, one for each service, behind one lock.

    Moto's backends are plain dicts that some operations iterate while others change them. Concurrent calls are only
    correct one at a time, and Python runs them one at a time anyway.
    """

    # A class attribute, because moto's state is global to the process.
    lock = threading.RLock()

    def __init__(self) -> None:
        self._dispatcher = Dispatcher()

    def prepare(self, service: str) -> None:
        """Load what a service's first call would otherwise wait for."""
        with self.lock, self._dispatcher.lock:
            if service not in self._dispatcher.app_instances:
                self._dispatcher.app_instances[service] = create_backend_app(service)  # type: ignore[arg-type]

    def backend(self, service: str, account: str, region: str) -> Any:
        """Return moto's own state of a service."""
        regions = get_backend(service)[account]  # type: ignore[call-overload]
        return regions[region] if region in regions else regions["aws"]

    def respond(self, environ: dict[str, Any], call: Call | None = None) -> Response:
        """Return moto's response to a request."""
        try:
            # The first request for a service imports it, and so may whatever else holds the lock: two threads that
            # import each other's modules halfway would wait for one another.
            with self.lock:
                application = self._dispatcher.get_application(environ)
            application.url_map.bind_to_environ(environ).match()
        except (HTTPException, ImportError, KeyError, AttributeError) as error:
            raise NotImplementedByMoto(f"moto has no route: {type(error).__name__}") from error
        began: list[tuple[str, list[tuple[str, str]]]] = []

        def start_response(status: str, headers: list[tuple[str, str]], _: object = None) -> Any:
            began[:] = [(status, headers)]
            return lambda _: None

        blocking = call is not None and (call.service, call.name) in BLOCKING
        try:
            if blocking:
                body = b"".join(application(environ, start_response))
            else:
                with self.lock:
                    body = b"".join(application(environ, start_response))
        except NotImplementedError as error:
            raise NotImplementedByMoto(f"moto does not implement it: {error}") from error
        status, headers = began[-1]
        code = int(status.split(" ", 1)[0])
        if code == 404 and not body and environ["REQUEST_METHOD"] != "HEAD":
            raise NotImplementedByMoto("moto found no action for the request")
        return Response(code, dict(headers), body)

    def result(self, operation: Any, parameters: dict[str, Any], region: str, key: str) -> dict[str, Any]:
        """Return moto's result of an operation with these parameters; AwsError if it fails."""
        model = operation.service_model
        spoken = [name for name in PROTOCOLS if name in model.metadata.get("protocols", [model.protocol])]
        # CloudWatch and SQS still read the query protocol where moto knows it best.
        protocol = "query" if "query" in spoken and model.service_name == "cloudwatch" else spoken[0]
        environ = serialize_request(operation, parameters, protocol, region, key)
        answered = self.respond(environ)
        parsed = create_parser(protocol).parse(
            {"status_code": answered.status, "headers": _Headers(answered.headers), "body": answered.body},
            operation.output_shape,
        )
        parsed.pop("ResponseMetadata", None)
        if answered.ok:
            return parsed
        error_document = parsed.get("Error", {})
        raise AwsError(
            error_document.get("Code", "InternalFailure"), error_document.get("Message", ""), answered.status
        )


class _Headers(dict[str, str]):
    """Case-insensitive headers, as the parsers expect."""

    def __init__(self, headers: Any) -> None:
        super().__init__({name.lower(): value for name, value in headers.items()})

    def get(self, key: str, default: Any = None) -> Any:
        return super().get(key.lower(), default)

    def __contains__(self, key: object) -> bool:
        return super().__contains__(str(key).lower())

    def __getitem__(self, key: str) -> str:
        return super().__getitem__(key.lower())


def serialize_request(
    operation: Any, parameters: dict[str, Any], protocol: str, region: str, key: str
) -> dict[str, Any]:
    """Return a WSGI environment with the operation's request, encoded by botocore in the given protocol."""
    service = operation.service_model
    request = create_serializer(protocol, include_validation=False).serialize_to_request(parameters, operation)
    body = request["body"]
    if isinstance(body, dict):
        body = urlencode(body, doseq=True)
    scope = f"{key}/20260101/{region}/{service.signing_name}/aws4_request"
    signature = f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"
    headers = {**request["headers"], "Authorization": signature}
    if protocol in {"query", "ec2"}:
        headers["Content-Type"] = "application/x-www-form-urlencoded; charset=utf-8"
    builder = EnvironBuilder(
        path=request["url_path"],
        method=request["method"],
        query_string=request["query_string"] or None,
        headers=headers,
        data=body.encode() if isinstance(body, str) else body,
        base_url=f"http://{service.endpoint_prefix}.{region}.amazonaws.com/",
    )
    environ = builder.get_environ()
    builder.close()
    return environ


def wsgi_environ(request: Request, body: bytes) -> dict[str, Any]:
    """Return the request's environment, with its body available again."""
    environ = {**request.environ, "wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
    environ.pop("HTTP_TRANSFER_ENCODING", None)
    environ.pop("werkzeug.request", None)
    return environ


def operation_of(service: str, name: str) -> Any:
    """Return an operation's model."""
    model = service_model(service)
    if model is None:
        raise LookupError(f"botocore has no service named {service}")
    return model.operation_model(name)
