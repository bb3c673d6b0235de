"""What the loops of a replica see of its API's view: ten thousand workspaces are kept in step once, and not twice.

The view is the event loop's, and passes run in threads: they are given a copy, made where the view is changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from agentenv.core.workspaces.workspace import Workspace

# Copying takes a millisecond. An API that has so much to do that it does not come to it is not waited for.
COPY_TIMEOUT = 5.0


class SnapshotSource(Protocol):
    """A backend that is told of what changes."""

    def existing_workspaces(self) -> Sequence[Workspace] | None:
        """All workspaces that stand; None while it is not told of changes."""
        ...


class WorkspaceSnapshot:
    """Sees by the backend of the API, while that is there."""

    def __init__(self) -> None:
        self._source: tuple[SnapshotSource, asyncio.AbstractEventLoop] | None = None

    @contextmanager
    def attach(self, backend: SnapshotSource) -> Generator[None]:
        """Within the API's own event loop: from now on, by this."""
        self._source = backend, asyncio.get_running_loop()
        try:
            yield
        finally:
            self._source = None

    def workspaces(self) -> Sequence[Workspace] | None:
        """All that stand, from whatever thread but the API's own; None where nobody can say just now."""
        source = self._source
        if source is None:
            return None
        backend, loop = source

        async def copy_workspaces() -> Sequence[Workspace] | None:
            return backend.existing_workspaces()

        coroutine = copy_workspaces()
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        except RuntimeError:  # the API has just ended
            coroutine.close()
            return None
        try:
            return future.result(COPY_TIMEOUT)
        except (TimeoutError, CancelledError):  # it has too much to do, or ends just now
            future.cancel()
            return None
