"""List the engine's tools and plugins, their versions and where they come from.

What is installed on this machine is used as it is. What is missing is built once into the user's cache
(AGENTENV_CACHE, else ~/.cache/agentenv), or answered by a stand-in; nothing is built by this command.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from agentenv.rehearsal.tools import Tool


@dataclass(frozen=True)
class Row:
    """A tool or plugin as it is shown."""

    name: str
    version: str
    source: str
    path: Path | None
    detail: str

    def as_json(self) -> dict[str, str | None]:
        """The row in the words of the command's contract."""
        path = str(self.path) if self.path is not None else None
        return {**vars(self), "path": path}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")


def run(args: argparse.Namespace) -> int:
    """Print the list."""
    from agentenv.rehearsal.tools import survey

    found = survey()
    rows = [*tool_rows(found), *plugin_rows(found)]
    if args.json:
        sys.stdout.write(json.dumps({"tools": [row.as_json() for row in rows]}) + "\n")
    else:
        sys.stdout.write(table(rows))
    return 0


def tool_rows(found: Iterable[Tool]) -> list[Row]:
    """The tools, with what it would take to have those that are absent."""
    from agentenv.rehearsal.tools import catalog, toolbox

    return [
        Row(
            tool.name,
            tool.version,
            tool.source,
            tool.path,
            "; ".join(
                words
                for words in (
                    toolbox.effort(catalog.recipe(tool.name)) if tool.source == "absent" else "",
                    tool.detail,
                )
                if words
            ),
        )
        for tool in found
    ]


def plugin_rows(found: Iterable[Tool]) -> list[Row]:
    """The engine's plugins: the official one where there is one, else the stand-in."""
    from importlib.metadata import version

    from agentenv.rehearsal.tools import plugins

    pulumi = next((tool.path for tool in found if tool.name == "pulumi"), None)
    rows: list[Row] = []
    for stand_in in plugins.STAND_INS:
        wanted = plugins.requested_version(stand_in)
        official = plugins.locate(stand_in.kind, stand_in.name, wanted, pulumi=pulumi)
        if official is not None:
            rows.append(Row(stand_in.program, official.version, official.source, official.path, "official"))
        else:
            asked = f", in place of {wanted}" if wanted else ""
            rows.append(
                Row(stand_in.program, version("agent-environment"), "stand-in", None, f"{stand_in.module}{asked}")
            )
    return rows


def table(rows: Sequence[Row]) -> str:
    """The rows in columns, for people."""
    shown = [
        (row.name, row.version, row.source, ", ".join(filter(None, (str(row.path or ""), row.detail)))) for row in rows
    ]
    cells = [("NAME", "VERSION", "SOURCE", ""), *shown]
    widths = [max(len(line[column]) for line in cells) for column in range(3)]
    return "".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[3]]).rstrip() + "\n"
        for line in cells
    )
