"""Routes of the sign-in with a browser. They answer with redirects, and are not called by programs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import RedirectResponse

from agentenv.service.gateway.browser_sessions import Step
from agentenv.service.gateway.entry import host_cookie
from agentenv.service.gateway.sign_in import CALLBACK, SignIn
from agentenv.service.http.dependencies import RequestDependencies, entry_request_of, source_of
from agentenv.service.http.problems import Problem, UnauthenticatedError
from agentenv.service.http.responses import problems

router = APIRouter(prefix="/v1", tags=["sign-in"])
_REDIRECT = {303: {"description": "The browser goes on"}, **problems(401, 403, 404, 422, 503)}
Text = Annotated[str, Query(max_length=4096)]


@router.get("/sign-in", operation_id="signIn", status_code=303, response_class=Response, responses=_REDIRECT)
async def start(request: Request, dependencies: RequestDependencies, then: Text = "/") -> Response:
    """Start the sign-in of a browser, which comes back to `then`, a path of this host."""
    return _response(await _sign_in(dependencies.sign_in).start(entry_request_of(request), then))


@router.post(
    "/sign-in/key",
    operation_id="signInWithKey",
    status_code=204,
    response_class=Response,
    responses={204: {"description": "Signed in"}, **problems(401, 403, 404, 422, 429, 503)},
)
async def sign_in_with_key(
    request: Request,
    dependencies: RequestDependencies,
    key: Annotated[str, Header(alias="x-api-key", max_length=256)],
) -> Response:
    """Sign in a page of the console by an API key, where the environment has no sign-in of an issuer.

    The session has the rights of the key, and ends with it.
    """
    if dependencies.sign_in is not None or dependencies.sessions is None:
        raise Problem("not-found", "this environment has no sign-in by an API key", "sign in with the issuer")
    if not entry_request_of(request).is_same_origin:
        raise UnauthenticatedError("only a page of this host signs in")
    caller = await dependencies.authenticator.caller(None, source_of(request), api_key=key)
    if not caller.has_scope("read"):
        raise Problem("not-allowed", "the API key lacks the scope 'read'", "create a key with that scope")
    response = Response(status_code=204)
    response.headers.append("Set-Cookie", host_cookie(*dependencies.sessions.begin(caller)))
    return response


@router.get(
    CALLBACK.removeprefix("/v1"),
    operation_id="finishSignIn",
    status_code=303,
    response_class=Response,
    responses=_REDIRECT,
)
async def finish(request: Request, dependencies: RequestDependencies) -> Response:
    """Finish the sign-in of a browser that the issuer sent back."""
    return _response(await _sign_in(dependencies.sign_in).finish(entry_request_of(request)))


@router.get(
    "/sign-in/enter", operation_id="enterWorkspace", status_code=303, response_class=Response, responses=_REDIRECT
)
async def enter(
    request: Request,
    dependencies: RequestDependencies,
    host: Annotated[str, Query(max_length=300)],
    browser: Annotated[str, Query(pattern="^[0-9a-f]{32}$")],
    path: Text = "/",
) -> Response:
    """Send a browser on to a workspace's host, signed in."""
    return _response(await _sign_in(dependencies.sign_in).enter(entry_request_of(request), host, path, browser))


@router.post("/sign-out", operation_id="signOut", status_code=303, response_class=Response, responses=_REDIRECT)
async def end(request: Request, dependencies: RequestDependencies) -> Response:
    """Sign out a browser everywhere. What it has open ends within a minute."""
    if dependencies.sessions is None:
        raise Problem("not-found", "this environment has no sign-in with a browser", "send a token of the issuer")
    return _response(await dependencies.sessions.end(entry_request_of(request)))


def _sign_in(sign_in: SignIn | None) -> SignIn:
    if sign_in is None:
        raise Problem("not-found", "this environment has no sign-in with a browser", "send a token of the issuer")
    return sign_in


def _response(step: Step) -> Response:
    response = RedirectResponse(step.location, 303, {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"})
    for name, value, seconds in step.cookies:
        response.headers.append("Set-Cookie", host_cookie(name, value, seconds))
    return response
