"""Which sandbox a claim is given, as soon as the sandbox itself says so: its claim says it some 20 milliseconds later.

In that time the sandbox's volume can be made to stay. Nothing is remembered: whoever is not told in time does it when
the claim is ready.
"""

from __future__ import annotations

import asyncio

from agentenv.core.classes.names import CLAIM_UID_LABEL
from agentenv.core.values.object_fields import Document, required, section, text


class SandboxAssignments:
    """Tells whoever waits for a claim's sandbox of it."""

    def __init__(self) -> None:
        self._waiters: dict[str, asyncio.Future[str]] = {}

    def put(self, sandbox: Document) -> None:
        """A sandbox is there, or has changed."""
        name = required(sandbox, "metadata", "name")
        waiter = self._waiters.get(text(section(section(sandbox, "metadata"), "labels"), CLAIM_UID_LABEL))
        if waiter is not None and not waiter.done():
            waiter.set_result(name)

    def drop(self, key: tuple[str, str]) -> None:
        """A sandbox is gone, which concerns nobody here."""

    async def sandbox_for(self, claim_uid: str) -> str:
        """The name of the sandbox that a claim is given from now on."""
        waiter = self._waiters[claim_uid] = asyncio.get_running_loop().create_future()
        try:
            return await waiter
        finally:
            del self._waiters[claim_uid]
