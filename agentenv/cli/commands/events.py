"""Show what happened to a workspace lately, and with --follow what happens next to one or to all of yours."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agentenv.cli.main import OK, CommandError
from agentenv.cli.workspaces.verbs import add_options, print_json, run_verb

if TYPE_CHECKING:
    from agentenv.client import Client


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("workspace", nargs="?", metavar="ID", help="the workspace's id; with --follow, default: all")
    parser.add_argument("--follow", action="store_true", help="print each new event and state until Ctrl-C")
    parser.add_argument("--after", metavar="N", help="with --follow: continue after this number; 0: from an hour ago")
    parser.add_argument("--everybody", action="store_true", help="with --follow: all workspaces, for operators")
    add_options(parser, _events)


def run(args: argparse.Namespace) -> int:
    """Print the events."""
    return run_verb(args)


def _events(args: argparse.Namespace, client: Client) -> int:
    if args.follow:
        return _follow(args, client)
    if args.workspace is None or args.after is not None or args.everybody:
        raise CommandError("name a workspace, or add --follow")
    events = client.list_events(args.workspace)["items"]
    if args.json:
        print_json({"events": events})
        return OK
    for event in reversed(events):
        _print(event["at"], event["reason"], event["message"])
    return OK


def _follow(args: argparse.Namespace, client: Client) -> int:
    states: dict[str, str] = {}
    for message in client.follow_events(after=args.after, workspace=args.workspace, everybody=args.everybody):
        data = message.data
        if message.kind == "workspace" and states.get(data["id"]) == data["state"]:
            continue  # something else of it changed
        if args.json:
            print_json({"kind": message.kind, **data})
        elif message.kind == "event":
            _print(data["at"], data["reason"], data["message"], data["workspace"])
        elif message.kind == "workspace":
            _print(_now(), "State", data["state"], data["id"])
        elif message.kind == "removed":
            _print(_now(), "Removed", "", data["workspace"])
        elif message.kind == "gap":
            sys.stderr.write("agentenv: events are missing here; list those of a workspace with `agentenv events ID`\n")
        _note(states, message.kind, data)
    return OK


def _note(states: dict[str, str], kind: str, data: Mapping[str, Any]) -> None:
    if kind == "workspace":
        states[data["id"]] = data["state"]
    elif kind == "removed":
        states.pop(data["workspace"], None)


def _now() -> str:
    from datetime import UTC, datetime

    return datetime.now(UTC).isoformat()


def _print(at: str, reason: str, message: str, workspace: str = "") -> None:
    from agentenv.cli.workspaces.wording import event_text

    named = f"{workspace}  " if workspace else ""
    sys.stdout.write(f"{at[:19]}Z  {named}{reason}  {event_text(reason, message)}".rstrip() + "\n")
    sys.stdout.flush()
