"""The layer in front of moto: recognise, check, answer, write down.

A request is answered by the first that can: our own pages under `/_cloud/`, a row of ours, moto. Whatever goes wrong
here becomes an error in AWS's shape with the operation's name; a client never sees a traceback.
"""

from __future__ import annotations

import json
import traceback
import warnings
from typing import TYPE_CHECKING, Any

from moto.core.exceptions import ServiceException
from moto.core.request import Request
from moto.iam.models import get_account_id_from
from werkzeug.exceptions import HTTPException
from werkzeug.http import HTTP_STATUS_CODES

from agentenv.rehearsal.cloud import eks_registration as announced
from agentenv.rehearsal.cloud import existing_resources as existing
from agentenv.rehearsal.cloud import parameter_checks as checks
from agentenv.rehearsal.cloud import requests as calls
from agentenv.rehearsal.cloud import responses as answers
from agentenv.rehearsal.cloud import tag_checks as tagging
from agentenv.rehearsal.cloud.census import census
from agentenv.rehearsal.cloud.iam import authorization as rights
from agentenv.rehearsal.cloud.iam import token_issuers as issuers
from agentenv.rehearsal.cloud.moto_backend import MotoSide, Unanswered, as_it_came
from agentenv.rehearsal.cloud.request_context import Desk
from agentenv.rehearsal.cloud.requests import Call, Stranger
from agentenv.rehearsal.cloud.responses import Answer, Refused
from agentenv.rehearsal.cloud.rows import ROWS
from agentenv.rehearsal.cloud.store import Shelves

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIEnvironment

    from agentenv.rehearsal.cloud.journal import Journal

# Moto warns whenever a refusal has a name that the model does not list; AWS's models leave many out.
warnings.filterwarnings("ignore", message=r"Exception\(\w+\) with code .* does not match an error shape")


class Gate:
    """The WSGI application."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.moto = MotoSide()
        self.shelves = Shelves()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        request = Request(environ)
        try:
            answer = self._own(request) if request.path.startswith("/_cloud/") else self._answer(request)
        except Exception:  # noqa: BLE001 -- the last line of defence: a client gets an error, never a traceback
            self.journal.log(f"error: {request.method} {request.path}\n{traceback.format_exc()}")
            answer = plain(500, {"message": f"The rehearsal's cloud failed on {request.method} {request.path}."})
        line = f"{answer.status} {HTTP_STATUS_CODES.get(answer.status, 'Unknown')}"
        start_response(line, [(name, str(value)) for name, value in answer.headers.items()])
        return [answer.body]

    def _own(self, request: Request) -> Answer:
        body = request.get_data()
        match request.path.removeprefix("/_cloud/"):
            case "health":
                found: Any = {"status": "ok"}
            case "census":
                with self.moto.lock:
                    found = census(self.shelves)
            case "kept":
                found = self.journal.kept
            case "unknown":
                found = self.journal.unknown
            case "calls":
                found = self.journal.calls(request.args.get("since", 0, type=int))
            case "eks":
                try:
                    with self.moto.lock:
                        found = announced.answer(self.shelves, request.method, body)
                except announced.NotAnnounced as error:
                    return plain(400, {"message": str(error)})
            case "existing":
                try:
                    with self.moto.lock:
                        found = existing.answer(self.moto, self.shelves, body)
                except existing.NotCreated as error:
                    return plain(400, {"message": str(error)})
            case "issuers":
                try:
                    with self.moto.lock:
                        found = issuers.answer(self.shelves, request.method, body)
                except issuers.NotPublished as error:
                    return plain(400, {"message": str(error)})
            case page:
                pages = "health, census, kept, unknown, calls?since=N, eks, existing, issuers"
                return plain(404, {"message": f"No page {page}: {pages}."})
        return plain(200, found)

    def _answer(self, request: Request) -> Answer:
        scope = calls.scope_of(request)
        try:
            body = calls.read_body(request, scope)
        except calls.Unreadable as error:
            return plain(400, {"__type": "SerializationException", "message": str(error)})
        if scope is None and not calls.needs_no_signature(request):
            return self._unsigned(request, body)
        scope = scope or calls.Scope("sts", calls.REGION, "")
        found = calls.recognise(request, scope, body)
        if found is None:
            self.journal.knows_not(scope.service, f"{request.method} {request.path}")
            text = f"The rehearsal's cloud has no service {scope.service}."
            answer = plain(404, {"__type": "UnknownOperationException", "message": text})
            self.journal.called(scope.service, f"{request.method} {request.path}", answer.status)
            return answer
        if isinstance(found, Stranger):
            self.journal.knows_not(found.service, found.operation)
            model = calls.model_of(found.service)
            answer = answers.not_known(found, model) if model else plain(404, {})
            self.journal.called(found.service, found.operation, answer.status)
            return answer
        answer = self._operation(found)
        self.journal.called(found.service, found.name, answer.status)
        return answer

    def _operation(self, call: Call) -> Answer:
        try:
            call.parameters = calls.parameters_of(call)
            checks.refuse_misfits(call)
            tagging.refuse_tags(call)
            return self._performed(call)
        except calls.Unreadable as error:
            return answers.refusal(call, unreadable(call, error))
        except ServiceException as reason:
            return answers.refusal(call, reason)
        except Unanswered as error:
            self.journal.knows_not(call.service, call.name)
            self.journal.log(f"{call.service} {call.name}: {error}")
            return answers.refusal(call, answers.unknown_operation(call.protocol, call.name))
        except Exception:  # noqa: BLE001 -- a fault of ours or moto's is AWS's InternalFailure to the client
            self.journal.log(f"error: {call.service} {call.name}\n{traceback.format_exc()}")
            text = f"The rehearsal's cloud failed on {call.service} {call.name}; its log says why."
            return answers.refusal(call, Refused("InternalFailure", text, 500))

    def _performed(self, call: Call) -> Answer:
        row = ROWS.get((call.service, call.name))
        desk = Desk(call, get_account_id_from(call.key), self.moto, self.shelves)
        with self.moto.lock:
            rights.refuse(desk)
        if row is None:
            return desk.forward()
        with self.moto.lock:
            given = row.answer(desk)
        if row.kept:
            self.journal.keeps(call.service, call.name)
        return given if isinstance(given, Answer) else answers.result(call, given)

    def _unsigned(self, request: Request, body: bytes) -> Answer:
        """Requests that AWS takes without a signature, such as those for public objects, go to moto as they are."""
        if (request.path in {"", "/", "/favicon.ico"} and not body) or request.path.startswith("/moto-api"):
            return plain(403, {"message": "Missing Authentication Token"})
        try:
            answer = self.moto.answer(as_it_came(request, body))
        except (Unanswered, HTTPException):
            return plain(403, {"message": "Missing Authentication Token"})
        self.journal.called("unsigned", f"{request.method} {request.path}", answer.status)
        return answer


def unreadable(call: Call, error: calls.Unreadable) -> Refused:
    """The refusal for a body that is not what the protocol says."""
    match call.protocol:
        case "query" | "ec2":
            return Refused(
                "MalformedQueryString" if call.protocol == "query" else "InvalidParameterValue", str(error), 400
            )
        case "rest-xml":
            return Refused("MalformedXML", "The XML you provided was not well-formed.", 400)
        case _:
            return Refused("SerializationException", str(error), 400)


def plain(status: int, value: Any) -> Answer:
    """An answer of ours, as JSON."""
    return Answer(status, {"Content-Type": "application/json"}, (json.dumps(value) + "\n").encode())
