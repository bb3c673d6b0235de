"""Check whether an AWS account has what a stack needs, before anything is created.

The checks are quotas, zones and instance types, versions of the cluster, its add-ons and its node image, existing
resources to adopt, and the caller's permissions. All calls only read. The account is that of the AWS command line
(AWS_PROFILE and so on), in the stack's region; AWS_ENDPOINT_URL is honoured.

A check marked `?` has no result, with the reason; it fails nothing. Exit code 1 means that a check failed, or that
AWS answered no call at all.
"""

from __future__ import annotations

import json
import sys
import textwrap
from typing import TYPE_CHECKING

from agentenv.cli.arguments import add_stack_options
from agentenv.cli.main import FAILED, OK
from agentenv.cli.terminal_text import text_width

if TYPE_CHECKING:
    import argparse

    from agentenv.cli.preflight.check import Check
    from agentenv.cli.preflight.checks import PreflightResult

MARKS = {True: "ok", False: "no", None: "?"}
MIN_WIDTH = 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_stack_options(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")


def run(args: argparse.Namespace) -> int:
    """Run the checks and print them; the exit code is 1 if one failed."""
    from agentenv.cli.stack_files import selected_settings

    settings = selected_settings(args.stack, args.file)
    from agentenv.cli.preflight.aws_calls import Account
    from agentenv.cli.preflight.checks import preflight

    result = preflight(settings, Account(settings.region))
    if args.json:
        sys.stdout.write(json.dumps({"checks": [check.as_json() for check in result.checks]}) + "\n")
    else:
        sys.stdout.write(table(result, text_width(sys.stdout)))
    if result.error:
        sys.stderr.write(f"agentenv preflight: AWS answered no call: {result.error}\n")
        return FAILED
    return FAILED if result.failed else OK


def table(result: PreflightResult, width: int) -> str:
    """Return a line for each check, with its reason below."""
    lines = [f"caller: {result.caller}"] if result.caller else []
    name = max((len(check.name) for check in result.checks), default=0)
    for check in result.checks:
        lines.append(f"{MARKS[check.ok]:<3} {check.name:<{name}}  {_amounts(check)}")
        if check.why and not result.error:
            lines += _reasons(check, width)
    return "\n".join([*lines, summary(result)]) + "\n"


def _amounts(check: Check) -> str:
    if check.limit is None or check.limit == check.needed:
        return f"{check.needed}"
    return f"{check.needed} of {check.limit}" if isinstance(check.limit, int) else f"{check.needed} ({check.limit})"


def _reasons(check: Check, width: int) -> list[str]:
    indent = " " * 6
    return [
        f"{indent}{line}"
        for reason in check.why.splitlines()
        for line in textwrap.wrap(reason, max(width - len(indent), MIN_WIDTH), break_long_words=False)
    ]


def summary(result: PreflightResult) -> str:
    """Return the number of checks that passed, failed and had no result."""
    count = {ok: sum(check.ok is ok for check in result.checks) for ok in (True, False, None)}
    parts = [f"{count[True]} of {len(result.checks)} checks passed"]
    parts += [f"{count[False]} failed"] if count[False] else []
    parts += [f"{count[None]} without a result"] if count[None] else []
    return ", ".join(parts)
