"""Create, list and delete swarms: several workspaces of one task that share a volume."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from agentenv.cli.main import OK
from agentenv.cli.workspaces.verbs import add_verb, add_wait_option, print_json, run_verb, seconds, subparsers

if TYPE_CHECKING:
    from agentenv.client import Client
    from agentenv.client.api import SwarmCreate


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of each verb."""
    verbs = subparsers(parser)
    create = add_verb(verbs, "create", "create a swarm: all of it or nothing, once a task", _create)
    create.add_argument("task", metavar="TASK", help="the task, which names it")
    create.add_argument("--class", dest="class_", required=True, metavar="C", help="the class of its workspaces")
    create.add_argument("--count", type=int, required=True, metavar="N", help="the number of workspaces")
    create.add_argument("--fit", action="store_true", help="create as many as there is capacity for")
    create.add_argument("--deadline", metavar="T", help="when it is suspended at the latest, such as 2026-12-01T18:00Z")
    add_wait_option(create)
    add_verb(verbs, "list", "list the caller's swarms", _list)
    show = add_verb(verbs, "show", "show a swarm", _show)
    show.add_argument("task", metavar="TASK", help="its task")
    delete = add_verb(verbs, "delete", "delete a swarm; its data is retained for a while", _delete)
    delete.add_argument("task", metavar="TASK", help="its task")
    delete.add_argument("--destroy", action="store_true", help="destroy its data too, immediately")


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    return run_verb(args)


def _create(args: argparse.Namespace, client: Client) -> int:
    body: dict[str, Any] = {"class": args.class_, "task": args.task, "count": args.count, "fit": args.fit}
    body |= {"deadline": args.deadline} if args.deadline else {}
    return _print(args, client.create_swarm(cast("SwarmCreate", body), wait=seconds(args.wait)))


def _list(args: argparse.Namespace, client: Client) -> int:
    from agentenv.cli.workspaces import tables
    from agentenv.client.client import every

    swarms = list(every(lambda after: client.list_swarms(after=after)))
    if args.json:
        print_json({"swarms": swarms})
        return OK
    rows = [(row["task"], row["class"], row["state"], f"{row['ready']}/{row['asked']}") for row in swarms]
    tables.print_rows(("TASK", "CLASS", "STATE", "READY"), rows)
    return OK


def _show(args: argparse.Namespace, client: Client) -> int:
    return _print(args, client.get_swarm(args.task))


def _delete(args: argparse.Namespace, client: Client) -> int:
    return _print(args, client.delete_swarm(args.task, destroy=args.destroy))


def _print(args: argparse.Namespace, swarm: Mapping[str, Any]) -> int:
    if args.json:
        print_json(swarm)
        return OK
    reason = f"  ({swarm['why']})" if swarm["why"] else ""
    line = f"{swarm['task']}  {swarm['class']}  {swarm['state']}  {swarm['ready']}/{swarm['asked']}{reason}\n"
    sys.stdout.write(line + "".join(f"  {id_}\n" for id_ in swarm["workspaces"]))
    return OK
