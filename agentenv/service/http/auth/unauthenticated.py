"""The response to unauthenticated requests: the same for all of them, with the reason."""

from __future__ import annotations

from agentenv.service.http.problems import Problem


class UnauthenticatedError(Problem):
    """A request without a valid token."""

    def __init__(self, why: str) -> None:
        super().__init__(
            "not-signed-in",
            why,
            "send `Authorization: Bearer` with a token of the environment's issuer, or of a Kubernetes service account"
            " for the service's audience",
        )
