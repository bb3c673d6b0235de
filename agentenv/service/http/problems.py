"""Errors as callers receive them: problem+json (RFC 9457) with a hint.

A problem is raised where it is detected, in the backend as in the API, and is serialised in one place. `kind` is for
programs; `detail` says what was found and `way_out` what to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Literal

MEDIA_TYPE = "application/problem+json"

Kind = Literal[
    "budget-spent",
    "busy",
    "capability-beyond-parent",
    "class-not-claimable",
    "class-unknown",
    "key-reused",
    "limit-reached",
    "malformed",
    "mode-not-offered",
    "no-room",
    "not-allowed",
    "not-found",
    "not-signed-in",
    "pool-empty",
    "refused",
    "size-not-offered",
    "too-late",
    "too-many-requests",
    "unavailable",
    "wrong-state",
]

_STATUS: Mapping[Kind, int] = {
    "budget-spent": HTTPStatus.PAYMENT_REQUIRED,
    "busy": HTTPStatus.CONFLICT,
    "capability-beyond-parent": HTTPStatus.FORBIDDEN,
    "class-not-claimable": HTTPStatus.FORBIDDEN,
    "class-unknown": HTTPStatus.NOT_FOUND,
    "key-reused": HTTPStatus.CONFLICT,
    "limit-reached": HTTPStatus.CONFLICT,
    "malformed": HTTPStatus.UNPROCESSABLE_ENTITY,
    "mode-not-offered": HTTPStatus.CONFLICT,
    "no-room": HTTPStatus.SERVICE_UNAVAILABLE,
    "not-allowed": HTTPStatus.FORBIDDEN,
    "not-found": HTTPStatus.NOT_FOUND,
    "not-signed-in": HTTPStatus.UNAUTHORIZED,
    "pool-empty": HTTPStatus.SERVICE_UNAVAILABLE,
    "refused": HTTPStatus.CONFLICT,
    "size-not-offered": HTTPStatus.CONFLICT,
    "too-late": HTTPStatus.CONFLICT,
    "too-many-requests": HTTPStatus.TOO_MANY_REQUESTS,
    "unavailable": HTTPStatus.SERVICE_UNAVAILABLE,
    "wrong-state": HTTPStatus.CONFLICT,
}

_TITLES: Mapping[Kind, str] = {
    "budget-spent": "The budget is spent",
    "busy": "Another request is changing it",
    "capability-beyond-parent": "The class exceeds its parent's capabilities",
    "class-not-claimable": "The class is not available to you",
    "class-unknown": "Unknown class",
    "key-reused": "The key was used for another request",
    "limit-reached": "There are too many workspaces",
    "malformed": "The request is invalid",
    "mode-not-offered": "The class does not offer this mode",
    "no-room": "No capacity",
    "not-allowed": "You may not do this",
    "not-found": "Not found",
    "not-signed-in": "Authentication required",
    "pool-empty": "No sandbox is ready",
    "refused": "The cluster refused it",
    "size-not-offered": "The class does not offer this size",
    "too-late": "The deadline is over",
    "too-many-requests": "Too many requests",
    "unavailable": "Not available at the moment",
    "wrong-state": "The state does not allow it",
}


class Problem(Exception):
    """Why a request is refused."""

    def __init__(
        self, kind: Kind, detail: str, way_out: str, *, retry_after: int | None = None, **facts: object
    ) -> None:
        super().__init__(f"{detail}; {way_out}")
        self.kind: Kind = kind
        self.detail = detail
        self.way_out = way_out
        self.retry_after = retry_after
        self.facts = facts

    @property
    def status(self) -> int:
        """Return the HTTP status."""
        return int(_STATUS[self.kind])

    def document(self) -> dict[str, Any]:
        """Return the problem+json document."""
        return {
            "type": f"urn:agent-environment:problem:{self.kind}",
            "title": _TITLES[self.kind],
            "status": self.status,
            "detail": self.detail,
            "way_out": self.way_out,
            **self.facts,
        }


class UnauthenticatedError(Problem):
    """A request without a valid token: the same problem for all of them, with the reason."""

    def __init__(self, why: str) -> None:
        super().__init__(
            "not-signed-in",
            why,
            "send `Authorization: Bearer` with a token of the environment's issuer, or of a Kubernetes service account"
            " for the service's audience",
        )


def not_found(kind: str) -> Problem:
    """Return the same problem for what is missing and for what belongs to another owner."""
    return Problem("not-found", f"no such {kind}, or you may not see it", f"list each {kind} that you may see with GET")
