"""Errors in the form that the `e2b` clients read: a status, `code`, and `message` with the reason and what to do."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from agentenv.service.http.problems import Kind, Problem
from agentenv.service.http.responses import problem_of_refusal
from agentenv.service.kube.client import KubeApiError

if TYPE_CHECKING:
    from fastapi import FastAPI, Request
    from starlette.responses import Response

_LOG = logging.getLogger(__name__)
# Where the clients expect another status than our own API has.
_STATUS: Mapping[Kind, int] = {
    "malformed": HTTPStatus.BAD_REQUEST,
    "mode-not-offered": HTTPStatus.BAD_REQUEST,
    "size-not-offered": HTTPStatus.BAD_REQUEST,
    "too-late": HTTPStatus.BAD_REQUEST,
}
# The codes that the clients know, for programs.
_ERROR_CODES: Mapping[Kind, str] = {
    "key-reused": "idempotency_request_mismatch",
    "no-room": "sandbox_capacity_unavailable",
    "pool-empty": "sandbox_capacity_unavailable",
}


class NotOfferedError(Exception):
    """A request for something that this API does not offer, with the reason and what to do instead."""


def install_handlers(app: FastAPI) -> None:
    """Install the handlers that give every error the form of the clients."""
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(KubeApiError, _refused)
    app.add_exception_handler(NotOfferedError, _not_offered)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unexpected)


def _response(status: int, message: str, code: str | None = None, retry_after: int | None = None) -> Response:
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    document = {"code": int(status), "message": message, **({"error_code": code} if code else {})}
    return JSONResponse(document, status, headers)


def _problem_response(problem: Problem) -> Response:
    status = _STATUS.get(problem.kind, problem.status)
    return _response(status, str(problem), _ERROR_CODES.get(problem.kind), problem.retry_after)


async def _problem(_request: Request, failure: Exception) -> Response:
    assert isinstance(failure, Problem)  # noqa: S101 - installed for this type
    return _problem_response(failure)


async def _refused(_request: Request, failure: Exception) -> Response:
    assert isinstance(failure, KubeApiError)  # noqa: S101
    return _problem_response(problem_of_refusal(failure))


async def _not_offered(_request: Request, failure: Exception) -> Response:
    return _response(HTTPStatus.NOT_IMPLEMENTED, str(failure))


async def _malformed(_request: Request, failure: Exception) -> Response:
    assert isinstance(failure, RequestValidationError)  # noqa: S101
    if any(tuple(error["loc"]) == ("path", "id") for error in failure.errors()):
        return _response(HTTPStatus.NOT_FOUND, "the sandbox was not found: no sandbox has such an id")
    rows = [f"{'.'.join(str(part) for part in error['loc'])}: {error['msg']}" for error in failure.errors()]
    return _response(HTTPStatus.BAD_REQUEST, "; ".join(rows[:5]))


async def _http(_request: Request, failure: Exception) -> Response:
    assert isinstance(failure, HTTPException)  # noqa: S101
    return _response(failure.status_code, str(failure.detail))


async def _unexpected(_request: Request, failure: Exception) -> Response:
    _LOG.error("a request failed", exc_info=failure)
    return _response(
        HTTPStatus.INTERNAL_SERVER_ERROR, "an unexpected error; the service's log has it", "internal_server_error"
    )
