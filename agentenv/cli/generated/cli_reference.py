"""Generate the reference of the command line from its parsers."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from agentenv.cli.main import COMMANDS, Command, CommandModule, command_parser

_HEADER = """\
# Command line

<!-- Written by `make generate` from the parsers of agentenv/cli/commands. -->

Exit codes: 0 success; 1 failure; 2 invalid arguments; 130 interrupted. `workspace exec` exits with the code of its
command. With `--json` the last line printed is one JSON object; that of an error, of invalid arguments
too, has the key `error`.
"""
_TABLE = "| argument | | default |\n|---|---|---|"


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


def parser_lines(parser: argparse.ArgumentParser, level: int, shared: Sequence[str] = ()) -> Iterator[str]:
    """Return the table of a parser's arguments, then a section for each of its verbs.

    A table leaves out the rows in `shared`: arguments that all verbs of a command have are listed once, before them.
    """
    verbs = _verbs(parser)
    common = _shared_rows(list(verbs.values()))
    own = [row for row in _rows(parser) if row not in shared]
    if own:
        yield f"\n{_TABLE}"
        yield from own
    if common:
        yield f"\nEvery verb takes:\n\n{_TABLE}"
        yield from common
    for verb in verbs.values():
        yield f"\n{'#' * level} {verb.prog}\n"
        yield (verb.description or "").strip()
        yield from parser_lines(verb, level + 1, common)


def _shared_rows(parsers: Sequence[argparse.ArgumentParser]) -> list[str]:
    if len(parsers) < 2:
        return []
    others = [set(_rows(parser)) for parser in parsers[1:]]
    return [row for row in _rows(parsers[0]) if all(row in rows for rows in others)]


def _verbs(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    # argparse has no public list of a parser's actions.
    for action in parser._actions:  # pyright: ignore[reportPrivateUsage]
        if isinstance(action, argparse._SubParsersAction):  # pyright: ignore[reportPrivateUsage]
            return dict(cast("Mapping[str, argparse.ArgumentParser]", action.choices))
    return {}


def _rows(parser: argparse.ArgumentParser) -> list[str]:
    return [
        f"| {_signature(action)} | {_cell(_help(action))} | {_default(action)} |"
        for action in parser._actions  # pyright: ignore[reportPrivateUsage]
        if action.help != argparse.SUPPRESS
        and not isinstance(action, argparse._HelpAction | argparse._SubParsersAction)  # pyright: ignore[reportPrivateUsage]
    ]


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
