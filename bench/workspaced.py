"""Measure workspaced as a process: commands, output, files and many things at once, each beside its baseline.

The figures are those of `make -C workspaced bench`: of commands beside the same shell started without it, of files
beside `cp`, of memory beside its bound.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from agentenv.cli.main import CommandError
from agentenv.rehearsal.tools import catalog, ensure, go_compiler
from agentenv.rehearsal.tools.progress import terminal_progress

PROGRAM = "workspaced"
COMMANDS_PER_REPEAT = 100


def measure(repeat: int) -> dict[str, Any]:
    """Run the benchmark of the Go module with the built program; a figure out of its bound says so."""
    row = catalog.recipe(PROGRAM)
    program = ensure([PROGRAM], terminal_progress()).path(PROGRAM)
    compiler = go_compiler.find(catalog.least_go(row), _note)
    runs = str(COMMANDS_PER_REPEAT * repeat)
    command = [str(compiler.path), "run", "./bench", "-json", "-runs", runs, "-program", str(program)]
    ended = subprocess.run(
        command,
        cwd=catalog.folder(row),
        env=compiler.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    lines = ended.stdout.splitlines()
    if not lines or not lines[-1].startswith("{"):
        raise CommandError(f"the benchmark of {PROGRAM} failed: {ended.stderr.strip()[-600:]}")
    return figures(json.loads(lines[-1])["rows"])


def figures(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return each row as a text, with its value, its baseline, and what its bound is about."""
    return {row["name"].strip(): _figure(row) for row in rows}


def _figure(row: dict[str, Any]) -> dict[str, Any]:
    figure, bound = row["figure"], row["bound"]
    held = figure >= bound if row.get("least") else figure <= bound
    known = {name: round(row[name], 2) for name in ("value", "baseline", "figure") if name in row}
    return {**known, "bound": bound, "held": held, "what": row["what"]}


def _note(text: str) -> None:
    sys.stderr.write(f"{text}\n")
