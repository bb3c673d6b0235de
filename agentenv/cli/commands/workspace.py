"""Create, list, suspend, resume, enter and delete workspaces, with the workspace service.

The service's address is --service or AGENTENV_SERVICE, else that of `agentenv login`; otherwise the service is reached
through the cluster of a kubeconfig. The caller's token is in AGENTENV_TOKEN or AGENTENV_TOKEN_FILE, or that of the
login, or is requested for the service account of --account. The verbs that enter a sandbox go through the gateway.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from agentenv.cli.arguments import port_number
from agentenv.cli.main import OK, CommandError
from agentenv.cli.workspaces.verbs import add_verb, add_wait_option, pairs, print_json, run_verb, seconds, subparsers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agentenv.client import Client
    from agentenv.client.api import Workspace, WorkspaceCreate, WorkspaceUpdate

_WATCH_SECONDS = 2.0
SSH_SUFFIX = ".agentenv"
ENDED = {"failed", "deleted"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of each verb."""
    verbs = subparsers(parser)
    _add_create_verb(verbs)
    _add_read_verbs(verbs)
    _add_change_verbs(verbs)
    _add_access_verbs(verbs)


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    if (text := getattr(args, "link", None)) and args.do is _attach:
        from agentenv.cli.workspaces.attach_link import read_link

        if args.workspace is not None:
            raise CommandError("a link names its workspace; leave out the id, or the link to create one")
        link = read_link(text)
        args.service, args.workspace, args.link_key = link.service, link.workspace, link.key
    return run_verb(args)


def _verb(
    verbs: Any, name: str, help_: str, do: Callable[[argparse.Namespace, Client], int], *, named: bool = True
) -> argparse.ArgumentParser:
    verb = add_verb(verbs, name, help_, do)
    if named:
        verb.add_argument("workspace", metavar="ID", help="the workspace's id")
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
    create.add_argument("--size", metavar="S", help="a size of the class: small, medium or large")
    create.add_argument(
        "--grant",
        action="append",
        default=[],
        metavar="K=V",
        help="less than the class gives: ports=8080,3000, capabilities=dns,web, size=small or life=SECONDS",
    )
    create.add_argument("--warm", action="store_true", help="fail instead of a cold start")
    add_wait_option(create)


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

    usage = _verb(verbs, "usage", "show the usage and cost of workspaces by day", _usage, named=False)
    usage.add_argument("workspace", nargs="?", metavar="ID", help="only this workspace")
    usage.add_argument("--since", metavar="DAY", help="the first day, such as 2026-11-01 (default: of this month)")
    usage.add_argument("--until", metavar="DAY", help="the last day (default: today)")
    usage.add_argument("--owner", metavar="O", help="of this owner, for operators")


def _add_change_verbs(verbs: Any) -> None:
    _verb(verbs, "suspend", "suspend a workspace: its processes end, its files stay", _suspend)
    add_wait_option(_verb(verbs, "resume", "resume a workspace, or restore a deleted one from its data", _resume))
    update = _verb(verbs, "update", "update a workspace", _update)
    update.add_argument("--class", dest="class_", metavar="C", help="change its class, with the same data")
    update.add_argument("--budget", metavar="D", help="dollars a month, or 'none' for that of its class")
    update.add_argument("--idle-after", metavar="S", help="idle seconds until it is suspended, or 'none'")
    update.add_argument("--size", metavar="S", help="a size of the class; it is resized in place if it can be")
    update.add_argument("--label", action="append", metavar="K=V", help="replace all labels")
    update.add_argument("--share", action="append", metavar="OWNER=ro|rw", help="replace everybody it is shared with")
    delete = _verb(verbs, "delete", "delete a workspace; its data is retained for a while", _delete)
    delete.add_argument("--destroy", action="store_true", help="destroy its data too, immediately")


def _add_access_verbs(verbs: Any) -> None:
    attach_help = "hold a lease on a workspace, so that it is not suspended, until Ctrl-C; or create a link to it"
    attach = _verb(verbs, "attach", attach_help, _attach, named=False)
    attach.add_argument("workspace", nargs="?", metavar="ID", help="the workspace's id (default: that of the link)")
    attach.add_argument("--read-only", action="store_true", help="a read-only lease, beside other readers")
    attach.add_argument(
        "--link",
        nargs="?",
        const="",
        metavar="URL",
        help="after ID: create a link that lets a chat or an agent attach; without ID: attach by a link, '-' for stdin",
    )
    attach.add_argument("--rights", choices=("look", "use"), default="use", help="of a new link (default: use)")
    attach.add_argument("--wake", action="store_true", help="whether a new link also wakes the workspace")
    attach.add_argument("--hours", type=float, default=1.0, metavar="H", help="until a new link expires (default: 1)")
    exec_ = _verb(verbs, "exec", "run a command in a workspace, and exit with its code", _exec)
    exec_.add_argument("-i", "--stdin", action="store_true", help="pass stdin to the command")
    exec_.add_argument("-t", "--tty", action="store_true", help="run it in a terminal")
    exec_.add_argument("--cwd", metavar="DIR", help="the folder to run it in (default: the home)")
    exec_.add_argument("--env", action="append", default=[], metavar="K=V", help="a variable of its environment")
    exec_.add_argument("--timeout", type=float, metavar="S", help="seconds after which it is ended")
    exec_.usage = "%(prog)s [options] ID -- COMMAND [ARG ...]"
    exec_.add_argument("words", nargs="+", metavar="COMMAND", help="the command, after `--`, with its arguments")
    _verb(verbs, "shell", "open a shell in a workspace", _shell)
    logs = _verb(verbs, "logs", "print the recent output of a process in a workspace, and what follows", _logs)
    logs.add_argument("--pid", type=int, metavar="N", help="the process (default: the only one)")
    copy = _verb(verbs, "cp", "copy files or folders into a workspace or out of it", _copy)
    copy.add_argument("source", metavar="FROM", help="a local path, or ':' and a path in the workspace")
    copy.add_argument("to", metavar="TO", help="the other path; a relative one in the workspace begins at its home")
    open_ = _verb(verbs, "open", "open a port of a workspace in the browser", _open)
    open_.add_argument(
        "port", type=port_number, metavar="PORT", help="the port that a program in the workspace listens on"
    )
    open_.add_argument("--print", dest="only_print", action="store_true", help="print the address, and open nothing")
    _add_share_verb(verbs)
    ssh_config = f"print the OpenSSH configuration for hosts such as ID{SSH_SUFFIX}"
    _verb(verbs, "ssh-config", ssh_config, _ssh_config, named=False)
    for name, help_, do in (
        ("ssh-proxy", "connect OpenSSH with a workspace, as its ProxyCommand", _ssh_proxy),
        ("ssh-host-key", "print the host key of a workspace, as a KnownHostsCommand", _ssh_host_key),
    ):
        add_verb(verbs, name, help_, do).add_argument("host", metavar="HOST", help="a host of the configuration")


def _add_share_verb(verbs: Any) -> None:
    share = _verb(verbs, "share", "share a port of a workspace, or list the shared ones", _share)
    share.add_argument(
        "port", nargs="?", type=port_number, metavar="PORT", help="the port (default: list the shared ports)"
    )
    kinds = "who reaches it besides those who may use the workspace"
    share.add_argument("--with", dest="sharing", choices=("private", "team", "link", "public"), help=kinds)
    share.add_argument("--team", action="append", metavar="T", help="a team that reaches it, with `--with team`")
    share.add_argument("--wake", action="store_true", help="its visitors resume the workspace if it is suspended")
    share.add_argument("--hours", type=float, default=24, metavar="H", help="hours that a new link is valid (24)")


def _create(args: argparse.Namespace, client: Client) -> int:
    request = {
        "class": args.class_,
        "mode": args.mode,
        "key": args.key,
        "session": args.session,
        "agent": args.agent,
        "owner": args.owner,
        "parent": args.parent,
        "labels": pairs(args.label, "label") or None,
        "budget": args.budget,
        "idle_after": args.idle_after,
        "size": args.size,
        "grants": _grants(args.grant),
        "start": "warm" if args.warm else None,
    }
    body = {key: value for key, value in request.items() if value is not None}
    _print_line(args, client.create_workspace(cast("WorkspaceCreate", body), wait=seconds(args.wait)), created=True)
    return OK


def _grants(texts: list[str]) -> dict[str, Any] | None:
    """Return the grants that options name; an empty value grants nothing of a list."""
    grants: dict[str, Any] = {}
    for name, value in pairs(texts, "grant").items():
        words = [word for word in value.split(",") if word]
        if not (value.isdecimal() if name == "life" else name != "ports" or all(word.isdecimal() for word in words)):
            raise CommandError(f"--grant {name}={value}: write whole numbers")
        if name == "ports":
            grants[name] = [int(word) for word in words]
        elif name == "life":
            grants[name] = int(value)
        elif name in {"capabilities", "size"}:
            grants[name] = words if name == "capabilities" else value
        else:
            raise CommandError(f"--grant {name}: use ports, capabilities, size or life")
    return grants or None


def _list(args: argparse.Namespace, client: Client) -> int:
    from agentenv.cli.workspaces import tables
    from agentenv.client.client import every

    options: dict[str, Any] = {
        "class_": args.class_,
        "state": args.state,
        "mode": args.mode,
        "task": args.task,
        "owner": args.owner,
    }
    options |= {key: True for key in ("everybody", "deleted") if getattr(args, key)}

    def read() -> list[Workspace]:
        return list(every(lambda after: client.list_workspaces(**options, after=after)))

    if args.watch and not args.json:
        tables.watch(read, _WATCH_SECONDS)
        return OK
    workspaces = read()
    if args.json:
        print_json({"workspaces": workspaces})
    else:
        tables.print_table(workspaces)
    return OK


def _show(args: argparse.Namespace, client: Client) -> int:
    from agentenv.cli.workspaces import tables

    workspace = client.get_workspace(args.workspace)
    if not args.watch:
        events = client.list_events(args.workspace)["items"]
        if args.json:
            return _print_result(args, {**workspace, "events": events})
        tables.print_details(workspace, events)
        return OK
    before: Workspace | None = None
    while True:
        if workspace != before:
            _print_line(args, workspace)
            before = workspace
        if workspace["state"] in ENDED:
            return OK
        time.sleep(_WATCH_SECONDS)
        workspace = client.get_workspace(args.workspace)


def _usage(args: argparse.Namespace, client: Client) -> int:
    from agentenv.cli.workspaces import tables

    usage = client.get_usage(owner=args.owner, workspace=args.workspace, since=args.since, until=args.until)
    if args.json:
        print_json(usage)
    else:
        tables.print_usage(usage)
    return OK


def _suspend(args: argparse.Namespace, client: Client) -> int:
    return _print_result(args, client.suspend_workspace(args.workspace))


def _resume(args: argparse.Namespace, client: Client) -> int:
    return _print_result(args, client.resume_workspace(args.workspace, wait=seconds(args.wait)))


def _update(args: argparse.Namespace, client: Client) -> int:
    changes: dict[str, Any] = {}
    if args.class_ is not None:
        changes["class"] = args.class_
    if args.budget is not None:
        changes["budget"] = None if args.budget == "none" else args.budget
    if args.idle_after is not None:
        changes["idle_after"] = None if args.idle_after == "none" else _whole_number(args.idle_after, "idle-after")
    if args.size is not None:
        changes["size"] = args.size
    if args.label is not None:
        changes["labels"] = pairs(args.label, "label")
    if args.share is not None:
        changes["shared"] = pairs(args.share, "share")
    if not changes:
        raise CommandError("there is nothing to update; give an option such as --idle-after 3600")
    return _print_result(args, client.update_workspace(args.workspace, cast("WorkspaceUpdate", changes)))


def _delete(args: argparse.Namespace, client: Client) -> int:
    return _print_result(args, client.delete_workspace(args.workspace, destroy=args.destroy))


def _attach(args: argparse.Namespace, client: Client) -> int:
    from agentenv.cli.workspaces.lease import lease

    if args.workspace is None:
        raise CommandError("name a workspace, or a link with --link URL")
    if args.link == "":
        return _create_link(args, client)
    with lease(client, args.workspace, read_only=args.read_only) as workspace:
        _print_line(args, workspace)
        while True:
            time.sleep(_WATCH_SECONDS)


def _create_link(args: argparse.Namespace, client: Client) -> int:
    from agentenv.cli.workspaces.attach_link import create_link

    seconds_of_link = int(args.hours * 3600)
    url, key = create_link(client, args.workspace, rights=args.rights, wake=args.wake, seconds=seconds_of_link)
    if args.json:
        print_json({"url": url, "id": key["id"], "scopes": key["scopes"], "expires": key["expires"]})
    else:
        rights = ", ".join(key["scopes"])
        sys.stderr.write(f"{rights} until {key['expires'][:16]}; end it with `agentenv keys revoke {key['id']}`\n")
        sys.stdout.write(f"{url}\n")
    return OK


def _exec(args: argparse.Namespace, client: Client) -> int:
    from agentenv.cli.workspaces.enter import entered, run_command, terminal_size
    from agentenv.client.sandbox import Command

    command = Command(
        args.words,
        directory=args.cwd,
        environment=pairs(args.env, "env"),
        terminal=terminal_size() if args.tty else None,
        stdin=args.stdin,
        timeout=args.timeout,
    )
    return run_command(entered(client, args.workspace), command)


def _shell(args: argparse.Namespace, client: Client) -> int:
    from agentenv.cli.workspaces.enter import SHELL, entered, run_command, terminal_size
    from agentenv.client.sandbox import Command

    environment = {"TERM": os.environ.get("TERM", "xterm")}
    command = Command(SHELL, environment=environment, terminal=terminal_size())
    return run_command(entered(client, args.workspace), command)


def _logs(args: argparse.Namespace, client: Client) -> int:
    from agentenv.cli.workspaces.enter import entered, follow

    return follow(entered(client, args.workspace), args.pid)


def _copy(args: argparse.Namespace, client: Client) -> int:
    from agentenv.cli.workspaces.copy import copy_in, copy_out
    from agentenv.cli.workspaces.enter import entered

    inward, outward = args.to.startswith(":"), args.source.startswith(":")
    if inward == outward:
        raise CommandError("exactly one path must begin with ':', such as :notes.txt in the workspace")
    sandbox = entered(client, args.workspace)
    if inward:
        files = copy_in(sandbox, Path(args.source), args.to[1:] or ".")
    else:
        files = copy_out(sandbox, args.source[1:] or ".", Path(args.to))
    if args.json:
        print_json({"files": files})
    return OK


def _open(args: argparse.Namespace, client: Client) -> int:
    import webbrowser

    from agentenv.client.client import gateway_of

    address = gateway_of(client.get_caller())["ports"].format(port=args.port, workspace=args.workspace)
    if args.json:
        print_json({"url": address})
    else:
        sys.stdout.write(f"{address}\n")
    if not args.only_print and not args.json:
        webbrowser.open(address)
    return OK


def _share(args: argparse.Namespace, client: Client) -> int:
    from agentenv.cli.workspaces import tables
    from agentenv.cli.workspaces.share import share_port

    if args.port is not None:
        if args.sharing is None:
            raise CommandError("choose who reaches the port with --with: private, team, link or public")
        shared = share_port(client, args)
        if args.json:
            print_json(shared)
        else:
            sys.stdout.write(f"{shared['url']}\n")
        return OK
    ports = client.list_ports(args.workspace)["items"]
    if args.json:
        print_json({"ports": ports})
    else:
        rows = [(str(row["port"]), row["sharing"], row["url"]) for row in ports]
        tables.print_rows(("PORT", "SHARED WITH", "URL"), rows)
    return OK


def _ssh_config(args: argparse.Namespace, client: Client) -> int:
    from agentenv.cli.workspaces.ssh import configuration, program
    from agentenv.client.client import gateway_of

    gateway_of(client.get_caller())
    text = configuration(program())
    if args.json:
        print_json({"configuration": text})
    else:
        sys.stdout.write(text)
    return OK


def _ssh_proxy(args: argparse.Namespace, client: Client) -> int:
    from agentenv.cli.workspaces.enter import entered
    from agentenv.cli.workspaces.ssh import proxy, workspace_of

    entered(client, workspace_of(args.host))
    proxy(client, args.host)
    return OK


def _ssh_host_key(args: argparse.Namespace, client: Client) -> int:
    from agentenv.cli.workspaces.ssh import host_key

    sys.stdout.write(host_key(client, args.host))
    return OK


def _print_result(args: argparse.Namespace, workspace: Mapping[str, Any]) -> int:
    _print_line(args, workspace)
    return OK


def _print_line(args: argparse.Namespace, workspace: Mapping[str, Any], *, created: bool = False) -> None:
    from agentenv.cli.workspaces import tables

    sys.stdout.write((json.dumps(workspace) if args.json else tables.line(workspace, created=created)) + "\n")
    sys.stdout.flush()


def _whole_number(text: str, option: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise CommandError(f"--{option} is {text}; allowed is a whole number, or 'none'")
    return int(text)
