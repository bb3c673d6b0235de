"""The verbs of commands that speak to the service, with the options that all of them have."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from agentenv.cli.main import CommandError

if TYPE_CHECKING:
    from agentenv.client import Client

    Do = Callable[[argparse.Namespace, Client], int]

HELP = "every verb has its own --help, and --json, which prints one JSON object on the last line"


def subparsers(parser: argparse.ArgumentParser) -> Any:
    """Return where the verbs of a command are added."""
    parser.epilog = HELP
    return parser.add_subparsers(dest="verb", required=True, metavar="VERB")


def add_verb(verbs: Any, name: str, help_: str, do: Do) -> argparse.ArgumentParser:
    """Add a verb, and return its parser."""
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=help_, description=f"{help_[0].upper()}{help_[1:]}.")
    add_options(parser, do)
    return parser


def add_options(parser: argparse.ArgumentParser, do: Do) -> None:
    """Add the options of every command that speaks to the service."""
    from agentenv.cli.workspaces import locate

    parser.set_defaults(do=do)
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    locate.add_arguments(parser)


def run_verb(args: argparse.Namespace) -> int:
    """Run the verb with a client of the service."""
    from agentenv.cli.workspaces.locate import connected

    with connected(args) as client:
        return args.do(args, client)


def add_wait_option(parser: argparse.ArgumentParser) -> None:
    """Add the option of how long to wait."""
    parser.add_argument(
        "--wait", type=float, default=LONGEST_WAIT, metavar="S", help="seconds to wait until it is running (60)"
    )


LONGEST_WAIT = 60.0


def seconds(wait: float) -> float:
    """Return a wait that the service allows."""
    return min(max(wait, 0.0), LONGEST_WAIT)


def pairs(texts: list[str], option: str) -> dict[str, str]:
    """Return options of the form KEY=VALUE."""
    split = [text.partition("=") for text in texts if text]
    if invalid := [key for key, sign, _ in split if not sign or not key]:
        raise CommandError(f"--{option} {invalid[0]} is not a pair; write KEY=VALUE")
    return {key: value for key, _, value in split}


def print_json(document: Mapping[str, Any]) -> None:
    """Print one JSON object in one line."""
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()
