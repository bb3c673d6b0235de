"""Read the command line and run one command.

A command's module is imported only when it is called: `agentenv --help` must not import Pydantic, boto3 or rich.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

OK = 0
FAILED = 1  # the command ran and failed: a stack file has mistakes, a rehearsal did not converge
USAGE = 2  # the arguments are invalid
INTERRUPTED = 130


class CommandError(Exception):
    """A command cannot continue: its message goes to the user, with its exit code and without a traceback."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code


class InvalidArguments(SystemExit):
    """The parser refused the arguments, and has printed why."""

    def __init__(self, message: str) -> None:
        super().__init__(USAGE)
        self.message = message


class ArgumentParser(argparse.ArgumentParser):
    """A parser that says why it refused the arguments, so that the caller can print it as JSON too."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the message, and raise `InvalidArguments`."""
        self.print_usage(sys.stderr)
        sys.stderr.write(f"{self.prog}: error: {message}\n")
        raise InvalidArguments(message)


@dataclass(frozen=True)
class Command:
    """One row of `agentenv --help`."""

    name: str
    module: str
    summary: str
    extra: str = ""  # which the whole command needs


COMMANDS = (
    Command("check", "agentenv.cli.commands.check", "read a stack file and list every mistake in it"),
    Command(
        "rehearse",
        "agentenv.cli.commands.rehearse",
        "bring the whole environment up and down again on this machine",
        extra="rehearsal",
    ),
    Command("dev", "agentenv.cli.commands.dev", "serve workspaces on this machine, without a cluster", extra="dev"),
    Command(
        "tools",
        "agentenv.cli.commands.tools",
        "list the engine's tools, their versions and where they come from",
        extra="rehearsal",
    ),
    Command("preflight", "agentenv.cli.commands.preflight", "check whether an AWS account has what a stack needs"),
    Command("mirror", "agentenv.cli.commands.mirror", "copy the runtimes of nodes to the mirror of a stack"),
    Command("prove", "agentenv.cli.commands.prove", "test isolation, resuming, Spot and cost in a stack of its own"),
    Command("workspace", "agentenv.cli.commands.workspace", "create, list, enter and delete workspaces"),
    Command("swarm", "agentenv.cli.commands.swarm", "create, list and delete swarms of workspaces"),
    Command("classes", "agentenv.cli.commands.classes", "list the classes that workspaces can have"),
    Command("events", "agentenv.cli.commands.events", "show what happened to a workspace"),
    Command("secrets", "agentenv.cli.commands.secrets", "write and delete secrets that sandboxes may read"),
    Command("keys", "agentenv.cli.commands.keys", "create, list and revoke API keys"),
    Command("login", "agentenv.cli.commands.login", "sign in at a workspace service"),
    Command("connect", "agentenv.cli.commands.connect", "connect claude, cursor, vscode, e2b or ssh with workspaces"),
    Command("recover", "agentenv.cli.commands.recover", "recover the workspaces of a lost cluster in another one"),
    Command("releases", "agentenv.cli.commands.releases", "show old releases of sandbox classes, and retire them"),
    Command("policies", "agentenv.cli.commands.policies", "check Kubernetes manifests against the policy rules"),
    Command(
        "review",
        "agentenv.cli.commands.review",
        "show what a pull request changes, and block unsafe changes",
        extra="rehearsal",
    ),
    Command("waivers", "agentenv.cli.commands.waivers", "list the waivers, their expiry and whether they are used"),
    Command("estimate", "agentenv.cli.commands.estimate", "estimate the monthly cost of an environment"),
    Command("cost", "agentenv.cli.commands.cost", "divide the bill among owners, to the cent"),
    Command("prices", "agentenv.cli.commands.prices", "refresh the prices of a region"),
    Command("bench", "agentenv.cli.commands.bench", "run a benchmark and its baseline"),
)


class CommandModule(Protocol):
    """The interface of a module in `agentenv.cli.commands`."""

    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def overview() -> str:
    """Return the text of `agentenv --help`."""
    width = max(len(command.name) for command in COMMANDS)
    rows = "\n".join(f"  {command.name:<{width}}  {command.summary}" for command in COMMANDS)
    return (
        "usage: agentenv COMMAND [options]\n\n"
        "An isolated workspace for every user, chat session or agent, as infrastructure code.\n\n"
        f"commands:\n{rows}\n\n"
        "options:\n"
        "  -h, --help   show this text; after a command, the help of that command\n"
        "  --version    show the version\n\n"
        "exit codes: 0 success; 1 failure (mistakes found, or the command could not run); 2 invalid arguments;\n"
        "130 interrupted. With --json the last line printed is one JSON object.\n"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Operating system errors and Ctrl-C leave no traceback."""
    _open_closed_streams()
    argv = list(sys.argv[1:] if arguments is None else arguments)
    name = f"agentenv {argv[0]}" if argv else "agentenv"
    try:
        code = dispatch(argv)
        sys.stdout.flush()
    except KeyboardInterrupt:
        sys.stderr.write(f"\n{name}: interrupted\n")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has closed the pipe (`| head`). Closing stderr keeps Python from printing an error at exit.
        sys.stderr.close()
        return FAILED
    except OSError as failure:
        text = failure.strerror or str(failure)
        text = text if failure.filename is None else f"{failure.filename}: {text}"
        sys.stderr.write(f"{name}: {text}\n")
        with contextlib.suppress(OSError):
            _print_error_object(argv, text)
        _discard_output()
        return FAILED
    return code


def dispatch(argv: Sequence[str]) -> int:
    """Print the overview or the version, or run the command that the first argument names."""
    if argv and argv[0] == "help" and len(argv) > 1:
        return dispatch([*argv[1:], "--help"])
    if not argv or argv[0] in {"-h", "--help", "help"}:
        sys.stdout.write(overview())
        return OK if argv else USAGE
    if argv[0] == "--version":
        from importlib.metadata import version

        sys.stdout.write(f"agentenv {version('agent-environment')}\n")
        return OK
    command = next((row for row in COMMANDS if row.name == argv[0]), None)
    if command is None:
        message = unknown_command_message(argv[0])
        sys.stderr.write(f"agentenv: {message}\n")
        _print_error_object(argv, message)
        return USAGE
    return run_command(command, argv[1:])


def unknown_command_message(name: str) -> str:
    """Return the error for a command that does not exist."""
    import difflib

    near = difflib.get_close_matches(name, [command.name for command in COMMANDS], n=1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return f"there is no command '{name}'; {hint}'agentenv --help' lists them"


def run_command(command: Command, arguments: Sequence[str]) -> int:
    """Import a command's module, parse its arguments and run it. Errors are printed, with `--json` in JSON too."""
    from agentenv.cli.extras import extra_of, install

    try:
        return _parse_and_run(command, arguments)
    except ModuleNotFoundError as missing:
        if (extra := extra_of(missing.name or "", command.extra)) is None:
            raise
        message = f"{missing.name} is not installed: {install(extra)}"
        sys.stderr.write(f"agentenv {command.name}: {message}\n")
        _print_error_object(arguments, message)
        return FAILED


def command_parser(command: Command, module: CommandModule) -> ArgumentParser:
    """Return the parser of a command's arguments."""
    parser = ArgumentParser(
        prog=f"agentenv {command.name}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    return parser


def _parse_and_run(command: Command, arguments: Sequence[str]) -> int:
    module = cast("CommandModule", importlib.import_module(command.module))
    parser = command_parser(command, module)
    try:
        return module.run(parser.parse_args(arguments))
    except InvalidArguments as error:
        _print_error_object(arguments, error.message)
        raise
    except CommandError as error:
        sys.stderr.write(f"agentenv {command.name}: {error}\n")
        _print_error_object(arguments, str(error))
        return error.code


def _print_error_object(arguments: Sequence[str], message: str) -> None:
    """Print the error as a JSON object too, if the arguments have --json."""
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if "--json" in own:
        sys.stdout.write(json.dumps({"error": message}) + "\n")
        sys.stdout.flush()


def _open_closed_streams() -> None:
    """Discard the output of a closed stream (`>&-`), which Python represents by None. No file may get its number."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def _discard_output() -> None:
    """Drop output that cannot be written: Python would flush it at exit, and print another error."""
    try:
        sys.stdout.flush()
    except OSError:
        sys.stdout = None
