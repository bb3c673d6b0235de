"""Learn which sandbox a claim gets from the sandbox's own label, some 20 ms before the claim's status has it.

In that time the sandbox's volume can be retained. No state is needed: where the label is seen too late, the volume is
retained when the claim is ready.
"""

from __future__ import annotations

import asyncio

from agentenv.core.classes.names import CLAIM_UID_LABEL
from agentenv.core.values.object_fields import Document, required, section, text


class SandboxAssignments:
    """The waiters for the sandboxes of claims."""

    def __init__(self) -> None:
        self._waiters: dict[str, asyncio.Future[str]] = {}

    def put(self, sandbox: Document) -> None:
        """Notify the waiter of the sandbox's claim."""
        name = required(sandbox, "metadata", "name")
        waiter = self._waiters.get(text(section(section(sandbox, "metadata"), "labels"), CLAIM_UID_LABEL))
        if waiter is not None and not waiter.done():
            waiter.set_result(name)

    def drop(self, key: tuple[str, str]) -> None:
        """Ignore a deleted sandbox."""

    async def sandbox_for(self, claim_uid: str) -> str:
        """Return the name of the next sandbox that a claim gets."""
        waiter = self._waiters[claim_uid] = asyncio.get_running_loop().create_future()
        try:
            return await waiter
        finally:
            del self._waiters[claim_uid]
