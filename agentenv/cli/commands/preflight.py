"""Ask an AWS account whether it has what a stack needs, before anything is made.

Quotas, zones and instance types, versions of the cluster, its add-ons and its nodes' image, what stands already and is
to be used, and the caller's permissions. Everything is only read. The account is the one that the AWS command line
would use (AWS_PROFILE and the like), in the stack's region; AWS_ENDPOINT_URL is honoured.

A check whose answer is `?` could not be asked, and says why; it fails nothing. Exit code 1 says that a check failed,
or that nothing could be asked at all.
"""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from agentenv.cli.main import FAILED, OK, Refusal

if TYPE_CHECKING:
    import argparse

    from agentenv.cli.preflight.check import Check
    from agentenv.cli.preflight.checks import Findings
    from agentenv.config import Settings

MARKS = {True: "ok", False: "no", None: "?"}
NARROWEST = 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--stack", "-s", metavar="S", help="whose needs: stacks/Pulumi.<S>.yaml")
    which.add_argument("--file", "-f", metavar="F", type=Path, help="another stack file, Pulumi.<stack>.yaml")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")


def run(args: argparse.Namespace) -> int:
    """Ask, print, and tell by the exit code."""
    settings = settings_of(args.stack, args.file)
    from agentenv.cli.preflight.aws_calls import Account
    from agentenv.cli.preflight.checks import preflight

    found = preflight(settings, Account(settings.region))
    if args.json:
        told = {"checks": [check.as_json() for check in found.checks]}
        sys.stdout.write(json.dumps(told) + "\n")
    else:
        sys.stdout.write(table(found, shutil.get_terminal_size((120, 0)).columns))
    if found.silence:
        sys.stderr.write(f"agentenv preflight: nothing could be asked: {found.silence}\n")
        return FAILED
    return FAILED if found.failed else OK


def settings_of(stack: str | None, file: Path | None = None) -> Settings:
    """The settings of a stack file; one with mistakes is a matter of `agentenv check`."""
    from agentenv.cli.commands.check import files
    from agentenv.cli.stack_files import mistakes_in
    from agentenv.cli.stack_yaml import read_document
    from agentenv.config import read

    ((path, name),) = files(stack, file)
    if wrong := mistakes_in(path, name):
        where = f"--file {file}" if file else f"--stack {stack}"
        raise Refusal(f"{path.name} has {len(wrong)} mistakes; agentenv check {where} lists them")
    return read(read_document(path).value["config"], name)


def table(found: Findings, width: int) -> str:
    """The checks for a person: a line each, with the reason below where there is something to say."""
    lines = [f"asked as {found.caller}"] if found.caller else []
    name = max((len(check.name) for check in found.checks), default=0)
    for check in found.checks:
        lines.append(f"{MARKS[check.ok]:<3} {check.name:<{name}}  {_amounts(check)}")
        if check.why and not found.silence:
            lines += _below(check, width)
    return "\n".join([*lines, summary(found)]) + "\n"


def _amounts(check: Check) -> str:
    if check.limit is None or check.limit == check.needed:
        return f"{check.needed}"
    return f"{check.needed} of {check.limit}" if isinstance(check.limit, int) else f"{check.needed} ({check.limit})"


def _below(check: Check, width: int) -> list[str]:
    indent = " " * 6
    return [
        f"{indent}{line}"
        for said in check.why.splitlines()
        for line in textwrap.wrap(said, max(width - len(indent), NARROWEST), break_long_words=False)
    ]


def summary(found: Findings) -> str:
    """How many of each."""
    count = {ok: sum(check.ok is ok for check in found.checks) for ok in (True, False, None)}
    parts = [f"{count[True]} of {len(found.checks)} checks passed"]
    parts += [f"{count[False]} failed"] if count[False] else []
    parts += [f"{count[None]} could not be asked"] if count[None] else []
    return ", ".join(parts)
