"""Hold a lease on a workspace: it is not suspended meanwhile, and an agent's workspace has one holder at a time."""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agentenv.cli.main import CommandError
from agentenv.cli.workspaces.tables import RESUMABLE
from agentenv.client import ClientError

if TYPE_CHECKING:
    from agentenv.client import Client
    from agentenv.client.api import Workspace

LEASE_SECONDS = 120
_HEARTBEAT_SECONDS = 40.0


@contextmanager
def lease(client: Client, name: str, read_only: bool) -> Iterator[Workspace]:
    """Resume a workspace if it is suspended, and hold a lease on it."""
    workspace = client.get_workspace(name)
    if workspace["state"] in RESUMABLE:
        workspace = client.resume_workspace(name, wait=60)
    if workspace["state"] != "running" or not workspace.get("sandbox"):
        raise CommandError(f"{name} is {workspace['state']}: {workspace.get('why') or 'it cannot be entered'}")
    holder, mode, ended = f"cli-{secrets.token_hex(4)}", "ro" if read_only else "rw", threading.Event()
    client.attach(name, holder, {"mode": mode, "seconds": LEASE_SECONDS})

    def renew() -> None:
        while not ended.wait(_HEARTBEAT_SECONDS):
            # A failed renewal is repeated in time: a lease lasts three intervals.
            with contextlib.suppress(ClientError):
                client.attach(name, holder, {"mode": mode, "seconds": LEASE_SECONDS})

    renewal = threading.Thread(target=renew, name="lease", daemon=True)
    renewal.start()
    try:
        yield workspace
    finally:
        ended.set()
        renewal.join(_HEARTBEAT_SECONDS)
        with contextlib.suppress(ClientError):
            client.detach(name, holder)
