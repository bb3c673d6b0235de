"""Create, list, suspend, resume, enter and delete workspaces, with the workspace service.

The service's address is --service or AGENTENV_SERVICE; otherwise it is reached through the cluster of a kubeconfig. The
caller's token is in AGENTENV_TOKEN or AGENTENV_TOKEN_FILE, or is requested for the service account of --account. The
verbs that enter a sandbox (exec, ssh, port-forward, cp) use kubectl and the caller's own permissions in the cluster.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING, Any

from agentenv.cli.main import OK, CommandError

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentenv.cli.workspaces.client import Client, Document

_WATCH_SECONDS = 2.0
ENDED = {"failed", "deleted"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of each verb."""
    parser.epilog = "every verb has its own --help, and --json, which prints one JSON object on the last line"
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    _add_create_verb(verbs)
    _add_read_verbs(verbs)
    _add_change_verbs(verbs)
    _add_access_verbs(verbs)


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    from agentenv.cli.workspaces.client import Client
    from agentenv.cli.workspaces.locate import service_endpoint

    with service_endpoint(args) as endpoint, Client(endpoint.address, endpoint.token) as client:
        return args.do(args, client)


def _verb(
    verbs: Any, name: str, help_: str, do: Callable[[argparse.Namespace, Client], int], *, named: bool = True
) -> argparse.ArgumentParser:
    from agentenv.cli.workspaces import locate

    verb: argparse.ArgumentParser = verbs.add_parser(name, help=help_, description=f"{help_[0].upper()}{help_[1:]}.")
    if named:
        verb.add_argument("workspace", metavar="ID", help="the workspace's id")
    verb.set_defaults(do=do)
    verb.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    locate.add_arguments(verb)
    return verb


def _add_create_verb(verbs: Any) -> None:
    create = _verb(verbs, "create", "create a workspace; the same key returns the same workspace", _create, named=False)
    create.add_argument("--class", dest="class_", required=True, metavar="C", help="its class")
    create.add_argument("--mode", choices=("user", "session", "agent"), default="user", help="its mode (default: user)")
    create.add_argument("--key", metavar="K", help="idempotency key: the same key returns the same workspace")
    create.add_argument("--session", metavar="S", help="the id of the chat session")
    create.add_argument("--agent", metavar="A", help="the name of the agent")
    create.add_argument("--owner", metavar="O", help="its owner, if the caller may create for others")
    create.add_argument("--parent", metavar="ID", help="a workspace whose permissions limit it")
    create.add_argument("--label", action="append", default=[], metavar="K=V", help="a label")
    create.add_argument("--budget", metavar="D", help="dollars a month at which it is suspended")
    create.add_argument("--idle-after", type=int, metavar="S", help="idle seconds until it is suspended")
    _add_wait_option(create)


def _add_read_verbs(verbs: Any) -> None:
    list_ = _verb(verbs, "list", "list workspaces", _list, named=False)
    list_.add_argument("--class", dest="class_", metavar="C", help="of this class")
    list_.add_argument("--state", metavar="S", help="in this state")
    list_.add_argument("--mode", metavar="M", help="of this mode")
    list_.add_argument("--task", metavar="T", help="of this task's swarm")
    list_.add_argument("--owner", metavar="O", help="of this owner, for operators")
    list_.add_argument("--everybody", action="store_true", help="of all owners, for operators")
    list_.add_argument("--deleted", action="store_true", help="also deleted ones with retained data")
    list_.add_argument("--watch", action="store_true", help="refresh until Ctrl-C")
    show = _verb(verbs, "show", "show a workspace and its events", _show)
    show.add_argument("--watch", action="store_true", help="print each change until Ctrl-C")


def _add_change_verbs(verbs: Any) -> None:
    _verb(verbs, "suspend", "suspend a workspace: its processes end, its files stay", _suspend)
    _add_wait_option(_verb(verbs, "resume", "resume a workspace, or restore a deleted one from its data", _resume))
    update = _verb(verbs, "update", "update a workspace", _update)
    update.add_argument("--class", dest="class_", metavar="C", help="change its class, with the same data")
    update.add_argument("--budget", metavar="D", help="dollars a month, or 'none' for that of its class")
    update.add_argument("--idle-after", metavar="S", help="idle seconds until it is suspended, or 'none'")
    update.add_argument("--label", action="append", metavar="K=V", help="replace all labels")
    update.add_argument("--share", action="append", metavar="OWNER=ro|rw", help="replace everybody it is shared with")
    delete = _verb(verbs, "delete", "delete a workspace; its data is retained for a while", _delete)
    delete.add_argument("--destroy", action="store_true", help="destroy its data too, immediately")


def _add_access_verbs(verbs: Any) -> None:
    attach = _verb(verbs, "attach", "hold a lease on a workspace, so that it is not suspended, until Ctrl-C", _attach)
    attach.add_argument("--read-only", action="store_true", help="a read-only lease, beside other readers")
    exec_ = _verb(verbs, "exec", "run a command in a workspace", _exec)
    exec_.add_argument("--read-only", action="store_true", help="with a read-only lease")
    exec_.add_argument("-i", "--stdin", action="store_true", help="pass stdin to the command")
    exec_.add_argument("-t", "--tty", action="store_true", help="stdin is a terminal")
    exec_.add_argument("words", nargs="+", metavar="-- COMMAND", help="the command with its arguments")
    _verb(verbs, "ssh", "open a shell in a workspace", _ssh)
    forward = _verb(verbs, "port-forward", "forward local ports to a workspace, until Ctrl-C", _port_forward)
    forward.add_argument("ports", nargs="+", metavar="[LOCAL:]REMOTE", help="such as 3000, or 8080:3000")
    copy = _verb(verbs, "cp", "copy files into a workspace or out of it", _copy)
    copy.add_argument("source", metavar="FROM", help="a local path, or ':' and a path in the workspace")
    copy.add_argument("to", metavar="TO", help="the other path")


def _add_wait_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--wait", type=float, default=60.0, metavar="S", help="seconds to wait until it is running (60)"
    )


def _create(args: argparse.Namespace, client: Client) -> int:
    request = {
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
    return _print_result(
        args, client.create({key: value for key, value in request.items() if value is not None}, args.wait)
    )


def _list(args: argparse.Namespace, client: Client) -> int:
    from agentenv.cli.workspaces import tables

    options = {"class": args.class_, "state": args.state, "mode": args.mode, "task": args.task, "owner": args.owner}
    query = {key: value for key, value in options.items() if value}
    query |= {key: "true" for key in ("everybody", "deleted") if getattr(args, key)}
    if args.watch and not args.json:
        tables.watch(lambda: list(client.list(query)), _WATCH_SECONDS)
        return OK
    workspaces = list(client.list(query))
    if args.json:
        sys.stdout.write(json.dumps({"workspaces": workspaces}) + "\n")
    else:
        tables.print_table(workspaces)
    return OK


def _show(args: argparse.Namespace, client: Client) -> int:
    from agentenv.cli.workspaces import tables

    workspace = client.get(args.workspace)
    if not args.watch:
        events = client.events(args.workspace)
        if args.json:
            return _print_result(args, {**workspace, "events": events})
        tables.print_details(workspace, events)
        return OK
    before: Document = {}
    while True:
        if workspace != before:
            _print_line(args, workspace)
            before = workspace
        if workspace["state"] in ENDED:
            return OK
        time.sleep(_WATCH_SECONDS)
        workspace = client.get(args.workspace)


def _suspend(args: argparse.Namespace, client: Client) -> int:
    return _print_result(args, client.suspend(args.workspace))


def _resume(args: argparse.Namespace, client: Client) -> int:
    return _print_result(args, client.resume(args.workspace, args.wait))


def _update(args: argparse.Namespace, client: Client) -> int:
    changes: dict[str, Any] = {}
    if args.class_ is not None:
        changes["class"] = args.class_
    if args.budget is not None:
        changes["budget"] = None if args.budget == "none" else args.budget
    if args.idle_after is not None:
        changes["idle_after"] = None if args.idle_after == "none" else _whole_number(args.idle_after, "idle-after")
    if args.label is not None:
        changes["labels"] = _pairs(args.label, "label")
    if args.share is not None:
        changes["shared"] = _pairs(args.share, "share")
    if not changes:
        raise CommandError("there is nothing to update; give an option such as --idle-after 3600")
    return _print_result(args, client.update(args.workspace, changes))


def _delete(args: argparse.Namespace, client: Client) -> int:
    return _print_result(args, client.delete(args.workspace, destroy=args.destroy))


def _attach(args: argparse.Namespace, client: Client) -> int:
    from agentenv.cli.workspaces.enter import lease

    with lease(client, args.workspace, read_only=args.read_only) as workspace:
        _print_line(args, workspace)
        while True:
            time.sleep(_WATCH_SECONDS)


def _exec(args: argparse.Namespace, client: Client) -> int:
    from agentenv.cli.workspaces.enter import run_in_workspace

    return run_in_workspace(args, client, args.words)


def _ssh(args: argparse.Namespace, client: Client) -> int:
    from agentenv.cli.workspaces.enter import shell

    return shell(args, client)


def _port_forward(args: argparse.Namespace, client: Client) -> int:
    from agentenv.cli.workspaces.enter import port_forward

    return port_forward(args, client)


def _copy(args: argparse.Namespace, client: Client) -> int:
    from agentenv.cli.workspaces.enter import copy

    return copy(args, client)


def _print_result(args: argparse.Namespace, workspace: Document) -> int:
    _print_line(args, workspace)
    return OK


def _print_line(args: argparse.Namespace, workspace: Document) -> None:
    from agentenv.cli.workspaces import tables

    sys.stdout.write((json.dumps(workspace) if args.json else tables.line(workspace)) + "\n")
    sys.stdout.flush()


def _pairs(texts: list[str], option: str) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts if text]
    if invalid := [key for key, sign, _ in pairs if not sign or not key]:
        raise CommandError(f"--{option} {invalid[0]} is not a pair; write KEY=VALUE")
    return {key: value for key, _, value in pairs}


def _whole_number(text: str, option: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise CommandError(f"--{option} is {text}; allowed is a whole number, or 'none'")
    return int(text)
