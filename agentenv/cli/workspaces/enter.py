"""Enter a workspace: commands, a shell, ports and files, with kubectl and the caller's own permissions.

No permissions are lent: the cluster's RBAC and the guardrails decide who may enter a sandbox. A workspace is resumed
first if it is suspended, and a lease keeps it from being suspended while it is in use.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agentenv.cli.main import CommandError
from agentenv.cli.workspaces.locate import kubectl
from agentenv.core.classes.names import SANDBOX, namespace

if TYPE_CHECKING:
    import argparse

    from agentenv.cli.workspaces.client import Client, Document

LEASE_SECONDS = 120
_HEARTBEAT_SECONDS = 40.0
_PORTS = re.compile(r"(?:(\d{1,5}):)?(\d{1,5})")
# A login shell if the image has one, in the home that outlives the sandbox.
SHELL = ("sh", "-c", 'cd; exec "${SHELL:-sh}" -l')


def run_in_workspace(args: argparse.Namespace, client: Client, words: list[str]) -> int:
    """Run a command in a workspace, and return its exit code."""
    with lease(client, args.workspace, args.read_only) as workspace:
        interactive = ["-i", "-t"] if args.tty else ["-i"] if args.stdin else []
        return _run(kubectl(args, "exec", *interactive, *_pod(workspace), "-c", SANDBOX, "--", *words))


def shell(args: argparse.Namespace, client: Client) -> int:
    """Open a shell in a workspace."""
    with lease(client, args.workspace, read_only=False) as workspace:
        return _run(kubectl(args, "exec", "-i", "-t", *_pod(workspace), "-c", SANDBOX, "--", *SHELL))


def port_forward(args: argparse.Namespace, client: Client) -> int:
    """Forward local ports to a workspace, until Ctrl-C."""
    ports = [_port_pair(text) for text in args.ports]
    with lease(client, args.workspace, read_only=True) as workspace:
        return _run(kubectl(args, "port-forward", *_pod(workspace), *ports))


def copy(args: argparse.Namespace, client: Client) -> int:
    """Copy files into a workspace, or out of it: the path that begins with `:` is in the workspace."""
    inward, outward = args.to.startswith(":"), args.source.startswith(":")
    if inward == outward:
        raise CommandError("exactly one path must begin with ':', such as :/home/agent/notes.txt in the workspace")
    with lease(client, args.workspace, read_only=outward) as workspace:
        prefix = f"{namespace(workspace['class'])}/{workspace['sandbox']}"
        source, to = (f"{prefix}{path}" if path.startswith(":") else path for path in (args.source, args.to))
        return _run(kubectl(args, "cp", "-c", SANDBOX, source, to))


@contextmanager
def lease(client: Client, name: str, read_only: bool) -> Iterator[Document]:
    """Resume a workspace if it is suspended, and hold a lease on it."""
    workspace = client.get(name)
    if workspace["state"] == "suspended":
        workspace = client.resume(name, 60)
    if workspace["state"] != "running" or not workspace.get("sandbox"):
        raise CommandError(f"{name} is {workspace['state']}: {workspace.get('why') or 'it cannot be entered'}")
    holder, mode, ended = f"cli-{secrets.token_hex(4)}", "ro" if read_only else "rw", threading.Event()
    client.attach(name, holder, mode, LEASE_SECONDS)

    def renew() -> None:
        while not ended.wait(_HEARTBEAT_SECONDS):
            # A failed renewal is repeated in time: a lease lasts three intervals.
            with contextlib.suppress(CommandError):
                client.attach(name, holder, mode, LEASE_SECONDS)

    renewal = threading.Thread(target=renew, name="lease", daemon=True)
    renewal.start()
    try:
        yield workspace
    finally:
        ended.set()
        renewal.join(_HEARTBEAT_SECONDS)
        with contextlib.suppress(CommandError):
            client.detach(name, holder)


def _pod(workspace: Document) -> list[str]:
    """Return the namespace and the name of the sandbox's pod, which is that of the sandbox."""
    return ["-n", namespace(workspace["class"]), workspace["sandbox"]]


def _port_pair(text: str) -> str:
    match = _PORTS.fullmatch(text)
    if not match or not all(0 < int(port) < 65536 for port in match.groups() if port):
        raise CommandError(f"{text} is not a port; write 3000, or 8080:3000 for another local port")
    return text


def _run(command: list[str]) -> int:
    try:
        return subprocess.run(command, check=False).returncode
    except FileNotFoundError:
        raise CommandError("kubectl is not on PATH, and is needed to enter a sandbox") from None
