"""Where the service is, and whose token is shown to it: said in options, in the environment, or by a kubeconfig.

With a kubeconfig the service is reached through the API server, and a token of a service account is asked for, made for
the service alone and for an hour. Both are done by kubectl, with whatever way into the cluster the kubeconfig has.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentenv.cli.main import Refusal

if TYPE_CHECKING:
    import argparse

SERVICE, TOKEN, TOKEN_FILE = "AGENTENV_SERVICE", "AGENTENV_TOKEN", "AGENTENV_TOKEN_FILE"
AUDIENCE = "agent-environment"
_NAMESPACE = "workspace-service"
_FORWARDED = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+)")


@dataclass(frozen=True)
class Way:
    """The service's address, and what says who asks."""

    address: str
    token: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that say where and who."""
    where = parser.add_argument_group("where the service is, and who asks")
    where.add_argument("--service", metavar="URL", help=f"its address; {SERVICE}, or through the cluster")
    where.add_argument("--token-file", type=Path, metavar="F", help=f"a file with a token; {TOKEN_FILE}, {TOKEN}")
    where.add_argument("--kubeconfig", type=Path, metavar="F", help="the way to the cluster; KUBECONFIG when left out")
    where.add_argument("--context", metavar="C", help="which context of the kubeconfig")
    where.add_argument("--account", metavar="NAMESPACE/NAME", help="ask for a token of this service account")
    where.add_argument("--audience", default=AUDIENCE, metavar="A", help=f"whom that token is for ({AUDIENCE})")


@contextmanager
def way(args: argparse.Namespace, environment: Mapping[str, str] | None = None) -> Iterator[Way]:
    """The way to the service, for as long as it is used."""
    around = os.environ if environment is None else environment
    token = token_of(args, around)
    if address := args.service or around.get(SERVICE):
        yield Way(address, token)
        return
    with forwarded(args) as address:
        yield Way(address, token)


def token_of(args: argparse.Namespace, around: Mapping[str, str]) -> str:
    """The token: of an account where one is named, else from a file or the environment."""
    if args.account:
        namespace, slash, name = args.account.partition("/")
        if not slash or not name:
            raise Refusal(f"{args.account} is no service account; write NAMESPACE/NAME")
        asked = ["create", "token", name, "-n", namespace, f"--audience={args.audience}", "--duration=1h"]
        return _asked(kubectl(args, *asked))
    if file := args.token_file or (Path(around[TOKEN_FILE]) if around.get(TOKEN_FILE) else None):
        try:
            found = file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as failure:
            raise Refusal(f"the token cannot be read: {failure}") from failure
    else:
        found = around.get(TOKEN, "").strip()
    if not found:
        raise Refusal(f"there is no token; set {TOKEN} or {TOKEN_FILE}, or name a service account with --account")
    return found


def kubectl(args: argparse.Namespace, *words: str) -> list[str]:
    """A call of kubectl, with the kubeconfig and context that were named."""
    told = ["kubectl"]
    if args.kubeconfig:
        told.append(f"--kubeconfig={args.kubeconfig}")
    if args.context:
        told.append(f"--context={args.context}")
    return [*told, *words]


@contextmanager
def forwarded(args: argparse.Namespace) -> Iterator[str]:
    """The service's address on this machine, through the API server."""
    command = kubectl(args, "port-forward", "-n", _NAMESPACE, f"service/{_NAMESPACE}", ":http")
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except FileNotFoundError:
        raise _no_kubectl() from None
    try:
        said: list[str] = []
        for line in process.stdout or ():
            if found := _FORWARDED.search(line):
                yield f"http://127.0.0.1:{found[1]}"
                return
            said.append(line.strip())
        raise Refusal(f"the service cannot be reached through the cluster: {' '.join(said) or 'kubectl says nothing'}")
    finally:
        process.terminate()
        process.wait()


def _asked(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise _no_kubectl() from None
    if done.returncode:
        raise Refusal(f"the cluster gives no token: {done.stderr.strip() or 'kubectl says nothing'}")
    return done.stdout.strip()


def _no_kubectl() -> Refusal:
    return Refusal(f"kubectl is not on PATH, and leads to the cluster; or set {SERVICE} and {TOKEN}")
