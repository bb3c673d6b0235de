"""The reference of the command line, from the parsers themselves."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator
from typing import Any, cast

from agentenv.cli.main import COMMANDS, Command, CommandModule, command_parser

_HEADER = """\
# Command line

<!-- Written by `make generate` from the parsers of agentenv/cli/commands. -->

Exit codes: 0 done; 1 the answer is no, or it could not be done; 2 a mistyped call; 130 interrupted. With `--json` the
last line printed is one JSON object.
"""


def cli_page() -> str:
    """Return `docs/reference/cli.md`."""
    overview = "\n".join(
        ["| command | |", "|---|---|"]
        + [f"| [`agentenv {row.name}`](#agentenv-{row.name}) | {_cell(row.summary)} |" for row in COMMANDS]
    )
    return "\n".join([_HEADER, overview, *(text for row in COMMANDS for text in _command(row)), ""])


def _command(row: Command) -> Iterator[str]:
    parser = command_parser(row, cast("CommandModule", importlib.import_module(row.module)))
    yield f"\n## agentenv {row.name}\n"
    yield (parser.description or "").strip()
    yield from parser_lines(parser, level=3)


def parser_lines(parser: argparse.ArgumentParser, level: int) -> Iterator[str]:
    """Return the table of a parser's arguments, and a section for each of its verbs."""
    # argparse has no public list of a parser's actions.
    actions: list[argparse.Action] = parser._actions  # pyright: ignore[reportPrivateUsage]
    rows = [action for action in actions if action.help != argparse.SUPPRESS and not _is_help(action)]
    verbs = [action for action in rows if isinstance(action, argparse._SubParsersAction)]  # pyright: ignore[reportPrivateUsage]
    plain = [action for action in rows if action not in verbs]
    if plain:
        yield "\n| argument | | default |\n|---|---|---|"
        yield from (f"| {_signature(action)} | {_cell(_help(action))} | {_default(action)} |" for action in plain)
    for action in verbs:
        subparsers: dict[str, argparse.ArgumentParser] = action.choices
        for subparser in subparsers.values():
            yield f"\n{'#' * level} {subparser.prog}\n"
            yield (subparser.description or "").strip()
            yield from parser_lines(subparser, level + 1)


def _is_help(action: argparse.Action) -> bool:
    return isinstance(action, argparse._HelpAction)  # pyright: ignore[reportPrivateUsage]


def _signature(action: argparse.Action) -> str:
    value = _value(action)
    if not action.option_strings:
        return f"`{value}`"
    # A flag takes no value.
    names = ", ".join(f"`{name}`" for name in action.option_strings)
    return names if action.nargs == 0 else f"{names} `{value}`"


def _value(action: argparse.Action) -> str:
    metavar = action.metavar
    if isinstance(metavar, tuple):
        return " ".join(metavar)
    if action.choices is not None and metavar is None:
        value = "{" + ",".join(map(str, action.choices)) + "}"
    else:
        value = metavar or (action.dest.upper() if action.option_strings else action.dest)
    return f"{value} …" if action.nargs in {"*", "+", argparse.REMAINDER} else value


def _help(action: argparse.Action) -> str:
    values: dict[str, Any] = {**vars(action), "prog": ""}
    return (action.help or "") % values


def _default(action: argparse.Action) -> str:
    if action.required and action.option_strings:
        return "required"
    if action.nargs == 0 or action.default in (None, "", argparse.SUPPRESS, (), []):
        return ""
    return f"`{action.default}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
