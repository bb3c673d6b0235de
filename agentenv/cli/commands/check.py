"""Read stack files and list every mistake in them, without an engine, a cloud or a network.

Without options every file in stacks/ is read. A mistake is told with its file and line, its path as
`pulumi config set --path` takes it, what was found, what is allowed, and what to do.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from agentenv.cli.main import FAILED, OK, Refusal
from agentenv.cli.project import root
from agentenv.cli.stack_files import all_stack_files, mistakes_in, stack_file, stack_of

if TYPE_CHECKING:
    import argparse

    from agentenv.cli.stack_files import Located

WIDEST = 160


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--stack", "-s", metavar="S", help="only stacks/Pulumi.<S>.yaml")
    parser.add_argument("--file", "-f", metavar="F", type=Path, help="another file; --stack then says whose it is")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")


def run(args: argparse.Namespace) -> int:
    """Check, print, and tell by the exit code."""
    found = {path: mistakes_in(path, stack) for path, stack in files(args.stack, args.file)}
    if args.json:
        sys.stdout.write(json.dumps({"errors": as_json(found)}) + "\n")
    else:
        sys.stdout.write(as_text(found, width=width(sys.stdout), colour=_colour()))
    return FAILED if any(found.values()) else OK


def files(stack: str | None, file: Path | None) -> list[tuple[Path, str]]:
    """The files to check, each with its stack."""
    if file is not None:
        if file.exists() and not file.is_file():
            raise Refusal(f"{file} is not a file to read")  # a pipe would keep us waiting
        return [(file, stack or stack_of(file))]
    folder = root()
    if stack is None:
        return [(path, stack_of(path)) for path in all_stack_files(folder)]
    if "/" in stack or "\\" in stack:
        raise Refusal(f"'{stack}' is not the name of a stack; give --file for a file elsewhere")
    path = stack_file(folder, stack)
    if not path.is_file():
        there = ", ".join(stack_of(other) for other in all_stack_files(folder))
        raise Refusal(f"there is no {_shown(path)}; there are stack files for {there}")
    return [(path, stack)]


def as_json(found: dict[Path, list[Located]]) -> list[dict[str, str | int]]:
    """The mistakes in the words of the command's contract."""
    return [
        {
            "path": mistake.path,
            "found": mistake.found,
            "allowed": mistake.allowed,
            "hint": mistake.hint,
            "file": _shown(path),
            "line": mistake.line,
        }
        for path, mistakes in found.items()
        for mistake in mistakes
    ]


def as_text(found: dict[Path, list[Located]], width: int, *, colour: bool) -> str:
    """The mistakes for a person, file by file, and a line that sums up."""
    bold, red, plain = ("\x1b[1m", "\x1b[31m", "\x1b[0m") if colour else ("", "", "")
    lines: list[str] = []
    for path, mistakes in found.items():
        for mistake in mistakes:
            lines.append(f"{_shown(path)}:{mistake.line}  {bold}{_clean(mistake.path)}{plain}")
            lines += _row("found", mistake.found, width, red, plain)
            lines += _row("allowed", mistake.allowed, width)
            lines += _row("hint", mistake.hint, width) if mistake.hint else []
            lines.append("")
    return "\n".join([*lines, _summary(found)]) + "\n"


def _row(label: str, text: str, width: int, start: str = "", end: str = "") -> list[str]:
    indent = " " * 12
    wrapped = textwrap.wrap(_clean(text), max(width - len(indent), 30), break_on_hyphens=False) or [""]
    first, *rest = [f"{start}{line}{end}" for line in wrapped]
    return [f"    {label:<8}{first}", *(f"{indent}{line}" for line in rest)]


def _clean(text: str) -> str:
    """The text without characters that would steer a terminal; a file's keys may hold any."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _summary(found: dict[Path, list[Located]]) -> str:
    checked = _count(len(found), "stack file")
    mistakes = sum(len(one) for one in found.values())
    if not mistakes:
        return f"{checked}, no mistakes"
    wrong = sum(1 for one in found.values() if one)
    return f"{_count(mistakes, 'mistake')} in {checked if wrong == len(found) else f'{wrong} of {checked}'}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _shown(path: Path) -> str:
    """A path as one would type it here."""
    return os.path.relpath(path) if path.resolve().is_relative_to(Path.cwd().resolve()) else str(path)


def width(stream: TextIO) -> int:
    """How wide the text may be; where nobody looks, a line is one line: a pipe may want to find things in it."""
    return min(shutil.get_terminal_size().columns, WIDEST) if stream.isatty() else sys.maxsize


def _colour() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
