"""List the classes that the caller may create workspaces of."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from agentenv.cli.main import OK
from agentenv.cli.workspaces.verbs import add_options, print_json, run_verb

if TYPE_CHECKING:
    from agentenv.client import Client


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_options(parser, _list)


def run(args: argparse.Namespace) -> int:
    """Print the classes."""
    return run_verb(args)


def _list(args: argparse.Namespace, client: Client) -> int:
    from agentenv.cli.workspaces import tables

    classes = client.list_classes()["items"]
    if args.json:
        print_json({"classes": classes})
        return OK
    rows = [
        (
            row["name"],
            row["tier"],
            ", ".join(row["modes"]),
            ", ".join(row["sizes"]),
            f"{row['idle_after'] // 60} min",
            f"${row['budget']}" if row["budget"] is not None else "",
            "kept" if row["kept"] else "not kept",
        )
        for row in classes
    ]
    tables.print_rows(("CLASS", "TIER", "MODES", "SIZES", "IDLE AFTER", "BUDGET", "FILES"), rows)
    return OK
