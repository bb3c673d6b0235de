"""List the waivers: which rule each is for, whom it answers to, when it ends, and whether anything still needs it.

Whether one is used is told from the working tree's own programs, previewed in the rehearsal's stand-ins; with --fast
nothing is run, and the question is left open. Exit code 1 says that one has expired or is written wrongly.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from agentenv.cli.main import FAILED, OK, Refusal

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from agentenv.policies.verdicts import Severity
    from agentenv.policies.waivers import Waivers


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--stack", "-s", metavar="S", help="only those of this environment")
    parser.add_argument("--fast", action="store_true", help="run no program; whether one is used is not told then")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")


def run(args: argparse.Namespace) -> int:
    """List them, soonest to end first."""
    from agentenv.cli.project import root
    from agentenv.cli.review.findings import WAIVERS
    from agentenv.policies.rules.registry import all_rules
    from agentenv.policies.waivers import Waivers, read_waivers

    folder, today = root(), datetime.now(UTC).date()
    file = folder / WAIVERS
    severities: dict[str, Severity] = {rule.id: rule.severity for rule in all_rules()}
    found = read_waivers(file, severities, today) if file.is_file() else Waivers()
    wanted = [one for one in found.all if args.stack in {None, one.environment}]
    environments = sorted({one.environment for one in wanted})
    used = {} if args.fast else {name: used_in(folder, name, found, today) for name in environments}
    rows: list[dict[str, Any]] = [
        {
            "id": one.id,
            "rule": one.rule,
            "expires": one.expires.isoformat(),
            "used": one.id in used[one.environment] if one.environment in used else None,
            "expired": one.expired(today),
            "days_left": (one.expires - today).days,
            "environment": one.environment,
            "urn": one.urn,
            "owners": list(one.owners),
            "ticket": one.ticket,
            "reason": one.reason,
        }
        for one in sorted(wanted, key=lambda one: (one.expires, one.id))
    ]
    if args.json:
        sys.stdout.write(json.dumps({"waivers": rows, "wrong": list(found.wrong)}) + "\n")
    else:
        sys.stdout.write(table(rows, found.wrong))
    return FAILED if found.wrong or any(row["expired"] for row in rows) else OK


def used_in(folder: Path, environment: str, waivers: Waivers, today: date) -> set[str]:
    """The ids of the waivers that a stack's working tree needs; `Refusal` where it cannot be run."""
    from agentenv.cli.review.offline import desired
    from agentenv.cli.review.preview import PreviewFailed
    from agentenv.cli.review.review import Question, bench_of
    from agentenv.cli.stack_files import stack_file

    if not stack_file(folder, environment).is_file():
        return set()
    try:
        wanted = desired(folder, environment)
    except PreviewFailed as failure:
        raise Refusal(f"{environment} cannot be previewed; --fast lists without\n{failure}") from failure
    bench = bench_of(Question(folder, environment, offline=True), wanted.settings, today)
    judged = bench.judged(None, wanted.wanted)
    return {one.waiver.id for one in judged if one.waiver is not None} & {one.id for one in waivers.all}


def table(rows: list[dict[str, Any]], wrong: tuple[str, ...]) -> str:
    """The waivers for a person."""
    lines = [f"wrong: {words}" for words in wrong]
    for row in rows:
        when = f"expired on {row['expires']}" if row["expired"] else f"until {row['expires']}, {row['days_left']} days"
        used = {True: "used", False: "NOT USED: remove it", None: "not looked whether it is used"}[row["used"]]
        lines += [
            f"{row['rule']:<8} {row['id']}  {when}  {used}",
            f"         {row['environment']}: {row['urn']}",
            f"         {row['reason']} ({', '.join(row['owners'])}, {row['ticket']})",
        ]
    return "\n".join(lines or ["no waivers"]) + "\n"
