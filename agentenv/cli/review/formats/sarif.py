"""The review as SARIF 2.1.0, which code scanning shows beside the lines that are to be mended.

Waived findings are there with their suppression, mended ones are not: nothing is wrong any more. A resource with data
that would go is a result of a rule of its own, so that it shows where the rest shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Any, Final

from agentenv.cli.review.findings import REFERENCE, Judged
from agentenv.cli.review.formats import text as words
from agentenv.cli.review.formats.report import Report
from agentenv.cli.review.locations import Spot
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
    """One run with a result a finding; `waived` says whether those are among them that somebody answers for."""
    shown = [one for one in report.findings if one.state != "fixed" and (waived or one.waiver is None)]
    lost = [loss for loss in report.losses if loss.blocks]
    ids = sorted({one.finding.rule for one in shown} | ({LOSS} if lost else set()))
    index = {rule: number for number, rule in enumerate(ids)}
    results = [_result(one, index) for one in shown] + [_loss(one, index, stack_file) for one in lost]
    return {
        "version": VERSION,
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "agentenv review",
                        "semanticVersion": version("agent-environment"),
                        "rules": _rules(ids, shown),
                    }
                },
                "automationDetails": {"id": f"agentenv-review/{report.compared.stack}/"},
                "columnKind": "utf16CodeUnits",
                "invocations": [
                    {
                        "executionSuccessful": not report.failure,
                        "toolExecutionNotifications": [
                            {"level": "error", "message": {"text": report.failure}} for _ in [0] if report.failure
                        ],
                    }
                ],
                "results": results,
            }
        ],
    }


def _rules(ids: Sequence[str], shown: Iterable[Judged]) -> list[dict[str, Any]]:
    known = {rule.id: rule for rule in all_rules()}
    said = {one.finding.rule: one for one in shown}
    return [_descriptor(rule, known.get(rule), said.get(rule)) for rule in ids]


def _descriptor(rule: str, known: Rule | None, said: Judged | None) -> dict[str, Any]:
    severity: Severity = known.severity if known else said.finding.severity if said else "Critical"
    title = known.title if known else said.finding.message if said else "A resource that holds data would not stay"
    do = known.fix if known else said.do if said else "Leave it, or allow the loss in policies/allowed_losses.yaml"
    reference = f"{REFERENCE}#{rule.lower()}" if rule != LOSS else "docs/review.md"
    return {
        "id": rule,
        "shortDescription": {"text": title},
        "fullDescription": {"text": f"{title}. {known.why}" if known else title},
        "help": {"text": f"{do} See {reference}.", "markdown": f"{do}\n\nSee `{reference}`."},
        "defaultConfiguration": {"level": _LEVELS[severity]},
        "properties": {"tags": ["security"], "security-severity": _SCORES[severity]},
    }


def _result(one: Judged, index: dict[str, int]) -> dict[str, Any]:
    found = one.finding
    unknown = "Not known yet: " if found.verdict is Verdict.INDETERMINATE else ""
    place = f" {found.path}" if found.path else ""
    result = {
        **_base(found.rule, index, f"{unknown}{one.name}{place}: {found.message or one.title}", one.fingerprint),
        # SARIF's own kind for what nobody can tell has no level, and code scanning would not show it
        "level": _LEVELS[found.severity] if found.verdict is Verdict.FAIL else "warning",
        "baselineState": _BASELINE[one.state],
        "locations": [_location(one.spots[0], found.urn)] if one.spots else [],
        "relatedLocations": [{"id": number, **_location(spot)} for number, spot in enumerate(one.spots[1:], 1)],
        "properties": {"verdict": found.verdict.value, "urn": found.urn, "blocks": one.blocks},
    }
    if one.waiver is not None:
        result["suppressions"] = [{"kind": "external", "status": "accepted", "justification": one.waiver.summary}]
    return result


def _loss(loss: Loss, index: dict[str, int], stack_file: str) -> dict[str, Any]:
    text = f"{loss.change.operation} {loss.change.name}: {words.loss_line(loss)}"
    return {
        **_base(LOSS, index, text, f"{LOSS}:{loss.change.urn}"),
        "kind": "fail",
        "level": "error",
        "baselineState": "new",
        "locations": [_location(Spot(stack_file), loss.change.urn)],
        "properties": {"verdict": "fail", "urn": loss.change.urn, "blocks": True},
    }


def _base(rule: str, index: dict[str, int], text: str, fingerprint: str) -> dict[str, Any]:
    return {
        "ruleId": rule,
        "ruleIndex": index[rule],
        "message": {"text": text},
        # The second is what code scanning goes by; without it, it would take the line, which moves
        "partialFingerprints": {"agentenv/v1": fingerprint, "primaryLocationLineHash": f"{fingerprint}:1"},
    }


def _location(spot: Spot, urn: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {
        "physicalLocation": {"artifactLocation": {"uri": spot.file}, "region": {"startLine": spot.line}}
    }
    if urn:
        found["logicalLocations"] = [{"fullyQualifiedName": urn, "kind": "resource"}]
    return found
