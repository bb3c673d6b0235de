"""Ask the workspace service for workspaces, look at them, put them to sleep, wake them, enter them, take them away.

The service is found by --service or AGENTENV_SERVICE, else through the cluster of a kubeconfig; who asks is said by a
token in AGENTENV_TOKEN or AGENTENV_TOKEN_FILE, or by --account for one of a service account. What enters a sandbox
(exec, ssh, port-forward, cp) goes by kubectl and the caller's own rights in the cluster.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING, Any

from agentenv.cli.main import OK, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentenv.cli.workspaces.client import Client, Document

_WATCH_SECONDS = 2.0
ENDED = {"failed", "deleted"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What each of the verbs takes."""
    parser.epilog = "every verb has a --help of its own, and a --json that prints one JSON object on the last line"
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    _making(verbs)
    _looking(verbs)
    _changing(verbs)
    _entering(verbs)


def run(args: argparse.Namespace) -> int:
    """Do what the verb says."""
    from agentenv.cli.workspaces.client import Client
    from agentenv.cli.workspaces.locate import way

    with way(args) as found, Client(found.address, found.token) as client:
        return args.do(args, client)


def _verb(
    verbs: Any, name: str, help_: str, do: Callable[[argparse.Namespace, Client], int], *, named: bool = True
) -> argparse.ArgumentParser:
    from agentenv.cli.workspaces import locate as finding

    made: argparse.ArgumentParser = verbs.add_parser(name, help=help_, description=f"{help_[0].upper()}{help_[1:]}.")
    if named:
        made.add_argument("workspace", metavar="ID", help="the workspace's id")
    made.set_defaults(do=do)
    made.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    finding.add_arguments(made)
    return made


def _making(verbs: Any) -> None:
    made = _verb(
        verbs, "create", "ask for a workspace; asked for again by the same key, it is the same", _create, named=False
    )
    made.add_argument("--class", dest="class_", required=True, metavar="C", help="the class that it is of")
    made.add_argument("--mode", choices=("user", "session", "agent"), default="user", help="what it is for (user)")
    made.add_argument("--key", metavar="K", help="what makes it the same when it is asked for again")
    made.add_argument("--session", metavar="S", help="the chat of a session")
    made.add_argument("--agent", metavar="A", help="the agent's name")
    made.add_argument("--owner", metavar="O", help="for whom, for those who may ask for others")
    made.add_argument("--parent", metavar="ID", help="a workspace that it may not do more than")
    made.add_argument("--label", action="append", default=[], metavar="K=V", help="what it is found by")
    made.add_argument("--budget", metavar="D", help="dollars a month at which it sleeps")
    made.add_argument("--idle-after", type=int, metavar="S", help="seconds without use until it sleeps")
    _waiting(made)


def _looking(verbs: Any) -> None:
    listed = _verb(verbs, "list", "list workspaces", _list, named=False)
    listed.add_argument("--class", dest="class_", metavar="C", help="of one class")
    listed.add_argument("--state", metavar="S", help="in one state")
    listed.add_argument("--mode", metavar="M", help="of one mode")
    listed.add_argument("--task", metavar="T", help="of one task's swarm")
    listed.add_argument("--owner", metavar="O", help="of one owner, for those who look after them")
    listed.add_argument("--everybody", action="store_true", help="everybody's, for those who look after them")
    listed.add_argument("--deleted", action="store_true", help="also those of which only the data is kept")
    listed.add_argument("--watch", action="store_true", help="again and again, until Ctrl-C")
    shown = _verb(verbs, "show", "show a workspace, and what happened to it", _show)
    shown.add_argument("--watch", action="store_true", help="tell of each change, until Ctrl-C")


def _changing(verbs: Any) -> None:
    _verb(verbs, "suspend", "let a workspace sleep: its processes end, its files stay", _suspend)
    _waiting(_verb(verbs, "resume", "wake a workspace, or have a deleted one back on its data", _resume))
    changed = _verb(verbs, "update", "change what is said of a workspace", _update)
    changed.add_argument("--class", dest="class_", metavar="C", help="made anew of that class, on the same data")
    changed.add_argument("--budget", metavar="D", help="dollars a month, or 'none' for its class's")
    changed.add_argument("--idle-after", metavar="S", help="seconds of idling until it sleeps, or 'none'")
    changed.add_argument("--label", action="append", metavar="K=V", help="in place of all labels that it has")
    changed.add_argument("--share", action="append", metavar="OWNER=ro|rw", help="in place of all who share it")
    gone = _verb(verbs, "delete", "take a workspace away; its data is kept for a while", _delete)
    gone.add_argument("--destroy", action="store_true", help="its data, too, and at once")


def _entering(verbs: Any) -> None:
    attached = _verb(verbs, "attach", "hold a workspace, so that it stays awake, until Ctrl-C", _attach)
    attached.add_argument("--read-only", action="store_true", help="beside whoever else reads")
    ran = _verb(verbs, "exec", "run a command in a workspace", _exec)
    ran.add_argument("--read-only", action="store_true", help="hold it as one who reads")
    ran.add_argument("-i", "--stdin", action="store_true", help="hand it what is typed here")
    ran.add_argument("-t", "--tty", action="store_true", help="as on a terminal")
    ran.add_argument("words", nargs="+", metavar="-- COMMAND", help="the command with its arguments")
    _verb(verbs, "ssh", "open a shell in a workspace", _ssh)
    ported = _verb(verbs, "port-forward", "have ports of a workspace here, until Ctrl-C", _forward)
    ported.add_argument("ports", nargs="+", metavar="[HERE:]THERE", help="such as 3000, or 8080:3000")
    copied = _verb(verbs, "cp", "copy files into a workspace or out of it", _copy)
    copied.add_argument("source", metavar="FROM", help="a path here, or one in the workspace that begins with ':'")
    copied.add_argument("to", metavar="TO", help="the other one")


def _waiting(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--wait", type=float, default=60.0, metavar="S", help="seconds to wait until it is there (60)")


def _create(args: argparse.Namespace, client: Client) -> int:
    asked = {
        "class": args.class_,
        "mode": args.mode,
        "key": args.key,
        "session": args.session,
        "agent": args.agent,
        "owner": args.owner,
        "parent": args.parent,
        "labels": _pairs(args.label, "label") or None,
        "budget": args.budget,
        "idle_after": args.idle_after,
    }
    return _told(args, client.create({key: value for key, value in asked.items() if value is not None}, args.wait))


def _list(args: argparse.Namespace, client: Client) -> int:
    from agentenv.cli.workspaces import tables

    said = {"class": args.class_, "state": args.state, "mode": args.mode, "task": args.task, "owner": args.owner}
    chosen = {key: value for key, value in said.items() if value}
    chosen |= {key: "true" for key in ("everybody", "deleted") if getattr(args, key)}
    if args.watch and not args.json:
        tables.watch(lambda: list(client.list(chosen)), _WATCH_SECONDS)
        return OK
    found = list(client.list(chosen))
    if args.json:
        sys.stdout.write(json.dumps({"workspaces": found}) + "\n")
    else:
        tables.listed(found)
    return OK


def _show(args: argparse.Namespace, client: Client) -> int:
    from agentenv.cli.workspaces import tables

    found = client.get(args.workspace)
    if not args.watch:
        events = client.events(args.workspace)
        if args.json:
            return _told(args, {**found, "events": events})
        tables.shown(found, events)
        return OK
    before: Document = {}
    while True:
        if found != before:
            _line(args, found)
            before = found
        if found["state"] in ENDED:
            return OK
        time.sleep(_WATCH_SECONDS)
        found = client.get(args.workspace)


def _suspend(args: argparse.Namespace, client: Client) -> int:
    return _told(args, client.suspend(args.workspace))


def _resume(args: argparse.Namespace, client: Client) -> int:
    return _told(args, client.resume(args.workspace, args.wait))


def _update(args: argparse.Namespace, client: Client) -> int:
    changes: dict[str, Any] = {}
    if args.class_ is not None:
        changes["class"] = args.class_
    if args.budget is not None:
        changes["budget"] = None if args.budget == "none" else args.budget
    if args.idle_after is not None:
        changes["idle_after"] = None if args.idle_after == "none" else _whole(args.idle_after, "idle-after")
    if args.label is not None:
        changes["labels"] = _pairs(args.label, "label")
    if args.share is not None:
        changes["shared"] = _pairs(args.share, "share")
    if not changes:
        raise Refusal("nothing is to be changed; say what, such as --idle-after 3600")
    return _told(args, client.update(args.workspace, changes))


def _delete(args: argparse.Namespace, client: Client) -> int:
    return _told(args, client.delete(args.workspace, destroy=args.destroy))


def _attach(args: argparse.Namespace, client: Client) -> int:
    from agentenv.cli.workspaces.enter import held

    with held(client, args.workspace, read_only=args.read_only) as found:
        _line(args, found)
        while True:
            time.sleep(_WATCH_SECONDS)


def _exec(args: argparse.Namespace, client: Client) -> int:
    from agentenv.cli.workspaces.enter import run as entered

    return entered(args, client, args.words)


def _ssh(args: argparse.Namespace, client: Client) -> int:
    from agentenv.cli.workspaces.enter import shell

    return shell(args, client)


def _forward(args: argparse.Namespace, client: Client) -> int:
    from agentenv.cli.workspaces.enter import forward

    return forward(args, client)


def _copy(args: argparse.Namespace, client: Client) -> int:
    from agentenv.cli.workspaces.enter import copy

    return copy(args, client)


def _told(args: argparse.Namespace, found: Document) -> int:
    _line(args, found)
    return OK


def _line(args: argparse.Namespace, found: Document) -> None:
    from agentenv.cli.workspaces import tables

    sys.stdout.write((json.dumps(found) if args.json else tables.line(found)) + "\n")
    sys.stdout.flush()


def _pairs(said: list[str], option: str) -> dict[str, str]:
    pairs = [one.partition("=") for one in said if one]
    if wrong := [key for key, sign, _ in pairs if not sign or not key]:
        raise Refusal(f"--{option} {wrong[0]} is no pair; write KEY=VALUE")
    return {key: value for key, _, value in pairs}


def _whole(said: str, option: str) -> int:
    if not said.isascii() or not said.isdigit():
        raise Refusal(f"--{option} is {said}; it takes a whole number, or 'none'")
    return int(said)
