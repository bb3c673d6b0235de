"""Show what happened to a workspace lately, and with --watch what happens next."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from agentenv.cli.main import OK
from agentenv.cli.workspaces.verbs import add_options, print_json, run_verb

if TYPE_CHECKING:
    from agentenv.client import Client
    from agentenv.client.api import Event

_WATCH_SECONDS = 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("workspace", metavar="ID", help="the workspace's id")
    parser.add_argument("--watch", action="store_true", help="print each new event until Ctrl-C")
    add_options(parser, _events)


def run(args: argparse.Namespace) -> int:
    """Print the events."""
    return run_verb(args)


def _events(args: argparse.Namespace, client: Client) -> int:
    events = client.list_events(args.workspace)["items"]
    if args.json and not args.watch:
        print_json({"events": events})
        return OK
    printed: list[Event] = []
    while True:
        for event in reversed(events):
            if event not in printed:
                _print(args, event)
        if not args.watch:
            return OK
        printed = events
        time.sleep(_WATCH_SECONDS)
        events = client.list_events(args.workspace)["items"]


def _print(args: argparse.Namespace, event: Event) -> None:
    if args.json:
        print_json(event)
    else:
        sys.stdout.write(f"{event['at'][:19]}Z  {event['reason']}  {event['message']}".rstrip() + "\n")
        sys.stdout.flush()
