"""List the waivers: the rule, the owners, the expiry, and whether a finding still needs it.

To see whether a waiver is used, the programs of the working tree are previewed with the stand-ins of the rehearsal.
With --fast nothing is run, and that column is unknown. Exit code 1 means that a waiver has expired or is invalid.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from agentenv.cli.main import FAILED, OK, CommandError

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from agentenv.policies.verdicts import Severity
    from agentenv.policies.waivers import Waivers


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--stack", "-s", metavar="S", help="only the waivers of this environment")
    parser.add_argument("--fast", action="store_true", help="run no program; do not check whether waivers are used")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")


def run(args: argparse.Namespace) -> int:
    """List the waivers, the next to expire first."""
    from agentenv.cli.project import checkout
    from agentenv.cli.review.findings import WAIVERS
    from agentenv.cli.stack_files import selected_files
    from agentenv.policies.rules.registry import all_rules
    from agentenv.policies.waivers import Waivers, read_waivers

    folder, today = checkout(), datetime.now(UTC).date()
    selected_files(args.stack, None)  # fails for a stack without a file
    file = folder / WAIVERS
    severities: dict[str, Severity] = {rule.id: rule.severity for rule in all_rules()}
    waivers = read_waivers(file, severities, today) if file.is_file() else Waivers()
    selected = [waiver for waiver in waivers.all if args.stack in {None, waiver.environment}]
    environments = sorted({waiver.environment for waiver in selected})
    used = {} if args.fast else {name: used_waivers(folder, name, waivers, today) for name in environments}
    rows: list[dict[str, Any]] = [
        {
            "id": waiver.id,
            "rule": waiver.rule,
            "expires": waiver.expires.isoformat(),
            "used": waiver.id in used[waiver.environment] if waiver.environment in used else None,
            "expired": waiver.expired(today),
            "days_left": (waiver.expires - today).days,
            "environment": waiver.environment,
            "urn": waiver.urn,
            "owners": list(waiver.owners),
            "ticket": waiver.ticket,
            "reason": waiver.reason,
        }
        for waiver in sorted(selected, key=lambda waiver: (waiver.expires, waiver.id))
    ]
    if args.json:
        sys.stdout.write(json.dumps({"waivers": rows, "wrong": list(waivers.wrong)}) + "\n")
    else:
        sys.stdout.write(table(rows, waivers.wrong))
    return FAILED if waivers.wrong or any(row["expired"] for row in rows) else OK


def used_waivers(folder: Path, environment: str, waivers: Waivers, today: date) -> set[str]:
    """Return the ids of the waivers that a stack of the working tree needs."""
    from agentenv.cli.review.offline import preview_tree
    from agentenv.cli.review.preview import PreviewFailed
    from agentenv.cli.review.review import ReviewRequest, rule_evaluator
    from agentenv.cli.stack_files import stack_file

    if not stack_file(folder, environment).is_file():
        return set()
    try:
        preview = preview_tree(folder, environment)
    except PreviewFailed as failure:
        raise CommandError(f"{environment} cannot be previewed; --fast lists without that\n{failure}") from failure
    evaluator = rule_evaluator(ReviewRequest(folder, environment, offline=True), preview.settings, today)
    findings = evaluator.evaluate(None, preview.graph)
    return {row.waiver.id for row in findings if row.waiver is not None} & {waiver.id for waiver in waivers.all}


def table(rows: list[dict[str, Any]], mistakes: tuple[str, ...]) -> str:
    """Return the waivers as text."""
    lines = [f"invalid: {mistake}" for mistake in mistakes]
    for row in rows:
        expiry = (
            f"expired on {row['expires']}" if row["expired"] else f"until {row['expires']}, {row['days_left']} days"
        )
        used = {True: "used", False: "NOT USED: remove it", None: "use not checked"}[row["used"]]
        lines += [
            f"{row['rule']:<8} {row['id']}  {expiry}  {used}",
            f"         {row['environment']}: {row['urn']}",
            f"         {row['reason']} ({', '.join(row['owners'])}, {row['ticket']})",
        ]
    return "\n".join(lines or ["no waivers"]) + "\n"
