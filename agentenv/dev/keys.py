"""The key that tokens for sandboxes are signed with: a new one for each start, as every sandbox starts with it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from agentenv.service.workspaced.keys import jwks, new_key
from agentenv.service.workspaced.tokens import Grant, sign_token


class LocalSigner:
    """Signs tokens for the sandboxes of this process."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._key = new_key(now())

    @property
    def public(self) -> str:
        """Return the public key, as the document that workspaced reads."""
        return jwks([self._key])

    async def sign(self, grant: Grant) -> str:
        """Return a token for a sandbox."""
        return sign_token(self._key, self._now(), grant)
