"""Check Kubernetes manifests against the rules of the isolation and cost packs, or list the rules.

`agentenv policies check FILE…` reads YAML and JSON files, and the files of folders, as kubectl does. It prints each
violation with its file and line, and the fix of each rule. No engine, cluster or cloud account is needed. Facts about
the platform (address ranges, registries) have their strict defaults, or those of --config, the configuration of the
packs. It exits 1 if a rule fails, if a Critical or High rule is indeterminate, if a document cannot be read, or if
there is no object to check. With --severity, only findings of that severity or above count. Documents that are not
objects are listed. Both verbs take --json.
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agentenv.cli.main import FAILED, OK, CommandError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentenv.cli.review.findings import ReviewFinding
    from agentenv.policies.rules.registry import Rule


# A Critical or High rule without a verdict, and the fix
INDETERMINATE: Final = " is indeterminate, and so fails"
HINT: Final = "; write the value that Kubernetes documents there, without a template"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    check = verbs.add_parser("check", help="check the manifests in files and folders")
    check.add_argument(
        "paths", nargs="+", type=Path, metavar="FILE", help="a YAML or JSON file, a folder, or - for standard input"
    )
    check.add_argument("--rules", metavar="ID[,ID…]", help="only these rules, or families such as POD")
    check.add_argument("--config", type=Path, metavar="FILE", help="the packs' configuration, as JSON")
    severity = "the least severity that fails the check: Critical, High, Medium or Low"
    check.add_argument("--severity", type=str.capitalize, default="Low", metavar="S", help=f"{severity} (default)")
    check.add_argument("--waivers", type=Path, metavar="FILE", help="a file of waivers, as docs/policies.md describes")
    check.add_argument("--sarif", type=Path, metavar="FILE", help="write the findings as SARIF, for code scanning")
    rules = verbs.add_parser("rules", help="list the rules")
    for verb in (check, rules):
        verb.add_argument("--json", action="store_true", help="print one JSON object on the last line")


def run(arguments: argparse.Namespace) -> int:
    """Check manifests, or list the rules."""
    from agentenv.policies.rules.registry import all_rules

    if arguments.verb == "rules":
        return print_rules(all_rules(), as_json=arguments.json)
    return check(arguments, select_rules(arguments.rules, all_rules()))


def select_rules(text: str | None, rules: Sequence[Rule]) -> Sequence[Rule]:
    """Return the rules with these ids and families. An unknown name is a `CommandError`."""
    if text is None:
        return rules
    names = {word.strip().upper() for word in text.split(",") if word.strip()}
    if unknown := names - {rule.id for rule in rules} - {rule.family for rule in rules}:
        raise CommandError(
            f"there is no rule or family {', '.join(sorted(unknown))}; 'agentenv policies rules' lists them"
        )
    return [rule for rule in rules if names & {rule.id, rule.family}]


def check(arguments: argparse.Namespace, rules: Sequence[Rule]) -> int:
    """Check manifests, and print the findings."""
    from agentenv.cli.manifest_check import check_manifests
    from agentenv.cli.review.findings import read_packs_config
    from agentenv.cli.review.formats.sarif import manifests_as_sarif
    from agentenv.cli.terminal_text import plural
    from agentenv.policies.offline import STDIN
    from agentenv.policies.packs.configuration import read
    from agentenv.policies.verdicts import SEVERITIES

    paths: list[Path] = arguments.paths
    files = [arguments.config, arguments.waivers]
    if absent := [str(path) for path in [*paths, *filter(None, files)] if path != STDIN and not path.exists()]:
        raise CommandError(f"there is no file or folder {', '.join(absent)}")
    if arguments.severity not in SEVERITIES:
        raise CommandError(f"'{arguments.severity}' is not a severity; allowed are {', '.join(SEVERITIES)}")
    packs_config = read_packs_config(arguments.config) or {}
    configuration = read(packs_config, "prod")
    if configuration.mistakes:
        raise CommandError("the packs' configuration: " + "; ".join(configuration.mistakes))
    waivers = arguments.waivers or (configuration.waivers if "waivers" in packs_config else None)
    today = datetime.now(UTC).date()
    done = check_manifests(paths, rules, configuration, threshold=arguments.severity, today=today, waivers=waivers)
    if arguments.sarif:
        arguments.sarif.write_text(json.dumps(manifests_as_sarif(done.findings), indent=1) + "\n", encoding="utf-8")
    if arguments.json:
        sys.stdout.write(json.dumps(done.as_json()) + "\n")
    else:
        sys.stdout.writelines(line + "\n" for line in as_text(done.findings))
        read_ = done.manifests
        sys.stdout.writelines(f"{file}: not read: {reason}\n" for file, reason in read_.unreadable)
        sys.stdout.writelines(f"{skipped.location}: not checked: {skipped.reason}\n" for skipped in read_.skipped)
        document = done.as_json()
        counts = (f"{document[key]} {key}" for key in ("passed", "failed", "indeterminate", "waived"))
        sys.stdout.write(
            f"{plural(len(read_.resources), 'object')}, {plural(len(rules), 'rule')}: {', '.join(counts)}\n"
        )
        if not read_.resources:
            sys.stdout.write(f"nothing was checked: there is no Kubernetes object in {', '.join(map(str, paths))}\n")
    return FAILED if done.failed else OK


def as_text(findings: Sequence[ReviewFinding]) -> list[str]:
    """Return a line for each finding, and below them the fix of each rule once."""
    lines = [_line(row) for row in findings]
    open_rules = {row.finding.rule: row for row in findings if row.waiver is None}
    if open_rules:
        lines += ["", "How to fix them:"]
        lines += [f"  {rule}: {row.fix} See {row.link}." for rule, row in sorted(open_rules.items())]
    return [*lines, ""] if lines else []


def _line(row: ReviewFinding) -> str:
    from agentenv.policies.verdicts import Verdict

    finding = row.finding
    fails = finding.verdict is Verdict.FAIL
    suffix = "" if fails else INDETERMINATE if row.blocks else " is indeterminate"
    waived = f" [{row.waiver.summary}]" if row.waiver else ""
    return (
        f"{row.locations[0]}: {row.name}: {finding.severity} {finding.rule}{suffix}: {finding.message}"
        f"{f' ({finding.path})' if finding.path else ''}{HINT if suffix == INDETERMINATE else ''}{waived}"
    )


def print_rules(rules: Sequence[Rule], *, as_json: bool) -> int:
    """Print the rules."""
    if as_json:
        rows = [{"id": r.id, "severity": r.severity, "title": r.title, "pack": r.pack} for r in rules]
        sys.stdout.write(json.dumps({"rules": rows}) + "\n")
    else:
        sys.stdout.writelines(f"{r.id:<8} {r.severity:<8} {r.title}\n" for r in rules)
    return OK
