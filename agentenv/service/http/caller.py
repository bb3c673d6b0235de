"""The caller of a request: told by its token, counted against their measure, and remembered for the audit."""

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


async def caller(request: Request, _said: Annotated[object, Security(_scheme)] = None) -> Caller:
    """Whoever asks."""
    parts = dependencies_of(request)
    source = request.client.host if request.client else "unknown"
    found = await parts.authenticating.caller(request.headers.get("authorization"), source)
    request.state.caller = found
    parts.limits.take(found.owner)
    return found


CurrentCaller = Annotated[Caller, Depends(caller)]
RequestDependencies = Annotated[Dependencies, Depends(dependencies_of)]
