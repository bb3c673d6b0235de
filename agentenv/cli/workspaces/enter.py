"""The ways into a workspace: commands, a shell, ports and files, by kubectl and with the caller's own rights.

Nobody's rights are lent: who may enter a sandbox is said in the cluster, and the guardrails hold everybody else off. A
workspace that is entered is held, so that it does not fall asleep under its user, and woken first where it sleeps.
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

from agentenv.cli.main import Refusal
from agentenv.cli.workspaces.locate import kubectl
from agentenv.core.classes.names import SANDBOX, namespace

if TYPE_CHECKING:
    import argparse

    from agentenv.cli.workspaces.client import Client, Document

LEASE_SECONDS = 120
_HEARTBEAT_SECONDS = 40.0
_PORTS = re.compile(r"(?:(\d{1,5}):)?(\d{1,5})")
# A login shell if there is one, in the home that outlives the sandbox.
SHELL = ("sh", "-c", 'cd; exec "${SHELL:-sh}" -l')


def run(args: argparse.Namespace, client: Client, words: list[str]) -> int:
    """Run a command in it; its exit code is ours."""
    with held(client, args.workspace, args.read_only) as found:
        interactive = ["-i", "-t"] if args.tty else ["-i"] if args.stdin else []
        return _call(kubectl(args, "exec", *interactive, *_pod(found), "-c", SANDBOX, "--", *words))


def shell(args: argparse.Namespace, client: Client) -> int:
    """A shell in it."""
    with held(client, args.workspace, read_only=False) as found:
        return _call(kubectl(args, "exec", "-i", "-t", *_pod(found), "-c", SANDBOX, "--", *SHELL))


def forward(args: argparse.Namespace, client: Client) -> int:
    """Its ports on this machine, until Ctrl-C."""
    ports = [_ports(said) for said in args.ports]
    with held(client, args.workspace, read_only=True) as found:
        return _call(kubectl(args, "port-forward", *_pod(found), *ports))


def copy(args: argparse.Namespace, client: Client) -> int:
    """Files into it, or out of it: the side that begins with `:` is the workspace's."""
    inward, outward = args.to.startswith(":"), args.source.startswith(":")
    if inward == outward:
        raise Refusal("one of the two is in the workspace and begins with ':', such as :/home/agent/notes.txt")
    with held(client, args.workspace, read_only=outward) as found:
        space, pod = namespace(found["class"]), found["sandbox"]
        source, to = (f"{space}/{pod}{one}" if one.startswith(":") else one for one in (args.source, args.to))
        return _call(kubectl(args, "cp", "-c", SANDBOX, source, to))


@contextmanager
def held(client: Client, name: str, read_only: bool) -> Iterator[Document]:
    """A workspace that is awake and held, for as long as this is in it."""
    found = client.get(name)
    if found["state"] == "suspended":
        found = client.resume(name, 60)
    if found["state"] != "running" or not found.get("sandbox"):
        raise Refusal(f"{name} is {found['state']}: {found.get('why') or 'it cannot be entered'}")
    holder, mode, ended = f"cli-{secrets.token_hex(4)}", "ro" if read_only else "rw", threading.Event()
    client.attach(name, holder, mode, LEASE_SECONDS)

    def beat() -> None:
        while not ended.wait(_HEARTBEAT_SECONDS):
            # One that fails is made up for by the next: a lease lasts three of them.
            with contextlib.suppress(Refusal):
                client.attach(name, holder, mode, LEASE_SECONDS)

    beating = threading.Thread(target=beat, name="lease", daemon=True)
    beating.start()
    try:
        yield found
    finally:
        ended.set()
        beating.join(_HEARTBEAT_SECONDS)
        with contextlib.suppress(Refusal):
            client.detach(name, holder)


def _pod(found: Document) -> list[str]:
    """A sandbox's pod is called what the sandbox is."""
    return ["-n", namespace(found["class"]), found["sandbox"]]


def _ports(said: str) -> str:
    found = _PORTS.fullmatch(said)
    if not found or not all(0 < int(one) < 65536 for one in found.groups() if one):
        raise Refusal(f"{said} is no port; write 3000, or 8080:3000 for another one here")
    return said


def _call(command: list[str]) -> int:
    try:
        return subprocess.run(command, check=False).returncode
    except FileNotFoundError:
        raise Refusal("kubectl is not on PATH, and is the way into a sandbox") from None
