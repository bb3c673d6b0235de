"""List the engine's tools and plugins, with their versions and sources.

Installed tools are used as they are. A missing tool is built once into the user's cache (AGENTENV_CACHE, else
~/.cache/agentenv), or replaced by a stand-in. This command builds nothing.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentenv.cli.terminal_text import columns

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from agentenv.rehearsal.tools import Tool


@dataclass(frozen=True)
class ToolRow:
    """A tool or plugin in the list."""

    name: str
    version: str
    source: str
    path: Path | None
    detail: str

    def as_json(self) -> dict[str, str | None]:
        """Return the row as the command's JSON has it."""
        path = str(self.path) if self.path is not None else None
        return {**vars(self), "path": path}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")


def run(args: argparse.Namespace) -> int:
    """Print the list."""
    from agentenv.rehearsal.tools import survey

    tools = survey()
    rows = [*tool_rows(tools), *plugin_rows(tools)]
    if args.json:
        sys.stdout.write(json.dumps({"tools": [row.as_json() for row in rows]}) + "\n")
    else:
        sys.stdout.write(table(rows))
    return 0


def tool_rows(tools: Iterable[Tool]) -> list[ToolRow]:
    """Return a row for each tool, with the build effort of absent ones."""
    from agentenv.rehearsal.tools import catalog, toolbox

    return [
        ToolRow(
            tool.name,
            tool.version,
            tool.source,
            tool.path,
            "; ".join(
                detail
                for detail in (
                    toolbox.effort(catalog.recipe(tool.name)) if tool.source == "absent" else "",
                    tool.detail,
                )
                if detail
            ),
        )
        for tool in tools
    ]


def plugin_rows(tools: Iterable[Tool]) -> list[ToolRow]:
    """Return a row for each plugin of the engine: the official one if it is installed, else the stand-in."""
    from importlib.metadata import version

    from agentenv.rehearsal.tools import plugins

    pulumi = next((tool.path for tool in tools if tool.name == "pulumi"), None)
    rows: list[ToolRow] = []
    for stand_in in plugins.STAND_INS:
        requested = plugins.requested_version(stand_in)
        official = plugins.locate(stand_in.kind, stand_in.name, requested, pulumi=pulumi)
        if official is not None:
            rows.append(ToolRow(stand_in.program, official.version, official.source, official.path, "official"))
        else:
            detail = stand_in.module + (f", in place of {requested}" if requested else "")
            rows.append(ToolRow(stand_in.program, version("agent-environment"), "stand-in", None, detail))
    return rows


def table(rows: Sequence[ToolRow]) -> str:
    """Return the rows as a table."""
    shown = [
        (row.name, row.version, row.source, ", ".join(filter(None, (str(row.path or ""), row.detail)))) for row in rows
    ]
    return columns([("NAME", "VERSION", "SOURCE", "DETAILS"), *shown])
