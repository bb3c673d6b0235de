"""Check Kubernetes manifests against the rules of the isolation and cost packs, or list the rules.

`agentenv policies check FILE…` reads YAML and JSON files, and the files of folders, as kubectl does. It prints each
violation with its location. No engine, cluster or cloud account is needed. Facts about the platform (address ranges,
registries) have their strict defaults. It exits 1 if a rule fails, if a Critical or High rule is indeterminate, if a
document cannot be read, or if there is no object to check. Documents that are not objects are listed. Both verbs take
--json.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agentenv.cli.main import FAILED, OK, CommandError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentenv.policies.rules.registry import Rule
    from agentenv.policies.verdicts import Finding


# A Critical or High rule without a verdict, and the fix
INDETERMINATE: Final = " is indeterminate, and so fails"
HINT: Final = "; write the value that Kubernetes documents there, without a template"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    check = verbs.add_parser("check", help="check the manifests in files and folders")
    check.add_argument("paths", nargs="+", type=Path, metavar="FILE", help="a YAML or JSON file, or a folder")
    check.add_argument("--rules", metavar="ID[,ID…]", help="only these rules, or families such as POD")
    rules = verbs.add_parser("rules", help="list the rules")
    for verb in (check, rules):
        verb.add_argument("--json", action="store_true", help="print one JSON object on the last line")


def run(arguments: argparse.Namespace) -> int:
    """Check manifests, or list the rules."""
    from agentenv.policies.rules.registry import all_rules

    if arguments.verb == "rules":
        return print_rules(all_rules(), as_json=arguments.json)
    return check(arguments.paths, select_rules(arguments.rules, all_rules()), as_json=arguments.json)


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


def check(paths: Sequence[Path], rules: Sequence[Rule], *, as_json: bool) -> int:
    """Check manifests, and print the findings."""
    from agentenv.policies.offline import read_files, report

    if absent := [str(path) for path in paths if not path.exists()]:
        raise CommandError(f"there is no file or folder {', '.join(absent)}")
    read = read_files(paths)
    findings = read.findings(rules)
    document = report(findings, read)
    if as_json:
        sys.stdout.write(json.dumps({"objects": len(read.resources), **document}) + "\n")
    else:
        sys.stdout.writelines(line + "\n" for line in as_text(findings))
        sys.stdout.writelines(f"{file}: not read: {reason}\n" for file, reason in read.unreadable)
        sys.stdout.writelines(f"{skipped.location}: not checked: {skipped.reason}\n" for skipped in read.skipped)
        counts = (f"{document[key]} {key}" for key in ("passed", "failed", "indeterminate"))
        sys.stdout.write(f"{len(read.resources)} objects, {len(rules)} rules: {', '.join(counts)}\n")
        if not read.resources:
            sys.stdout.write(f"nothing was checked: there is no Kubernetes object in {', '.join(map(str, paths))}\n")
    return FAILED if read.fails(findings) else OK


def as_text(findings: Sequence[Finding]) -> list[str]:
    """Return a line for each failed or indeterminate finding, the most severe first within a file."""
    from agentenv.policies.offline import blocks, source_of
    from agentenv.policies.verdicts import SEVERITIES, Verdict

    def line(finding: Finding) -> str:
        fails = finding.verdict is Verdict.FAIL
        suffix = "" if fails else INDETERMINATE if blocks(finding) else " is indeterminate"
        name = finding.urn.rsplit("::", 1)[-1]
        return (
            f"{source_of(finding.urn)}: {name}: {finding.severity} {finding.rule}{suffix}: {finding.message}"
            f"{f' ({finding.path})' if finding.path else ''}{HINT if suffix == INDETERMINATE else ''}"
        )

    shown = [finding for finding in findings if finding.verdict in {Verdict.FAIL, Verdict.INDETERMINATE}]
    shown.sort(key=lambda row: (source_of(row.urn), SEVERITIES.index(row.severity), row.urn, row.path))
    return [line(finding) for finding in shown]


def print_rules(rules: Sequence[Rule], *, as_json: bool) -> int:
    """Print the rules."""
    if as_json:
        rows = [{"id": r.id, "severity": r.severity, "title": r.title, "pack": r.pack} for r in rules]
        sys.stdout.write(json.dumps({"rules": rows}) + "\n")
    else:
        sys.stdout.writelines(f"{r.id:<8} {r.severity:<8} {r.title}\n" for r in rules)
    return OK
