"""Create, list and revoke API keys, which programs send in place of a person's token."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from agentenv.cli.main import OK
from agentenv.cli.workspaces.verbs import add_verb, print_json, run_verb, subparsers

if TYPE_CHECKING:
    from agentenv.client import Client
    from agentenv.client.api import KeyCreate

SCOPES = ("read", "use", "create", "wake", "admin")
_DAY = 86_400


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of each verb."""
    verbs = subparsers(parser)
    create = add_verb(verbs, "create", "create a key; it is printed once", _create)
    create.add_argument("name", metavar="NAME", help="what it is for")
    scopes = "what it allows; may be repeated (default: read, use, create and wake)"
    create.add_argument("--scope", action="append", choices=SCOPES, help=scopes)
    create.add_argument("--days", type=int, default=90, metavar="N", help="days until it expires (90)")
    add_verb(verbs, "list", "list the caller's valid keys", _list)
    revoke = add_verb(verbs, "revoke", "revoke a key, within seconds", _revoke)
    revoke.add_argument("key", metavar="ID", help="the key's id, as `keys list` shows it")


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    return run_verb(args)


def _create(args: argparse.Namespace, client: Client) -> int:
    body: KeyCreate = {"name": args.name, "scopes": args.scope or list(SCOPES[:4]), "expires_in": args.days * _DAY}
    key = client.create_key(body)
    if args.json:
        print_json(key)
    else:
        sys.stderr.write(f"key {key['id']} expires {key['expires'][:10]}; it cannot be read again\n")
        sys.stdout.write(f"{key['key']}\n")
    return OK


def _list(args: argparse.Namespace, client: Client) -> int:
    from agentenv.cli.workspaces import tables

    keys = client.list_keys()["items"]
    if args.json:
        print_json({"keys": keys})
        return OK
    rows = [
        (
            row["id"],
            row["name"],
            ", ".join(row["scopes"]),
            row.get("workspace") or "all",
            row["expires"][:10],
            (row.get("last_used") or "never")[:16],
        )
        for row in keys
    ]
    tables.print_rows(("ID", "NAME", "SCOPES", "WORKSPACE", "EXPIRES", "LAST USED"), rows)
    return OK


def _revoke(args: argparse.Namespace, client: Client) -> int:
    key = client.revoke_key(args.key)
    if args.json:
        print_json(key)
    else:
        sys.stdout.write(f"revoked {key['id']} ({key['name']})\n")
    return OK
