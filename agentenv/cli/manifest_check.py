"""Evaluate Kubernetes manifests as the packs evaluate a stack: with their configuration, and with waivers.

A value of the wrong type makes every rule indeterminate that needs something below it. It is one finding here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, Final, cast

from agentenv.cli.review.findings import REFERENCE, WAIVER_DOCS, ReviewFinding
from agentenv.cli.review.locations import Location
from agentenv.policies.offline import Manifests, read_files
from agentenv.policies.packs.configuration import Configuration
from agentenv.policies.packs.enforcement import PRODUCTION
from agentenv.policies.rules.registry import Rule, all_rules
from agentenv.policies.verdicts import PACK_FINDINGS, SEVERITIES, Finding, Severity, Verdict
from agentenv.policies.waivers import Waiver, Waivers, read_waivers, used_ids
from agentenv.rehearsal.providers.kubernetes.values import parse_path

BAD: Final = frozenset({Verdict.FAIL, Verdict.INDETERMINATE})


@dataclass(frozen=True)
class CheckedManifests:
    """The manifests of some files, and the findings of the rules, the most severe first within a file."""

    manifests: Manifests
    findings: tuple[ReviewFinding, ...]
    passed: int

    @property
    def failed(self) -> bool:
        """Return whether the check fails: for a finding, an unreadable file, or because there are no objects."""
        unread = bool(self.manifests.unreadable) or not self.manifests.resources
        return unread or any(row.blocks for row in self.findings)

    def count(self, verdict: Verdict) -> int:
        """Return the number of findings with a verdict that are not waived."""
        return sum(row.finding.verdict is verdict and row.waiver is None for row in self.findings)

    def as_json(self) -> dict[str, Any]:
        """Return the check as the command's JSON has it."""
        return {
            "objects": len(self.manifests.resources),
            "passed": self.passed,
            "failed": self.count(Verdict.FAIL),
            "indeterminate": self.count(Verdict.INDETERMINATE),
            "waived": sum(row.waiver is not None for row in self.findings),
            "findings": [
                {
                    **row.finding.plain(),
                    "file": row.locations[0].file,
                    "line": row.locations[0].line,
                    "blocks": row.blocks,
                    "title": row.title,
                    "do": row.fix,
                    "reference": row.link,
                    "waiver": row.waiver.id if row.waiver else None,
                }
                for row in self.findings
            ],
            "unreadable": [{"file": str(file), "reason": reason} for file, reason in self.manifests.unreadable],
            "skipped": [{"file": row.location, "reason": row.reason} for row in self.manifests.skipped],
        }


def check_manifests(
    paths: Sequence[Path],
    rules: Sequence[Rule],
    configuration: Configuration,
    *,
    threshold: Severity,
    today: date,
    waivers: Path | None = None,
) -> CheckedManifests:
    """Evaluate rules on the manifests of files and folders. Findings below the threshold fail nothing."""
    chosen = [rule for rule in rules if configuration.enforcement.by_rule.get(rule.id) != "disabled"]
    manifests = read_files(paths, configuration.context)
    found = manifests.findings(chosen)
    severities: Mapping[str, Severity] = {rule.id: rule.severity for rule in all_rules()}
    valid = read_waivers(waivers, severities, today) if waivers else Waivers()
    environment = configuration.context.environment
    bad = list(merge_malformed((row for row in found if row.verdict in BAD), manifests))
    remaining, waived = valid.split(bad, environment, today)
    # With a selection of rules, the waivers of the others are unused
    own = valid.own_findings(environment, used_ids(waived), today) if len(rules) == len(all_rules()) else ()
    builder = _Rows(manifests, configuration, threshold, {rule.id: rule for rule in all_rules()}, waivers)
    rows = [builder.row(row) for row in [*remaining, *own]]
    rows += [builder.row(each.finding, each.waiver) for each in waived]
    rows.sort(key=lambda row: (row.locations[0].file, SEVERITIES.index(row.finding.severity), *_order(row)))
    return CheckedManifests(manifests, tuple(rows), Counter(row.verdict for row in found)[Verdict.PASS])


@dataclass(frozen=True)
class _Rows:
    manifests: Manifests
    configuration: Configuration
    threshold: Severity
    rules: Mapping[str, Rule]
    waivers: Path | None

    def row(self, finding: Finding, waiver: Waiver | None = None) -> ReviewFinding:
        """Return a finding with its remedy and its line."""
        rule = self.rules.get(finding.rule)
        header = rule or PACK_FINDINGS[finding.rule]
        file, line = self.manifests.place(finding.urn, parse_path(finding.path.partition("[*]")[0]))
        return ReviewFinding(
            finding,
            "waived" if waiver else "new",
            waiver is None and self._blocks(finding),
            header.title,
            header.fix,
            f"{REFERENCE}#{finding.rule.lower()}" if rule else WAIVER_DOCS,
            [Location(file, line) if rule else Location(str(self.waivers))],
            waiver,
        )

    def _blocks(self, finding: Finding) -> bool:
        enforcement = self.configuration.enforcement
        if (level := enforcement.by_rule.get(finding.rule)) is not None:
            return level == "mandatory"
        if enforcement.environment in enforcement.by_environment:
            return enforcement.strictness.stops(finding)
        least = SEVERITIES.index(self.threshold)
        if finding.verdict is Verdict.FAIL:
            return SEVERITIES.index(finding.severity) <= least
        return finding.severity in PRODUCTION.indeterminate and SEVERITIES.index(finding.severity) <= least


def merge_malformed(findings: Iterable[Finding], manifests: Manifests) -> Iterator[Finding]:
    """Yield the findings, and one instead of all that are indeterminate because of the same malformed value."""
    inputs = {resource.urn: resource.inputs for resource in manifests.resources}
    merged: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        place = _malformed(inputs.get(finding.urn), finding.path)
        if finding.verdict is not Verdict.INDETERMINATE or place is None:
            yield finding
        else:
            merged.setdefault((finding.urn, *place), []).append(finding)
    for (_, place, needed), group in merged.items():
        worst = min(group, key=lambda finding: SEVERITIES.index(finding.severity))
        names = sorted({finding.rule for finding in group})
        rules = f"{len(names)} rules cannot" if len(names) > 1 else f"{names[0]} cannot"
        yield replace(worst, path=place, message=f"it is not {needed}, so {rules} be evaluated")


def _malformed(value: object, path: str) -> tuple[str, str] | None:
    """Return the path of the first value of the wrong type that a path leads through, and the right type, or None."""
    through, wildcards = "", re.findall(r"\[\*\]|\.\*", path)
    for step in parse_path(path):
        in_list = isinstance(step, int) or (step == "*" and wildcards.pop(0) == "[*]")
        if value is not None and not isinstance(value, list if in_list else Mapping):
            return through, "a list" if in_list else "a mapping"
        if isinstance(step, int):
            items = cast("list[object]", value or [])
            value, through = (items[step] if step < len(items) else None), f"{through}[{step}]"
        else:
            value = cast("Mapping[str, object]", value or {}).get(step) if not in_list else None
            through = f"{through}.{step}" if through else step
    return None


def _order(row: ReviewFinding) -> tuple[Any, ...]:
    return row.locations[0].line, row.finding.urn, row.finding.rule, row.finding.path
