"""Tells the engine of findings, each under its own rule, severity and level.

The engine takes those for each finding, and the SDK sets them for a whole policy. A policy a rule would make the SDK
read each resource seventy times, so the finding is handed to the SDK and its own words are put on what that made of it.
Where an SDK does not let us, the policy's level stands, which stops the deployment: strict rather than silent.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from pulumi.runtime.proto import analyzer_pb2

from agentenv.policies.evaluate import place_of
from agentenv.policies.packs.enforcement import Level
from agentenv.policies.rules.registry import Rule, all_rules
from agentenv.policies.verdicts import OWN, Finding, Own, Severity, Verdict
from agentenv.policies.waivers import Waiver

Report = Callable[[str, str | None], None]
BROKE = "PACK-03"
REFERENCE = "docs/reference/policies.md"
_LEVELS: dict[Level, int] = {"mandatory": analyzer_pb2.MANDATORY, "advisory": analyzer_pb2.ADVISORY}
_SEVERITIES: dict[Severity, int] = {
    "Critical": analyzer_pb2.POLICY_SEVERITY_CRITICAL,
    "High": analyzer_pb2.POLICY_SEVERITY_HIGH,
    "Medium": analyzer_pb2.POLICY_SEVERITY_MEDIUM,
    "Low": analyzer_pb2.POLICY_SEVERITY_LOW,
}


def tell(report: Report, finding: Finding, level: Level, waiver: Waiver | None = None) -> None:
    """Report one finding."""
    words = message(finding, waiver)
    report(words, finding.urn or None)
    made = _made_by(report)
    if made is None:
        return
    made.policyName = finding.rule
    made.description = title(finding)
    made.message = words
    made.enforcementLevel = _LEVELS[level]
    made.severity = _SEVERITIES[finding.severity]


def guarded(judge: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """The same, but what breaks in it neither ends the engine's run nor is lost: it is a finding.

    Of the error its kind and place are told: its own words may hold a secret's value.
    """

    def judged(args: Any, report: Report) -> None:
        try:
            judge(args, report)
        except Exception as error:  # noqa: BLE001 whatever it is
            words = f"{type(error).__name__} in {place_of(error)}"
            urn = str(getattr(args, "urn", ""))
            tell(report, Finding(BROKE, OWN[BROKE].severity, Verdict.INDETERMINATE, urn, "", words), "mandatory")

    return judged


def message(finding: Finding, waiver: Waiver | None = None) -> str:
    """What a person reads: what is wrong and where, what to do, and where more is written."""
    place = f" at {finding.path}" if finding.path else ""
    cannot = "cannot tell: " if finding.verdict is Verdict.INDETERMINATE else ""
    lines = [f"{title(finding)}: {cannot}{finding.message}{place}"]
    rule = header(finding.rule)
    if rule is not None:
        lines += [rule.do, f"{REFERENCE}#{finding.rule.lower()}"]
    if waiver is not None:
        lines.append(waiver.line)
    return "\n".join(lines)


def title(finding: Finding) -> str:
    """The rule's title, its id where nobody knows the rule."""
    rule = header(finding.rule)
    return finding.rule if rule is None else rule.title


def header(name: str) -> Rule | Own | None:
    """What is written of a rule, or of a finding that is no rule's."""
    return OWN.get(name) or next((rule for rule in all_rules() if rule.id == name), None)


def _made_by(report: Report) -> Any:
    """The last diagnostic of the response that a report goes to, None where it cannot be found."""
    response = inspect.getclosurevars(report).nonlocals.get("response")
    diagnostics = getattr(response, "diagnostics", None)
    return diagnostics[-1] if diagnostics else None
