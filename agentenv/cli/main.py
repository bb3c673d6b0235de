"""Reads the command line and calls one command.

A command's module is imported only once its name is known: `agentenv --help` must not pay for Pydantic, boto3 or rich.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

OK = 0
FAILED = 1  # the command ran, and its answer is no: errors found, a rehearsal that did not settle
USAGE = 2  # the call itself is wrong
INTERRUPTED = 130


class Refusal(Exception):
    """What a command cannot do, in words for the person who asked; ends with exit code 1 and no traceback."""


@dataclass(frozen=True)
class Command:
    """One row of `agentenv --help`."""

    name: str
    module: str
    summary: str


COMMANDS = (
    Command("check", "agentenv.cli.commands.check", "read a stack file and list every mistake in it"),
    Command(
        "rehearse", "agentenv.cli.commands.rehearse", "bring the whole environment up and down again on this machine"
    ),
    Command("tools", "agentenv.cli.commands.tools", "list the engine's tools, their versions and where they come from"),
    Command("preflight", "agentenv.cli.commands.preflight", "ask an AWS account whether it has what a stack needs"),
    Command("workspace", "agentenv.cli.commands.workspace", "ask for workspaces, look at them, enter them, end them"),
    Command("releases", "agentenv.cli.commands.releases", "show old releases of sandbox classes, and let them go"),
    Command("policies", "agentenv.cli.commands.policies", "judge Kubernetes manifests by the isolation and cost rules"),
    Command("review", "agentenv.cli.commands.review", "say what a pull request changes, and block what must not be"),
    Command("waivers", "agentenv.cli.commands.waivers", "list the waivers: which ends when, and which nothing needs"),
    Command("estimate", "agentenv.cli.commands.estimate", "say what an environment costs a month, before it is there"),
    Command("cost", "agentenv.cli.commands.cost", "divide the bill among owners, to the cent"),
    Command("prices", "agentenv.cli.commands.prices", "look the prices of a region up anew"),
    Command("bench", "agentenv.cli.commands.bench", "measure, beside a baseline of the same run"),
)


class CommandModule(Protocol):
    """What a module under `agentenv.cli.commands` offers."""

    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def overview() -> str:
    """The text of `agentenv --help`."""
    width = max(len(command.name) for command in COMMANDS)
    rows = "\n".join(f"  {command.name:<{width}}  {command.summary}" for command in COMMANDS)
    return (
        "usage: agentenv COMMAND [options]\n\n"
        "A computer of its own for every user, chat session or agent, as infrastructure code.\n\n"
        f"commands:\n{rows}\n\n"
        "options:\n"
        "  -h, --help   this text, or with a command that command's own\n"
        "  --version    the version\n\n"
        "exit codes: 0 done; 1 the answer is no (errors found, or it could not be done); 2 a mistyped call;\n"
        "130 interrupted. With --json the last line printed is one JSON object.\n"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; what the machine refuses, and Ctrl-C, leave no traceback."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    name = f"agentenv {given[0]}" if given else "agentenv"
    try:
        code = answer(given)
        sys.stdout.flush()
    except KeyboardInterrupt:
        sys.stderr.write(f"\n{name}: interrupted\n")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader went away (`| head`): nobody is left to tell, and Python must not complain at exit either.
        sys.stderr.close()
        return FAILED
    except OSError as failure:
        sys.stderr.write(f"{name}: {failure}\n")
        _forget_output()
        return FAILED
    return code


def answer(given: Sequence[str]) -> int:
    """What the first word asks for: the overview, the version, or a command."""
    if not given or given[0] in {"-h", "--help", "help"}:
        sys.stdout.write(overview())
        return OK if given else USAGE
    if given[0] == "--version":
        from importlib.metadata import version

        sys.stdout.write(f"agentenv {version('agent-environment')}\n")
        return OK
    command = next((row for row in COMMANDS if row.name == given[0]), None)
    if command is None:
        sys.stderr.write(unknown(given[0]))
        return USAGE
    return call(command, given[1:])


def unknown(name: str) -> str:
    """What to say of a command that does not exist."""
    import difflib

    near = difflib.get_close_matches(name, [command.name for command in COMMANDS], n=1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return f"agentenv: there is no command '{name}'; {hint}'agentenv --help' lists them\n"


def call(command: Command, arguments: Sequence[str]) -> int:
    """Import a command's module, parse its arguments and run it; a refusal is told, and with `--json` in JSON too."""
    from agentenv.cli.extras import extra_of, install

    try:
        return _call(command, arguments)
    except ModuleNotFoundError as missing:
        if (extra := extra_of(missing.name or "")) is None:
            raise
        sys.stderr.write(f"agentenv {command.name}: {missing.name} is not installed: {install(extra)}\n")
        if "--json" in arguments:
            sys.stdout.write(json.dumps({"error": f"{missing.name} is not installed: {install(extra)}"}) + "\n")
        return FAILED


def command_parser(command: Command, module: CommandModule) -> argparse.ArgumentParser:
    """Return the parser of a command's arguments."""
    parser = argparse.ArgumentParser(
        prog=f"agentenv {command.name}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    return parser


def _call(command: Command, arguments: Sequence[str]) -> int:
    module = cast("CommandModule", importlib.import_module(command.module))
    parser = command_parser(command, module)
    parsed = parser.parse_args(arguments)
    try:
        return module.run(parsed)
    except Refusal as refusal:
        sys.stderr.write(f"agentenv {command.name}: {refusal}\n")
        if getattr(parsed, "json", False):
            sys.stdout.write(json.dumps({"error": str(refusal)}) + "\n")
        return FAILED


def _forget_output() -> None:
    """Where output cannot be written, Python would try again at exit, and complain of it."""
    try:
        sys.stdout.flush()
    except OSError:
        sys.stdout = None
