"""The caller of a request: authenticated by token, rate limited, and recorded for the audit log."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer

from agentenv.service.http.auth.callers import Caller
from agentenv.service.http.dependencies import Dependencies, dependencies_of

# Only said in the API's description: what the header holds is read below.
_scheme = HTTPBearer(
    auto_error=False,
    description="A token of the environment's issuer, or of a Kubernetes service account for the service's audience.",
)


async def caller(request: Request, _declared: Annotated[object, Security(_scheme)] = None) -> Caller:
    """Return the caller of a request."""
    dependencies = dependencies_of(request)
    source = request.client.host if request.client else "unknown"
    authenticated = await dependencies.authenticator.caller(request.headers.get("authorization"), source)
    request.state.caller = authenticated
    dependencies.limits.take(authenticated.owner)
    return authenticated


CurrentCaller = Annotated[Caller, Depends(caller)]
RequestDependencies = Annotated[Dependencies, Depends(dependencies_of)]
