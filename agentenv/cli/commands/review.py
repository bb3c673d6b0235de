"""Show what a pull request changes, and block unsafe changes before it is merged.

The review lists changed resources and the data at risk, new and existing findings of the isolation and cost rules,
changed capabilities of sandboxes, cost, and quotas. With --offline both revisions are previewed with the stand-ins of
the rehearsal: that needs no account, state or secret, so a pull request from a fork can run it. Otherwise the preview
of the real stack is read, with both policy packs. Exit code 1 means that something blocks.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from agentenv.cli.main import FAILED, OK, CommandError

if TYPE_CHECKING:
    from agentenv.cli.review.formats.report import Report

FORMATS = {"markdown": "review.md", "sarif": "review.sarif", "json": "review.json"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--stack", "-s", metavar="S", required=True, help="a stack of the nearest Pulumi.yaml")
    parser.add_argument("--offline", action="store_true", help="preview both revisions here, without an account")
    parser.add_argument("--base", metavar="REV", help="the revision to compare with, such as origin/main")
    parser.add_argument("--drift", action="store_true", help="detect drift first; not with --offline")
    parser.add_argument(
        "--format", type=formats, default=[], metavar="F,…", help=f"write these formats: {', '.join(FORMATS)}"
    )
    parser.add_argument(
        "--without-waived",
        action="store_true",
        help="leave waived findings out of the SARIF: GitHub shows them as open",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for review.md, review.sarif, review.json")
    parser.add_argument("--links", default="", metavar="URL", help="prefix of links to files of this project")
    parser.add_argument("--commit", default="", metavar="SHA", help="the reviewed commit, as the report shows it")
    parser.add_argument("--packs-config", type=Path, metavar="FILE", help="the packs' configuration, as JSON")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")


def formats(text: str) -> list[str]:
    """Parse a list of formats."""
    names = [word.strip() for word in text.split(",") if word.strip()]
    for name in names:
        if name not in FORMATS:
            raise argparse.ArgumentTypeError(f"'{name}' is not a format; allowed are {', '.join(FORMATS)}")
    return names


def run(args: argparse.Namespace) -> int:
    """Review, and write and print the report; the exit code is 1 if something blocks."""
    from agentenv.cli.project import checkout
    from agentenv.cli.review.review import ReviewRequest, review
    from agentenv.cli.stack_files import selected_files
    from agentenv.rehearsal.stage.stage import StageError
    from agentenv.rehearsal.tools import ToolError
    from agentenv.rehearsal.tools.progress import terminal_progress

    if args.offline and args.drift:
        raise CommandError("--drift needs an account, and --offline uses none; give one of them")
    folder = checkout()
    selected_files(args.stack, None)  # fails for a stack without a file, before anything is started
    links = f"{args.links.rstrip('/')}/" if args.links else ""
    request = ReviewRequest(
        folder, args.stack, args.base, args.offline, args.drift, links, args.packs_config, commit=args.commit
    )
    try:
        report = review(request, terminal_progress())
    except (StageError, ToolError) as failure:
        raise CommandError(str(failure)) from failure
    files = write(report, args.format, args.out, args.stack, waived=not args.without_waived)
    if not args.json and not (args.format and args.out is None):
        from agentenv.cli.review.formats import terminal

        terminal.write(report, sys.stdout)
    for file in files:
        sys.stderr.write(f"wrote {file}\n")
    if args.json:
        sys.stdout.write(json.dumps(report.as_json()) + "\n")
    return FAILED if report.blocking else OK


def write(report: Report, names: list[str], out: Path | None, stack: str, *, waived: bool = True) -> list[Path]:
    """Write each format into a folder, or without one to standard output, and return the files.

    If the program could not be previewed, no SARIF file is written: uploading one without results would close every
    open alert.
    """
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    for name in names:
        text = render(report, name, stack, waived=waived)
        if out is None:
            sys.stdout.write(text)
        elif name == "sarif" and report.failure:
            (out / FORMATS[name]).unlink(missing_ok=True)
        else:
            path = out / FORMATS[name]
            path.write_text(text, encoding="utf-8")
            files.append(path)
    return files


def render(report: Report, name: str, stack: str, *, waived: bool = True) -> str:
    """Return the report in one format."""
    from agentenv.cli.review.formats import markdown, sarif

    if name == "markdown":
        return markdown.as_markdown(report)
    if name == "sarif":
        return json.dumps(sarif.as_sarif(report, f"stacks/Pulumi.{stack}.yaml", waived=waived), indent=1) + "\n"
    # One line, so that it is the last line printed as with --json
    return json.dumps(report.as_json()) + "\n"
