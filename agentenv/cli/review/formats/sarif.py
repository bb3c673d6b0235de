"""Write the review as SARIF 2.1.0, which code scanning shows beside the lines to fix.

Waived findings have a suppression, and fixed findings are left out. A resource with data that would be lost is a result
of its own rule, so that code scanning shows it too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Any, Final

from agentenv.cli.review.findings import REFERENCE, ReviewFinding
from agentenv.cli.review.formats import sentences
from agentenv.cli.review.formats.report import Report
from agentenv.cli.review.locations import Location
from agentenv.cli.review.losses import Loss
from agentenv.policies.rules.registry import Rule, all_rules
from agentenv.policies.verdicts import Severity, Verdict

VERSION: Final = "2.1.0"
LOSS: Final = "LOSS-01"
_LEVELS: Final[dict[Severity, str]] = {"Critical": "error", "High": "error", "Medium": "warning", "Low": "note"}
# What code scanning sorts by: above 9 is critical, above 7 high, above 4 medium
_SCORES: Final[dict[Severity, str]] = {"Critical": "9.5", "High": "8.0", "Medium": "5.5", "Low": "2.0"}
_BASELINE: Final = {"new": "new", "existing": "unchanged", "waived": "unchanged"}


def as_sarif(report: Report, stack_file: str, *, waived: bool = True) -> dict[str, Any]:
    """Return one run with a result for each finding; `waived` includes the waived findings."""
    findings = [row for row in report.findings if row.state != "fixed" and (waived or row.waiver is None)]
    losses = [loss for loss in report.losses if loss.blocks]
    ids = sorted({row.finding.rule for row in findings} | ({LOSS} if losses else set()))
    index = {rule: number for number, rule in enumerate(ids)}
    results = [_result(row, index) for row in findings] + [_loss(loss, index, stack_file) for loss in losses]
    return _document(
        "agentenv review", f"agentenv-review/{report.comparison.stack}/", _rules(ids, findings), results, report.failure
    )


def manifests_as_sarif(findings: Sequence[ReviewFinding]) -> dict[str, Any]:
    """Return one run with a result for each finding of `agentenv policies check`."""
    ids = sorted({row.finding.rule for row in findings})
    index = {rule: number for number, rule in enumerate(ids)}
    results = [_result(row, index) for row in findings]
    return _document("agentenv policies check", "agentenv-policies-check/", _rules(ids, findings), results)


def _document(
    name: str, category: str, rules: list[dict[str, Any]], results: list[dict[str, Any]], failure: str | None = None
) -> dict[str, Any]:
    return {
        "version": VERSION,
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": name,
                        "semanticVersion": version("agent-environment"),
                        "rules": rules,
                    }
                },
                "automationDetails": {"id": category},
                "columnKind": "utf16CodeUnits",
                "invocations": [
                    {
                        "executionSuccessful": not failure,
                        "toolExecutionNotifications": [
                            {"level": "error", "message": {"text": failure}} for _ in [0] if failure
                        ],
                    }
                ],
                "results": results,
            }
        ],
    }


def _rules(ids: Sequence[str], findings: Iterable[ReviewFinding]) -> list[dict[str, Any]]:
    rules = {rule.id: rule for rule in all_rules()}
    by_rule = {row.finding.rule: row for row in findings}
    return [_descriptor(id_, rules.get(id_), by_rule.get(id_)) for id_ in ids]


def _descriptor(id_: str, rule: Rule | None, row: ReviewFinding | None) -> dict[str, Any]:
    severity: Severity = rule.severity if rule else row.finding.severity if row else "Critical"
    title = rule.title if rule else row.finding.message if row else "A resource with data would be deleted"
    fix = rule.fix if rule else row.fix if row else "Keep it, or allow the loss in policies/allowed_losses.yaml"
    reference = f"{REFERENCE}#{id_.lower()}" if id_ != LOSS else "docs/review.md"
    return {
        "id": id_,
        "shortDescription": {"text": title},
        "fullDescription": {"text": f"{title}. {rule.why}" if rule else title},
        "help": {"text": f"{fix} See {reference}.", "markdown": f"{fix}\n\nSee `{reference}`."},
        "defaultConfiguration": {"level": _LEVELS[severity]},
        "properties": {"tags": ["security"], "security-severity": _SCORES[severity]},
    }


def _result(row: ReviewFinding, index: dict[str, int]) -> dict[str, Any]:
    finding = row.finding
    unknown = "Not known yet: " if finding.verdict is Verdict.INDETERMINATE else ""
    path = f" {finding.path}" if finding.path else ""
    result = {
        **_base(finding.rule, index, f"{unknown}{row.name}{path}: {finding.message or row.title}", row.fingerprint),
        # Results of the kind `open` have no level in SARIF, and code scanning does not show them
        "level": _LEVELS[finding.severity] if finding.verdict is Verdict.FAIL else "warning",
        "baselineState": _BASELINE[row.state],
        "locations": [_location(row.locations[0], finding.urn)] if row.locations else [],
        "relatedLocations": [{"id": number, **_location(line)} for number, line in enumerate(row.locations[1:], 1)],
        "properties": {"verdict": finding.verdict.value, "urn": finding.urn, "blocks": row.blocks},
    }
    if row.waiver is not None:
        result["suppressions"] = [{"kind": "external", "status": "accepted", "justification": row.waiver.summary}]
    return result


def _loss(loss: Loss, index: dict[str, int], stack_file: str) -> dict[str, Any]:
    text = f"{loss.change.operation} {loss.change.name}: {sentences.loss_line(loss)}"
    return {
        **_base(LOSS, index, text, f"{LOSS}:{loss.change.urn}"),
        "kind": "fail",
        "level": "error",
        "baselineState": "new",
        "locations": [_location(Location(stack_file), loss.change.urn)],
        "properties": {"verdict": "fail", "urn": loss.change.urn, "blocks": True},
    }


def _base(rule: str, index: dict[str, int], text: str, fingerprint: str) -> dict[str, Any]:
    return {
        "ruleId": rule,
        "ruleIndex": index[rule],
        "message": {"text": text},
        # Code scanning uses the second; without it, it would compute one from the line, which moves
        "partialFingerprints": {"agentenv/v1": fingerprint, "primaryLocationLineHash": f"{fingerprint}:1"},
    }


def _location(location: Location, urn: str = "") -> dict[str, Any]:
    document: dict[str, Any] = {
        "physicalLocation": {"artifactLocation": {"uri": location.file}, "region": {"startLine": location.line}}
    }
    if urn:
        document["logicalLocations"] = [{"fullyQualifiedName": urn, "kind": "resource"}]
    return document
