"""Judge Kubernetes manifests by the rules of the isolation and cost packs, or list the rules.

`agentenv policies check FILE…` reads YAML and JSON files, and the files of folders, as kubectl reads them. It prints
what fails and where. No engine, cluster or cloud account is needed. What the rules know of a platform (address ranges,
registries) is left at its careful defaults. It exits 1 where a rule fails, where a Critical or High rule cannot tell,
where a document cannot be read, and where there is nothing to judge. What in a file is no object is named. Both verbs
take --json.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agentenv.cli.main import FAILED, OK, Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentenv.policies.rules.registry import Rule
    from agentenv.policies.verdicts import Finding


# A Critical or High rule that cannot tell, and what to do about it
UNDECIDED: Final = " cannot tell, and so fails"
WAY_OUT: Final = "; write the value that Kubernetes documents there, without a template"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    check = verbs.add_parser("check", help="judge the manifests in files and folders")
    check.add_argument("paths", nargs="+", type=Path, metavar="FILE", help="a file of YAML or JSON, or a folder")
    check.add_argument("--rules", metavar="ID[,ID…]", help="only these rules, or families such as POD")
    rules = verbs.add_parser("rules", help="list the rules")
    for one in (check, rules):
        one.add_argument("--json", action="store_true", help="print one JSON object on the last line")


def run(arguments: argparse.Namespace) -> int:
    """Judge, or list."""
    from agentenv.policies.rules.registry import all_rules

    if arguments.verb == "rules":
        return listed(all_rules(), as_json=arguments.json)
    return check(arguments.paths, chosen(arguments.rules, all_rules()), as_json=arguments.json)


def chosen(words: str | None, rules: Sequence[Rule]) -> Sequence[Rule]:
    """The rules of those ids and families; a word that is neither is refused."""
    if words is None:
        return rules
    wanted = {word.strip().upper() for word in words.split(",") if word.strip()}
    if strange := wanted - {rule.id for rule in rules} - {rule.family for rule in rules}:
        raise Refusal(f"there is no rule or family {', '.join(sorted(strange))}; 'agentenv policies rules' lists them")
    return [rule for rule in rules if wanted & {rule.id, rule.family}]


def check(paths: Sequence[Path], rules: Sequence[Rule], *, as_json: bool) -> int:
    """Judge manifests, and print what was found."""
    from agentenv.policies.offline import read_files, report

    if absent := [str(path) for path in paths if not path.exists()]:
        raise Refusal(f"there is no file or folder {', '.join(absent)}")
    read = read_files(paths)
    findings = read.findings(rules)
    answer = report(findings, read)
    if as_json:
        sys.stdout.write(json.dumps({"objects": len(read.resources), **answer}) + "\n")
    else:
        sys.stdout.writelines(line + "\n" for line in as_text(findings))
        sys.stdout.writelines(f"{file}: not read: {reason}\n" for file, reason in read.unreadable)
        sys.stdout.writelines(f"{one.location}: not judged: {one.reason}\n" for one in read.skipped)
        words = (f"{answer[key]} {key}" for key in ("passed", "failed", "indeterminate"))
        sys.stdout.write(f"{len(read.resources)} objects, {len(rules)} rules: {', '.join(words)}\n")
        if not read.resources:
            sys.stdout.write(f"nothing was judged: there is no Kubernetes object in {', '.join(map(str, paths))}\n")
    return FAILED if read.fails(findings) else OK


def as_text(findings: Sequence[Finding]) -> list[str]:
    """A line a finding that somebody has to look at, the worst first within a file."""
    from agentenv.policies.offline import blocks, source_of
    from agentenv.policies.verdicts import SEVERITIES, Verdict

    def undecided(one: Finding) -> str:
        if one.verdict is Verdict.FAIL:
            return ""
        return UNDECIDED if blocks(one) else " cannot tell"

    bad = [one for one in findings if one.verdict in {Verdict.FAIL, Verdict.INDETERMINATE}]
    bad.sort(key=lambda one: (source_of(one.urn), SEVERITIES.index(one.severity), one.urn, one.path))
    return [
        f"{source_of(one.urn)}: {one.urn.rsplit('::', 1)[-1]}: {one.severity} {one.rule}{undecided(one)}: {one.message}"
        f"{f' ({one.path})' if one.path else ''}{WAY_OUT if undecided(one) == UNDECIDED else ''}"
        for one in bad
    ]


def listed(rules: Sequence[Rule], *, as_json: bool) -> int:
    """Print the rules."""
    if as_json:
        rows = [{"id": r.id, "severity": r.severity, "title": r.title, "pack": r.pack} for r in rules]
        sys.stdout.write(json.dumps({"rules": rows}) + "\n")
    else:
        sys.stdout.writelines(f"{r.id:<8} {r.severity:<8} {r.title}\n" for r in rules)
    return OK
