"""Deploy a stack, test isolation, suspend and resume, Spot and cost in it, destroy it, and write a signed report.

It runs in the account of the AWS command line (AWS_PROFILE and so on), or with --rehearse on this machine. The stack
must have no resources: an environment that people use is never tested or destroyed. Before it creates anything it
states the longest time and the highest price, and asks. Ctrl-C destroys what was created; after a crash, --resume
continues and --clean-up destroys. The report is written as report.md and report.json.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentenv.cli.main import FAILED, OK, CommandError

if TYPE_CHECKING:
    from agentenv.cli.prove.deployment import Deployment
    from agentenv.cli.prove.journal import Journal
    from agentenv.config import Settings
    from agentenv.rehearsal.stage.engine import Engine

PACKS = ("isolation", "cost")
KEY = Path("~/.config/agentenv/proof-key.pem")
# A test never has more than two workspaces at a time.
_USERS, _HOURS_OF_MONTH = 2, Decimal(730)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--stack", "-s", metavar="S", help="the stack, which has no resources")
    what.add_argument(
        "--verify", type=Path, metavar="F", help="check the signature of a report.json, and do nothing else"
    )
    parser.add_argument("--rehearse", action="store_true", help="prove it on this machine, without an account")
    parser.add_argument("--resume", action="store_true", help="continue a run that was killed")
    parser.add_argument("--clean-up", action="store_true", help="destroy what a run that was killed created")
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask before resources are created")
    parser.add_argument(
        "--hours", type=hours, default=3.0, metavar="H", help="the longest time (default: 3, at most 12)"
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="the folder of journal and report (proof-<S>)")
    parser.add_argument("--key", type=Path, default=KEY, metavar="F", help=f"the Ed25519 key that signs ({KEY})")
    parser.add_argument(
        "--interrupt-spot", metavar="ROLE", help="interrupt a Spot instance, with this role's ARN for AWS FIS"
    )
    parser.add_argument("--json", action="store_true", help="print the report as one JSON object on the last line")


def hours(text: str) -> float:
    """Parse a number of hours."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1 <= value <= 12:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of hours from 1 to 12")
    return value


def run(args: argparse.Namespace) -> int:
    """Prove a stack, or verify a report."""
    if args.verify:
        return verify_report(args.verify, as_json=args.json)
    from agentenv.cli.project import checkout
    from agentenv.cli.prove.journal import FILE, Journal, read_journal
    from agentenv.cli.prove.run import Proof
    from agentenv.cli.stack_files import selected_settings

    project = checkout()
    settings = selected_settings(args.stack, None)
    folder = (args.output or Path(f"proof-{args.stack}")).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    journal = read_journal(folder)
    unfinished = journal is not None and not journal.finished
    if (args.resume or args.clean_up) and not unfinished:
        raise CommandError(f"{folder} has no journal of an unfinished run")
    if unfinished and not (args.resume or args.clean_up):
        raise CommandError(
            f"a run in {folder} did not finish; add --resume to continue it, or --clean-up to destroy it"
        )
    if args.rehearse and unfinished:
        raise CommandError("a rehearsal is deleted with its process, and cannot be resumed; delete its journal")
    price = hourly_price(settings)
    with ExitStack() as resources:
        deployment = opened(project, args, settings, folder, resources)
        if journal is None or journal.finished:
            confirm(args, deployment.engine, price)
            journal = Journal(folder / FILE, args.stack)
            journal.write()
        began = journal.began
        try:
            Proof(deployment, journal, args.hours * 3600).run(clean_up_only=args.clean_up)
        except KeyboardInterrupt:
            if not journal.finished:
                sys.stderr.write("\nresources may remain: run again with --clean-up\n")
            raise
        finally:
            report = write_report(args, settings, journal, deployment, cost=price * Decimal(time.time() - began) / 3600)
    if args.json:
        sys.stdout.write(json.dumps(report) + "\n")
    else:
        sys.stdout.write(f"the report is in {folder / 'report.md'}\n")
    return FAILED if any(row["verdict"] == "broken" for row in report["promises"]) else OK


def opened(
    project: Path, args: argparse.Namespace, settings: Settings, folder: Path, resources: ExitStack
) -> Deployment:
    """Return the stack, in a rehearsal that is opened or in the caller's account."""
    from agentenv.cli.prove.deployment import Deployment
    from agentenv.rehearsal.stage.policy_packs import prepare

    if args.rehearse:
        from agentenv.cli.prove.rehearsed import rehearsed

        engine, surroundings = resources.enter_context(rehearsed(project, args.stack, settings))
    else:
        from agentenv.cli.prove.account import account

        engine, surroundings = account(project, args.stack, settings, folder)
    shutil.rmtree(folder / "packs", ignore_errors=True)
    packs = prepare([project / "policies" / name for name in PACKS], folder / "packs")
    return Deployment(engine, settings, packs, surroundings, folder, args.interrupt_spot, report=print_line)


def print_line(line: str) -> None:
    """Print a line of progress."""
    sys.stderr.write(f"{datetime.now(UTC):%H:%M:%S}  {line}\n")
    sys.stderr.flush()


def hourly_price(settings: Settings) -> Decimal:
    """Return the price of an hour with the workspaces of the tests running, by the estimate."""
    from agentenv.core.cost.estimate import MOST_HOURS, estimate
    from agentenv.core.prices.book import MissingPricesError

    try:
        return estimate(settings, _USERS, MOST_HOURS).total_month / _HOURS_OF_MONTH
    except MissingPricesError as error:
        raise CommandError(f"the price of a run is unknown: {error}") from None


def confirm(args: argparse.Namespace, engine: Engine, price: Decimal) -> None:
    """Refuse a stack with resources; state the longest time and the highest price, and ask."""
    if existing := engine.state():
        raise CommandError(
            f"stack {args.stack} has {len(existing)} resources, and a proof destroys its stack; "
            "copy its file to a stack of another name"
        )
    text = f"at most {args.hours:g} hours and about ${price * Decimal(args.hours):.2f}"
    if args.rehearse or args.yes:
        print_line("a rehearsal costs nothing" if args.rehearse else text)
        return
    if not sys.stdin.isatty():
        raise CommandError(f"a proof takes {text}; add --yes where nobody can be asked")
    sys.stderr.write(f"A proof of {args.stack} creates it, tests it and destroys it: {text}.\nType its name to go on: ")
    if sys.stdin.readline().strip() != args.stack:
        raise CommandError("nothing was created")


def write_report(
    args: argparse.Namespace, settings: Settings, journal: Journal, deployment: Deployment, *, cost: Decimal
) -> dict[str, Any]:
    """Write the report of what was tested so far, and return it."""
    from importlib.metadata import version

    from agentenv.cli.prove.report import page, signed, signing_key

    simulated = deployment.surroundings.simulated
    content: dict[str, Any] = {
        "stack": args.stack,
        "region": settings.region,
        "account": deployment.surroundings.aws("sts").get_caller_identity()["Account"],
        "simulated": simulated,
        "version": version("agent-environment"),
        "revision": revision(),
        "began": datetime.fromtimestamp(journal.began, UTC).isoformat(timespec="seconds"),
        "promises": [outcome.as_json() for outcome in journal.outcomes],
        "seconds": round(time.time() - journal.began, 1),
        "cost": 0.0 if simulated else float(round(cost, 2)),
    }
    report = signed(content, signing_key(args.key.expanduser()))
    (journal.path.parent / "report.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    (journal.path.parent / "report.md").write_text(page(report), encoding="utf-8")
    return report


def revision() -> str:
    """Return the commit of the project, with `-dirty` where files differ from it."""
    import subprocess

    from agentenv.cli.project import checkout

    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude", "*"]
    output = subprocess.run(command, cwd=checkout(), capture_output=True, text=True, check=False)
    return output.stdout.strip()


def verify_report(file: Path, *, as_json: bool) -> int:
    """Check the signature of a report, and print whose it is."""
    from agentenv.cli.prove.report import verify

    try:
        report = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CommandError(f"{file} is not JSON: {error}") from None
    key = verify(report)
    text = json.dumps({"valid": True, "public_key": key}) if as_json else f"unchanged since it was signed by {key}"
    sys.stdout.write(f"{text}\n")
    return OK
