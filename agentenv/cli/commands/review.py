"""Say what a pull request changes, before it is merged, and block what must not be.

What changes and what data would go with it; what the isolation and cost rules find, new and old; what sandboxes may
reach that they could not; what is needed of the account's quotas. With --offline two revisions are previewed in the
rehearsal's stand-ins: that takes no account, no state and no secret, so a pull request from a fork can run it.
Without it the selected stack's real preview is read, with both policy packs. Exit code 1 says that something blocks.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from agentenv.cli.main import FAILED, OK, Refusal

if TYPE_CHECKING:
    from agentenv.cli.review.formats.report import Report

FORMATS = {"markdown": "review.md", "sarif": "review.sarif", "json": "review.json"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--stack", "-s", metavar="S", required=True, help="which stack: stacks/Pulumi.<S>.yaml")
    parser.add_argument("--offline", action="store_true", help="preview both revisions here, without an account")
    parser.add_argument("--base", metavar="REV", help="the revision to compare with, such as origin/main")
    parser.add_argument("--drift", action="store_true", help="look first at what was changed by hand; not offline")
    parser.add_argument(
        "--format", type=formats, default=[], metavar="F,…", help=f"also write as {', '.join(FORMATS)}; one or more"
    )
    parser.add_argument(
        "--without-waived", action="store_true", help="leave what is waived out of the SARIF: GitHub takes it for open"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to: review.md, review.sarif, review.json")
    parser.add_argument(
        "--links", default="", metavar="URL", help="what stands before a link to a file of this project"
    )
    parser.add_argument("--commit", default="", metavar="SHA", help="which commit this is a review of, as it is to say")
    parser.add_argument("--packs-config", type=Path, metavar="FILE", help="the packs' configuration, as JSON")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")


def formats(text: str) -> list[str]:
    """A list of formats."""
    found = [word.strip() for word in text.split(",") if word.strip()]
    for word in found:
        if word not in FORMATS:
            raise argparse.ArgumentTypeError(f"'{word}' is no format; there are {', '.join(FORMATS)}")
    return found


def run(args: argparse.Namespace) -> int:
    """Review, write, and tell by the exit code."""
    from agentenv.cli.commands.check import files
    from agentenv.cli.project import root
    from agentenv.cli.review.review import Question, review
    from agentenv.rehearsal.stage.stage import StageError
    from agentenv.rehearsal.tools import ToolError
    from agentenv.rehearsal.tools.progress import telling

    if args.offline and args.drift:
        raise Refusal("--drift asks an account, and --offline asks nobody; give one of them")
    folder = root()
    files(args.stack, None)  # refuses a stack without a file before anything is started
    links = f"{args.links.rstrip('/')}/" if args.links else ""
    question = Question(
        folder, args.stack, args.base, args.offline, args.drift, links, args.packs_config, commit=args.commit
    )
    try:
        report = review(question, telling())
    except (StageError, ToolError) as failure:
        raise Refusal(str(failure)) from failure
    written = write(report, args.format, args.out, args.stack, waived=not args.without_waived)
    if not args.json and not (args.format and args.out is None):
        from agentenv.cli.review.formats import terminal

        terminal.write(report, sys.stdout)
    for line in written:
        sys.stderr.write(f"wrote {line}\n")
    if args.json:
        sys.stdout.write(json.dumps(report.as_json()) + "\n")
    return FAILED if report.blocking else OK


def write(report: Report, chosen: list[str], out: Path | None, stack: str, *, waived: bool = True) -> list[Path]:
    """Write each format into a folder, or where there is none to standard output; returns the files.

    Of a program that could not be previewed there is no file of SARIF: whoever uploads one without results closes every
    alert that is open.
    """
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    found: list[Path] = []
    for name in chosen:
        text = rendered(report, name, stack, waived=waived)
        if out is None:
            sys.stdout.write(text)
        elif name == "sarif" and report.failure:
            (out / FORMATS[name]).unlink(missing_ok=True)
        else:
            path = out / FORMATS[name]
            path.write_text(text, encoding="utf-8")
            found.append(path)
    return found


def rendered(report: Report, name: str, stack: str, *, waived: bool = True) -> str:
    """The review in one format."""
    from agentenv.cli.review.formats import markdown, sarif

    if name == "markdown":
        return markdown.as_markdown(report)
    if name == "sarif":
        return json.dumps(sarif.as_sarif(report, f"stacks/Pulumi.{stack}.yaml", waived=waived), indent=1) + "\n"
    # One line, so that it is the last line printed as with --json
    return json.dumps(report.as_json()) + "\n"
