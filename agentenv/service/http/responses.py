"""Responses that are more than a body: headers of created resources, and errors as problems."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from agentenv.core.workspaces.workspace import TRANSITIONAL, CreateResult
from agentenv.service.http.problems import MEDIA_TYPE, Problem
from agentenv.service.http.schemas import ProblemShape, location
from agentenv.service.kube.client import KubeApiError
from agentenv.service.workspaces.create import problem_of

if TYPE_CHECKING:
    from fastapi import FastAPI, Request, Response

_LOG = logging.getLogger(__name__)
POLL_SECONDS = "1"


def problems(*codes: int) -> dict[int | str, dict[str, Any]]:
    """Return the problem responses for the OpenAPI description."""
    rows: dict[int | str, dict[str, Any]] = {}
    for code in codes:
        row: dict[str, Any] = {
            "description": _DESCRIPTIONS[code],
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemShape"}}},
        }
        if code in {429, 503}:
            row["headers"] = {"Retry-After": {"description": "Seconds", "schema": {"type": "integer"}}}
        rows[code] = row
    return rows


_DESCRIPTIONS = {
    400: "The body cannot be parsed",
    401: "Authentication required",
    402: "The budget is spent",
    403: "You may not do this",
    404: "Not found, or not visible to you",
    409: "The state does not allow it, or another request changed it first",
    422: "The request is invalid",
    429: "Too many requests",
    503: "Temporarily unavailable",
}
PROBLEMS = problems(401, 402, 403, 404, 409, 422, 429, 503)


def set_create_headers(response: Response, result: CreateResult) -> None:
    """Set status and headers: whether the workspace is ready, and where to look."""
    response.headers["Location"] = location(result)
    if result.ready:
        response.status_code = 200 if result.existed else 201
    elif result.workspace.state in TRANSITIONAL:
        response.status_code = 202
        response.headers["Retry-After"] = POLL_SECONDS
    else:
        # Suspended or failed: waiting does not help, and its state says so.
        response.status_code = 200
    if result.cold:
        response.headers["Agentenv-Cold"] = result.cold


def install_handlers(app: FastAPI) -> None:
    """Install the handlers that turn every error into a problem."""
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(KubeApiError, _refused)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unexpected)


def problem_response(problem: Problem) -> Response:
    """Return the response for a problem."""
    headers: dict[str, str] = {}
    if problem.retry_after is not None:
        headers["Retry-After"] = str(problem.retry_after)
    if problem.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(problem.document(), problem.status, headers, media_type=MEDIA_TYPE)


async def _problem(_request: Request, failure: Exception) -> Response:
    assert isinstance(failure, Problem)  # noqa: S101 - installed for this type
    return problem_response(failure)


async def _refused(_request: Request, failure: Exception) -> Response:
    assert isinstance(failure, KubeApiError)  # noqa: S101
    return problem_response(problem_of_refusal(failure))


def problem_of_refusal(refusal: KubeApiError) -> Problem:
    """Return the problem that the caller gets for a request that the API server refused the service."""
    if refusal.code in {401, 403}:
        # The service's own account lacks a permission; the caller has done nothing wrong.
        _LOG.error("the service's account lacks a permission: %s", refusal.message)
        detail = "the service's account lacks a permission in the cluster"
        return Problem("unavailable", detail, "tell the platform team", retry_after=60)
    return problem_of(refusal)


async def _malformed(_request: Request, failure: Exception) -> Response:
    assert isinstance(failure, RequestValidationError)  # noqa: S101
    rows = [
        {
            "where": ".".join(str(part) for part in error["loc"]),
            "found": str(error["msg"]).removeprefix("Value error, "),
            "kind": error["type"],
        }
        for error in failure.errors()
    ]
    detail = "; ".join(f"{row['where']}: {row['found']}" for row in rows[:5])
    return problem_response(
        Problem("malformed", detail, "correct the fields in `errors`; see /openapi.json", errors=rows)
    )


async def _http(request: Request, failure: Exception) -> Response:
    assert isinstance(failure, HTTPException)  # noqa: S101
    if failure.status_code == HTTPStatus.BAD_REQUEST:
        return problem_response(Problem("malformed", str(failure.detail), "send JSON in UTF-8"))
    headers = dict(failure.headers or {})
    if failure.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(_methods(request))
    document = {
        "type": "about:blank",
        "title": str(failure.detail),
        "status": failure.status_code,
        "detail": str(failure.detail),
        "way_out": "see /openapi.json for the paths and methods",
    }
    return JSONResponse(document, failure.status_code, headers, media_type=MEDIA_TYPE)


def _methods(request: Request) -> list[str]:
    """Return the allowed methods of a path: each method is a route of its own."""
    paths: dict[str, dict[str, Any]] = request.app.openapi()["paths"]
    segments = request.url.path.split("/")
    allowed: set[str] = set()
    for path, methods in paths.items():
        parts = path.split("/")
        if len(parts) == len(segments) and all(
            part == other or (part.startswith("{") and other) for part, other in zip(parts, segments, strict=True)
        ):
            allowed |= {method.upper() for method in methods}
    return sorted(allowed)


async def _unexpected(_request: Request, failure: Exception) -> Response:
    _LOG.error("a request failed", exc_info=failure)
    problem = Problem(
        "unavailable", "an unexpected error; the service's log has it", "retry, or tell the platform team"
    )
    document = {**problem.document(), "status": 500}
    return JSONResponse(document, 500, media_type=MEDIA_TYPE)


def describe_problems(app: FastAPI) -> None:
    """Describe problems in the OpenAPI document as they are returned, and drop FastAPI's own error schemas."""
    build = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = build()
            schemas: dict[str, Any] = document["components"]["schemas"]
            for name in ("HTTPValidationError", "ValidationError"):
                schemas.pop(name, None)
            schemas["ProblemShape"] = ProblemShape.model_json_schema()
            app.openapi_schema = document
        return app.openapi_schema or {}

    app.openapi = openapi  # pyright: ignore[reportAttributeAccessIssue]
