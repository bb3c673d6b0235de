"""Sign in, so that commands need neither --service nor a token: with an API key, or at the environment's issuer.

Its secrets are kept in the system's key ring, with the extra `keyring`, or else in a file that only this user reads.
`agentenv login --dev` uses the `agentenv dev` that runs; one with a --state of its own is found by the same --state.
"""

from __future__ import annotations

import argparse
import getpass
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from agentenv.cli.main import OK, USAGE, CommandError
from agentenv.cli.workspaces.verbs import print_json

if TYPE_CHECKING:
    from agentenv.cli.workspaces.login_file import Login

_SCOPES = "openid offline_access"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--service", metavar="URL", help="the service's address, such as https://api.example.com")
    parser.add_argument("--key-file", type=Path, metavar="F", help="a file with an API key (default: ask for it)")
    parser.add_argument("--issuer", metavar="URL", help="sign in at this OIDC issuer with a browser")
    parser.add_argument("--client-id", metavar="ID", help="the client id of this command at the issuer")
    parser.add_argument("--scopes", default=_SCOPES, metavar="S", help=f"the scopes to request ({_SCOPES})")
    parser.add_argument("--dev", action="store_true", help="use the `agentenv dev` that runs on this machine")
    parser.add_argument("--state", type=Path, metavar="DIR", help="with --dev: its folder, as given to `agentenv dev`")
    parser.add_argument("--show", action="store_true", help="show who is signed in, and where")
    parser.add_argument("--forget", action="store_true", help="delete the login")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")


def run(args: argparse.Namespace) -> int:
    """Sign in, and check that the service accepts it."""
    from agentenv.cli.workspaces.login_file import delete_login, login_file, save_login, saved_login

    if args.forget:
        existed = delete_login()
        sys.stdout.write("the login is deleted\n" if existed else "there is no login\n")
        return OK
    login = saved_login() if args.show else _sign_in(args)
    if login is None:
        raise CommandError("nobody is signed in; run `agentenv login --service URL`")
    owner, roles = _caller(login)
    if not args.show:
        save_login(login)
    if args.json:
        print_json({"service": login.service, "owner": owner, "roles": roles, "file": str(login_file())})
    else:
        sys.stdout.write(f"signed in at {login.service} as {owner} ({', '.join(roles)}); see {login_file()}\n")
    return OK


def _sign_in(args: argparse.Namespace) -> Login:
    from agentenv.cli.workspaces.device_flow import sign_in
    from agentenv.cli.workspaces.login_file import Login

    if args.dev:
        return _dev_login(args.state)
    if not args.service:
        raise CommandError("name the service with --service, or use --dev for `agentenv dev`", USAGE)
    if not args.issuer:
        return Login(args.service, _key(args.key_file))
    if not args.client_id:
        raise CommandError("an issuer knows this command by a client id; give it with --client-id", USAGE)

    def show(page: str, code: str) -> None:
        sys.stderr.write(f"open {page}\nand enter the code {code}\n")
        sys.stderr.flush()

    return sign_in(args.service, args.issuer, args.client_id, scopes=args.scopes, show=show)


def _key(file: Path | None) -> str:
    try:
        key = file.read_text(encoding="ascii") if file else getpass.getpass("API key: ")
    except (OSError, UnicodeDecodeError, EOFError) as error:
        raise CommandError(f"the API key cannot be read: {type(error).__name__}") from None
    if not key.strip():
        raise CommandError("the API key is empty")
    return key.strip()


def _dev_login(folder: Path | None) -> Login:
    from agentenv.cli.workspaces.login_file import Login
    from agentenv.dev import state

    folder = folder or state.folder()
    found = state.announced(folder)
    if found is None:
        raise CommandError(f"`agentenv dev` does not run with the folder {folder}; start it, or give its --state")
    return Login(*found)


def _caller(login: Login) -> tuple[str, list[str]]:
    from agentenv.cli.workspaces.device_flow import refreshed
    from agentenv.cli.workspaces.wording import text_of
    from agentenv.client import ApiError, Client, ClientError

    try:
        with Client(login.service, refreshed(login).token) as client:
            caller = client.get_caller()
    except ApiError as error:
        raise CommandError(text_of(error)) from error
    except ClientError as error:
        raise CommandError(str(error)) from error
    return caller["owner"], caller["roles"]
