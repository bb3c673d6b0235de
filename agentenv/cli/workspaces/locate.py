"""Find the service's address and the caller's token: from options, the environment, the login, or a kubeconfig.

With a kubeconfig, kubectl forwards a local port to the service. With --account, kubectl creates a token of that service
account, with the service as its audience, for one hour.
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

from agentenv.cli.main import CommandError
from agentenv.cli.workspaces.login_file import Login, save_login, saved_login

if TYPE_CHECKING:
    import argparse

    from agentenv.client import Client

SERVICE, TOKEN, TOKEN_FILE = "AGENTENV_SERVICE", "AGENTENV_TOKEN", "AGENTENV_TOKEN_FILE"
AUDIENCE = "agent-environment"
_NAMESPACE = "workspace-service"
_FORWARDED = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+)")


@dataclass(frozen=True)
class ServiceEndpoint:
    """The service's address and the caller's token."""

    address: str
    token: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options for the address and the token."""
    group = parser.add_argument_group("service and caller")
    group.add_argument(
        "--service", metavar="URL", help=f"the service's address (default: {SERVICE}, the login, or the cluster)"
    )
    group.add_argument("--token-file", type=Path, metavar="F", help=f"a token file (default: {TOKEN_FILE}, {TOKEN})")
    group.add_argument("--kubeconfig", type=Path, metavar="F", help="the kubeconfig file (default: KUBECONFIG)")
    group.add_argument("--context", metavar="C", help="the context of the kubeconfig")
    group.add_argument("--account", metavar="NAMESPACE/NAME", help="create a token of this service account")
    group.add_argument("--audience", default=AUDIENCE, metavar="A", help=f"the audience of that token ({AUDIENCE})")


@contextmanager
def service_endpoint(
    args: argparse.Namespace, environment: Mapping[str, str] | None = None
) -> Iterator[ServiceEndpoint]:
    """Yield the service's address and the caller's token. A forwarded port is closed afterwards."""
    if (link_key := getattr(args, "link_key", None)) is not None:
        yield ServiceEndpoint(args.service, link_key)
        return
    variables = os.environ if environment is None else environment
    address = args.service or variables.get(SERVICE)
    in_cluster = args.kubeconfig or args.context or args.account
    login = None if in_cluster else saved_login()
    if login is not None and address in {None, login.service}:
        address = login.service
    else:
        login = None  # of another service
    token = read_token(args, variables, login)
    if address:
        yield ServiceEndpoint(address, token)
        return
    with port_forward(args) as address:
        yield ServiceEndpoint(address, token)


@contextmanager
def connected(args: argparse.Namespace) -> Iterator[Client]:
    """Yield a client of the service; its errors become those of a command."""
    from agentenv.cli.workspaces.wording import text_of
    from agentenv.client import ApiError, Client, ClientError
    from agentenv.client.connect_json import SandboxError

    with service_endpoint(args) as endpoint:
        try:
            with Client(endpoint.address, endpoint.token) as client:
                yield client
        except ApiError as error:
            raise CommandError(text_of(error)) from error
        except (ClientError, SandboxError) as error:
            raise CommandError(str(error)) from error


def read_token(args: argparse.Namespace, variables: Mapping[str, str], login: Login | None = None) -> str:
    """Return a token of the service account if one is given, else from a file, the environment or the login."""
    if args.account:
        namespace, slash, name = args.account.partition("/")
        if not slash or not name:
            raise CommandError(f"{args.account} is not a service account; write NAMESPACE/NAME")
        options = ["-n", namespace, f"--audience={args.audience}", "--duration=1h"]
        return _create_token(kubectl(args, "create", "token", name, *options))
    if file := args.token_file or (Path(variables[TOKEN_FILE]) if variables.get(TOKEN_FILE) else None):
        try:
            token = file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"the token cannot be read: {error}") from error
    else:
        token = variables.get(TOKEN, "").strip()
    if not token and login is not None:
        token = _token_of(login)
    if not token:
        raise CommandError(f"there is no token; run `agentenv login`, set {TOKEN} or {TOKEN_FILE}, or give --account")
    return token


def _token_of(login: Login) -> str:
    """Return the token of a login, refreshed where it is about to expire."""
    if not login.expires:
        return login.token
    from agentenv.cli.workspaces.device_flow import refreshed

    current = refreshed(login)
    if current != login:
        save_login(current)
    return current.token


def kubectl(args: argparse.Namespace, *arguments: str) -> list[str]:
    """Return a kubectl command with the kubeconfig and context of the options."""
    command = ["kubectl"]
    if args.kubeconfig:
        command.append(f"--kubeconfig={args.kubeconfig}")
    if args.context:
        command.append(f"--context={args.context}")
    return [*command, *arguments]


@contextmanager
def port_forward(args: argparse.Namespace) -> Iterator[str]:
    """Forward a local port to the service, and yield its local address."""
    command = kubectl(args, "port-forward", "-n", _NAMESPACE, f"service/{_NAMESPACE}", ":http")
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except FileNotFoundError:
        raise _kubectl_error() from None
    try:
        lines: list[str] = []
        for line in process.stdout or ():
            if match := _FORWARDED.search(line):
                yield f"http://127.0.0.1:{match[1]}"
                return
            lines.append(line.strip())
        output = " ".join(lines) or "kubectl printed no error"
        raise CommandError(f"the service cannot be reached through the cluster: {output}")
    finally:
        process.terminate()
        process.wait()


def _create_token(command: list[str]) -> str:
    try:
        output = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise _kubectl_error() from None
    if output.returncode:
        raise CommandError(f"the token cannot be created: {output.stderr.strip() or 'kubectl printed no error'}")
    return output.stdout.strip()


def _kubectl_error() -> CommandError:
    return CommandError(f"kubectl is not on PATH, and is needed to reach the cluster; or set {SERVICE} and {TOKEN}")
