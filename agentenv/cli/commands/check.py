"""Read stack files and list every mistake in them, without an engine, a cloud or a network.

Without options every stack file of the project is read. The project is that of the nearest Pulumi.yaml, in this folder
or above it. Each mistake has its file and line, its path as `pulumi config set --path` takes it, the value found, the
values allowed, and a hint. A warning says that the standard support of a cluster's Kubernetes version ends within 60
days; it does not change the exit code.
"""

from __future__ import annotations

import json
import sys
import textwrap
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from agentenv.cli.main import FAILED, OK
from agentenv.cli.stack_files import display_path, read_stack_file, selected_files, warnings_in
from agentenv.cli.stack_yaml import STDIN
from agentenv.cli.terminal_text import escape, has_colour, plural, text_width

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from agentenv.cli.stack_files import LocatedMistake, LocatedWarning


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--stack", "-s", metavar="S", help="only the file of this stack")
    parser.add_argument(
        "--file",
        "-f",
        metavar="F",
        type=Path,
        help="another file, or - for standard input; --stack then names its stack",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")


def run(args: argparse.Namespace) -> int:
    """Check the files and print their mistakes; the exit code is 1 if there are any."""
    files = selected_files(args.stack, args.file)
    read = {path: read_stack_file(path, stack) for path, stack in files}
    mistakes = {path: file.mistakes for path, file in read.items()}
    warnings = {path: warnings_in(file, today()) for path, file in read.items()}
    if args.json:
        document = {"errors": as_json(mistakes), "warnings": warnings_as_json(warnings)}
        sys.stdout.write(json.dumps(document) + "\n")
    else:
        sys.stdout.write(as_text(mistakes, warnings, width=text_width(sys.stdout), colour=has_colour(sys.stdout)))
    return FAILED if any(mistakes.values()) else OK


def today() -> date:
    """Return the date by which support is judged."""
    return datetime.now(UTC).date()


def warnings_as_json(by_file: dict[Path, list[LocatedWarning]]) -> list[dict[str, str | int]]:
    """Return the warnings as the command's JSON has them."""
    return [
        {"path": warning.path, "warning": warning.text, "file": display_path(path), "line": warning.line}
        for path, warnings in by_file.items()
        for warning in warnings
    ]


def as_json(by_file: dict[Path, list[LocatedMistake]]) -> list[dict[str, str | int]]:
    """Return the mistakes as the command's JSON has them."""
    return [
        {
            "path": mistake.path,
            "found": mistake.found,
            "allowed": mistake.allowed,
            "hint": mistake.hint,
            "file": display_path(path),
            "line": mistake.line,
        }
        for path, mistakes in by_file.items()
        for mistake in mistakes
    ]


def as_text(
    by_file: dict[Path, list[LocatedMistake]],
    warnings: dict[Path, list[LocatedWarning]],
    width: int,
    *,
    colour: bool,
) -> str:
    """Return the mistakes as text, file by file, then the warnings, and a summary line."""
    bold, red, plain = ("\x1b[1m", "\x1b[31m", "\x1b[0m") if colour else ("", "", "")
    lines: list[str] = []
    for path, mistakes in by_file.items():
        for mistake in mistakes:
            lines.append(f"{display_path(path)}:{mistake.line}  {bold}{escape(mistake.path)}{plain}")
            lines += _row("found", mistake.found, width, red, plain)
            lines += _row("allowed", mistake.allowed, width)
            lines += _row("hint", mistake.hint, width) if mistake.hint else []
            lines.append("")
    for path, row in ((path, row) for path, rows in warnings.items() for row in rows):
        lines.append(f"{display_path(path)}:{row.line}  {bold}{escape(row.path)}{plain}")
        lines += [*_row("warning", row.text, width), ""]
    warned = sum(len(rows) for rows in warnings.values())
    summary = _summary(by_file) + (f", {plural(warned, 'warning')}" if warned else "")
    return "\n".join([*lines, summary]) + "\n"


def _row(label: str, text: str, width: int, start: str = "", end: str = "") -> list[str]:
    indent = " " * 12
    wrapped = textwrap.wrap(escape(text), max(width - len(indent), 30), break_on_hyphens=False) or [""]
    first, *rest = [f"{start}{line}{end}" for line in wrapped]
    return [f"    {label:<8}{first}", *(f"{indent}{line}" for line in rest)]


def _summary(by_file: dict[Path, list[LocatedMistake]]) -> str:
    checked = f"{plural(len(by_file), 'stack file')} {_folder_of(by_file)}"
    total = sum(len(mistakes) for mistakes in by_file.values())
    if not total:
        return f"{checked}, no mistakes"
    failed = sum(1 for mistakes in by_file.values() if mistakes)
    return f"{plural(total, 'mistake')} in {checked if failed == len(by_file) else f'{failed} of {checked}'}"


def _folder_of(files: Iterable[Path]) -> str:
    """Return where all files are: a folder, in full if it is the current one."""
    first = next(iter(files))
    if first == STDIN:
        return "from standard input"
    folder = first.absolute().parent
    return f"in {folder if folder == Path.cwd() else display_path(folder)}"
