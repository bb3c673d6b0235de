"""The failures of every backend. The clients of backends raise them, and import nothing else of workspaces."""

from __future__ import annotations


class BackendError(Exception):
    """A failure of one object; a transient one concerns all of them."""

    @property
    def transient(self) -> bool:
        """Return whether the backend cannot answer now, as opposed to a request that it refuses."""
        return False
