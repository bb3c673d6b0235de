"""Recover the workspaces of a lost cluster in the cluster that a stack has now.

The homes are on file systems, which outlive a cluster. The service records who has which home in the ledger's table,
and tags their access points. From both, this command creates the volume of each home again. Nothing is started: a
workspace is suspended until it is used, with its id, its files and its settings. The command may be interrupted and
repeated.

It needs the permissions of a deployer of the cluster, and reads the table and the file systems.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentenv.cli.arguments import add_stack_options
from agentenv.cli.main import FAILED, OK, CommandError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from agentenv.config import Settings
    from agentenv.service.kube.client import KubeClient
    from agentenv.service.workspaces.recover import Recovery

_TABLE_OPTION = "--ledger-table"
_SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_stack_options(parser, "the stack with the new cluster, of the nearest Pulumi.yaml")
    parser.add_argument(
        "--table", metavar="NAME", help="the ledger's table of the lost environment (default: that of the stack)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")


def run(args: argparse.Namespace) -> int:
    """Recover, and print what was recovered and lost."""
    import httpx2
    from lightkube import ConfigError

    from agentenv.cli.commands.releases import stack_client
    from agentenv.cli.stack_files import selected_settings, stack_name
    from agentenv.service.aws.clients import AwsRefusedError, AwsUnavailableError
    from agentenv.service.kube.client import KubeApiError

    settings = selected_settings(args.stack, args.file)
    stack, folder = (args.stack, None) if args.file is None else (stack_name(args.file), args.file.parent)
    try:
        cluster, file_systems = stack_client(stack, folder), _file_systems(stack, folder)
        found = asyncio.run(_recover(cluster, settings, file_systems, args.table))
    except (httpx2.HTTPError, ConfigError, KubeApiError) as error:
        raise CommandError(f"the request to the API server failed: {error}") from None
    except (AwsRefusedError, AwsUnavailableError) as error:
        raise CommandError(f"the request to AWS failed: {error}") from None
    sys.stderr.write("\n".join(_lines(found)) + "\n")
    if args.json:
        lost = {"lost": len(found.lost), "why_lost": found.lost, "tags_only": found.tags_only}
        sys.stdout.write(json.dumps({"homes": found.homes, "workspaces": found.workspaces, **lost}) + "\n")
    return FAILED if found.lost else OK


def _lines(found: Recovery) -> list[str]:
    lines = [f"{found.homes} homes, {found.workspaces} workspaces, {found.created} volumes created now"]
    for title, rows in (("lost", found.lost), ("known by their tags alone, with a new id", found.tags_only)):
        if rows:
            lines += [f"{len(rows)} {title}:", *(f"  {row}" for row in rows[:_SHOWN])]
            lines += [f"  and {len(rows) - _SHOWN} more (--json lists all)"] if len(rows) > _SHOWN else []
    return lines


async def _recover(cluster: KubeClient, settings: Settings, file_systems: Sequence[str], table: str | None) -> Recovery:
    from agentenv.service.aws.access_points import Efs
    from agentenv.service.aws.clients import client
    from agentenv.service.ledger.home_records import HomeRecordTable
    from agentenv.service.workspaces.recover import Recovering

    try:
        name = table or await _table_of(cluster)
        points = Efs(settings.region)
        records = list(HomeRecordTable(client("dynamodb", settings.region), name).records())
        capacities = {each.name: str(each.storage.size) for each in settings.sandbox_classes}
        recovering = Recovering(cluster, capacities, file_systems, progress=_progress)
        return await recovering.run(records, [point for system in file_systems for point in points.of(system)])
    except ValueError as error:
        raise CommandError(f"a record of the table cannot be read: {error}") from None
    finally:
        await cluster.close()


async def _table_of(cluster: KubeClient) -> str:
    """Return the ledger's table of the service that runs in the cluster."""
    from agentenv.core.service.rbac import NAME
    from agentenv.service.kube.client import Kind

    deployment = await cluster.find(Kind("/apis/apps/v1", "deployments", "Deployment"), NAME, NAME)
    container: Any = deployment["spec"]["template"]["spec"]["containers"][0] if deployment else {}
    for argument in [*(container.get("command") or ()), *(container.get("args") or ())]:
        option, _, name = str(argument).partition("=")
        if option == _TABLE_OPTION and name:
            return name
    raise CommandError("the service of the stack has no ledger; name the table of the lost environment with --table")


def _file_systems(stack: str, folder: Path | None) -> list[str]:
    """Return the stack's file systems, in the order of shards."""
    from agentenv.cli.commands.releases import stack_output

    return [str(id_) for id_ in stack_output(stack, "fileSystemIds", folder)]


def _progress(count: int, of: int) -> None:
    if sys.stderr.isatty() and (count % 50 == 0 or count == of):
        sys.stderr.write(f"\r{count} of {of} homes" + ("\n" if count == of else ""))
        sys.stderr.flush()
