"""List, write and delete the caller's secrets, which sandboxes of classes with an identity may read.

A value is read from standard input or a file, so that no other process of this machine sees it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from agentenv.cli.main import OK, CommandError
from agentenv.cli.workspaces.verbs import add_verb, print_json, run_verb, subparsers

if TYPE_CHECKING:
    from agentenv.client import Client


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of each verb."""
    verbs = subparsers(parser)
    add_verb(verbs, "list", "list the names of the secrets", _list)
    put = add_verb(verbs, "put", "write a secret, in place of its earlier value", _put)
    put.add_argument("name", metavar="NAME", help="its name")
    put.add_argument("--file", type=Path, metavar="F", help="the file with its value (default: standard input)")
    delete = add_verb(verbs, "delete", "delete a secret", _delete)
    delete.add_argument("name", metavar="NAME", help="its name")


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    return run_verb(args)


def _list(args: argparse.Namespace, client: Client) -> int:
    from agentenv.cli.workspaces import tables

    secrets = client.list_secrets()["secrets"]
    if args.json:
        print_json({"secrets": secrets})
        return OK
    rows = [(row["name"], row["reference"], (row.get("changed") or "")[:16]) for row in secrets]
    tables.print_rows(("NAME", "REFERENCE", "CHANGED"), rows)
    return OK


def _put(args: argparse.Namespace, client: Client) -> int:
    try:
        value = args.file.read_text(encoding="utf-8") if args.file else sys.stdin.read()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"the value cannot be read: {type(error).__name__}") from None
    secret = client.put_secret(args.name, {"value": value.removesuffix("\n")})
    if args.json:
        print_json(secret)
    else:
        sys.stdout.write(f"{secret['name']}  {secret['reference']}\n")
    return OK


def _delete(args: argparse.Namespace, client: Client) -> int:
    client.delete_secret(args.name)
    if args.json:
        print_json({"deleted": args.name})
    else:
        sys.stdout.write(f"deleted {args.name}\n")
    return OK
