"""The layer in front of moto: recognize a request, check it, answer it, record it.

A request is answered by the first of: the pages under `/_cloud/`, a row's handler, moto. Every failure becomes an
error in AWS's shape for the operation; a client never sees a traceback.
"""

from __future__ import annotations

import json
import traceback
import warnings
from typing import TYPE_CHECKING, Any

from moto.core.exceptions import ServiceException
from moto.core.request import Request
from werkzeug.exceptions import HTTPException
from werkzeug.http import HTTP_STATUS_CODES

from agentenv.rehearsal.cloud import (
    eks_registration,
    existing_resources,
    parameter_checks,
    reachability,
    requests,
    responses,
    tag_checks,
)
from agentenv.rehearsal.cloud.census import census
from agentenv.rehearsal.cloud.iam import authorization, mounts, token_issuers
from agentenv.rehearsal.cloud.iam.access_keys import account_of
from agentenv.rehearsal.cloud.moto_backend import MotoBackend, NotImplementedByMoto, wsgi_environ
from agentenv.rehearsal.cloud.request_context import RequestContext
from agentenv.rehearsal.cloud.requests import Call, UnknownOperation
from agentenv.rehearsal.cloud.responses import AwsError, Response
from agentenv.rehearsal.cloud.rows import ROWS
from agentenv.rehearsal.cloud.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from wsgiref.types import StartResponse, WSGIEnvironment

    from agentenv.rehearsal.cloud.journal import Journal

# Moto warns of error names that the model does not list; AWS's models leave many out.
warnings.filterwarnings("ignore", message=r"Exception\(\w+\) with code .* does not match an error shape")

_INVALID_BODIES = (
    eks_registration.InvalidRegistration,
    existing_resources.InvalidArns,
    mounts.InvalidMount,
    reachability.InvalidQuestion,
    token_issuers.InvalidKeys,
)


class Application:
    """The WSGI application."""

    def __init__(self, journal: Journal, *, balancers: bool = False) -> None:
        self.journal = journal
        self.moto = MotoBackend()
        self.store = Store(balancers=balancers)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        request = Request(environ)
        try:
            response = self._own(request) if request.path.startswith("/_cloud/") else self._answer(request)
        except Exception:  # noqa: BLE001 -- the last line of defence: a client gets an error, never a traceback
            self.journal.log(f"error: {request.method} {request.path}\n{traceback.format_exc()}")
            response = json_response(
                500, {"message": f"The rehearsal's cloud failed on {request.method} {request.path}."}
            )
        line = f"{response.status} {HTTP_STATUS_CODES.get(response.status, 'Unknown')}"
        start_response(line, [(name, str(value)) for name, value in response.headers.items()])
        return [response.body]

    def _own(self, request: Request) -> Response:
        method, body, page = request.method, request.get_data(), request.path.removeprefix("/_cloud/")
        unlocked: dict[str, Callable[[], Any]] = {
            "health": lambda: {"status": "ok"},
            "kept": lambda: self.journal.stored_only,
            "unknown": lambda: self.journal.unknown,
            "calls": lambda: self.journal.calls(request.args.get("since", 0, type=int)),
        }
        locked: dict[str, Callable[[], Any]] = {
            "balancers": self._balancers,
            "census": lambda: census(self.store),
            "eks": lambda: eks_registration.handle(self.store, method, body),
            "existing": lambda: existing_resources.handle(self.moto, self.store, body),
            "issuers": lambda: token_issuers.handle(self.store, method, body),
            "mounts": lambda: mounts.handle(self.moto, self.store, body),
            "reachability": lambda: reachability.handle(self.moto, self.store, body),
        }
        if page in unlocked:
            return json_response(200, unlocked[page]())
        if page not in locked:
            return json_response(404, {"message": f"No page {page}: {', '.join(sorted(unlocked | locked))}."})
        try:
            with self.moto.lock:
                return json_response(200, locked[page]())
        except _INVALID_BODIES as error:
            return json_response(400, {"message": str(error)})

    def _answer(self, request: Request) -> Response:
        scope = requests.scope_of(request)
        try:
            body = requests.read_body(request, scope)
        except requests.MalformedRequest as error:
            return json_response(400, {"__type": "SerializationException", "message": str(error)})
        if scope is None and not requests.needs_no_signature(request):
            return self._unsigned(request, body)
        scope = scope or requests.Scope("sts", requests.REGION, "")
        recognized = requests.recognize(request, scope, body)
        if recognized is None:
            self.journal.record_unknown(scope.service, f"{request.method} {request.path}")
            text = f"The rehearsal's cloud has no service {scope.service}."
            response = json_response(404, {"__type": "UnknownOperationException", "message": text})
            self.journal.record_call(scope.service, f"{request.method} {request.path}", response.status)
            return response
        if isinstance(recognized, UnknownOperation):
            self.journal.record_unknown(recognized.service, recognized.operation)
            model = requests.service_model(recognized.service)
            response = responses.unknown_operation_response(recognized, model) if model else json_response(404, {})
            self.journal.record_call(recognized.service, recognized.operation, response.status)
            return response
        response = self._operation(recognized)
        self.journal.record_call(recognized.service, recognized.name, response.status)
        return response

    def _operation(self, call: Call) -> Response:
        try:
            call.parameters = requests.parameters_of(call)
            parameter_checks.check_parameters(call)
            tag_checks.check_tags(call)
            return self._performed(call)
        except requests.MalformedRequest as error:
            return responses.error_response(call, malformed_request_error(call, error))
        except ServiceException as reason:
            return responses.error_response(call, reason)
        except NotImplementedByMoto as error:
            self.journal.record_unknown(call.service, call.name)
            self.journal.log(f"{call.service} {call.name}: {error}")
            return responses.error_response(call, responses.unknown_operation_error(call.protocol, call.name))
        except Exception:  # noqa: BLE001 -- a fault of ours or moto's is AWS's InternalFailure to the client
            self.journal.log(f"error: {call.service} {call.name}\n{traceback.format_exc()}")
            text = f"The rehearsal's cloud failed on {call.service} {call.name}; its log says why."
            return responses.error_response(call, AwsError("InternalFailure", text, 500))

    def _performed(self, call: Call) -> Response:
        row = ROWS.get((call.service, call.name))
        context = RequestContext(call, account_of(call.key), self.moto, self.store)
        with self.moto.lock:
            authorization.check_authorization(context)
        if row is None:
            response = context.forward()
        else:
            with self.moto.lock:
                result = row.handler(context)
            if row.stored_only:
                self.journal.record_stored_only(call.service, call.name)
            response = result if isinstance(result, Response) else responses.result(call, result)
        if call.service == "elbv2" and not call.name.startswith("Describe"):
            with self.moto.lock:
                self.store.balancers.update(context.backend("elbv2"))
        return response

    def _balancers(self) -> dict[str, Any]:
        """Return where listeners are served, and the authority of their certificates."""
        balancers = self.store.balancers
        return {"listeners": balancers.addresses(), "authority": str(balancers.authority.ca)}

    def _unsigned(self, request: Request, body: bytes) -> Response:
        """Forward requests that AWS accepts without a signature, such as those for public objects, to moto."""
        if (request.path in {"", "/", "/favicon.ico"} and not body) or request.path.startswith("/moto-api"):
            return json_response(403, {"message": "Missing Authentication Token"})
        try:
            response = self.moto.respond(wsgi_environ(request, body))
        except (NotImplementedByMoto, HTTPException):
            return json_response(403, {"message": "Missing Authentication Token"})
        self.journal.record_call("unsigned", f"{request.method} {request.path}", response.status)
        return response


def malformed_request_error(call: Call, error: requests.MalformedRequest) -> AwsError:
    """Return the error for a body that does not fit the protocol."""
    match call.protocol:
        case "query" | "ec2":
            return AwsError(
                "MalformedQueryString" if call.protocol == "query" else "InvalidParameterValue", str(error), 400
            )
        case "rest-xml":
            return AwsError("MalformedXML", "The XML you provided was not well-formed.", 400)
        case _:
            return AwsError("SerializationException", str(error), 400)


def json_response(status: int, value: Any) -> Response:
    """Return a JSON response of the endpoint itself."""
    return Response(status, {"Content-Type": "application/json"}, (json.dumps(value) + "\n").encode())
