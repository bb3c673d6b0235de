"""Report findings to the engine, each with its own rule, severity and level.

The engine accepts these for each violation, but the SDK sets them for a whole policy. With one policy for each rule,
the SDK would read each resource over a hundred times. So a finding is reported through the SDK, and the diagnostic that
the SDK created is changed. If an SDK does not allow this, the policy's own level applies, which stops the deployment.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from pulumi.runtime.proto import analyzer_pb2

from agentenv.policies.evaluate import error_location
from agentenv.policies.packs.enforcement import Level
from agentenv.policies.rules.registry import Rule, all_rules
from agentenv.policies.verdicts import PACK_FINDINGS, Finding, PackFinding, Severity, Verdict
from agentenv.policies.waivers import Waiver

Report = Callable[[str, str | None], None]
PACK_ERROR = "PACK-03"
REFERENCE = "docs/reference/policies.md"
_LEVELS: dict[Level, int] = {"mandatory": analyzer_pb2.MANDATORY, "advisory": analyzer_pb2.ADVISORY}
_SEVERITIES: dict[Severity, int] = {
    "Critical": analyzer_pb2.POLICY_SEVERITY_CRITICAL,
    "High": analyzer_pb2.POLICY_SEVERITY_HIGH,
    "Medium": analyzer_pb2.POLICY_SEVERITY_MEDIUM,
    "Low": analyzer_pb2.POLICY_SEVERITY_LOW,
}


def report_finding(report: Report, finding: Finding, level: Level, waiver: Waiver | None = None) -> None:
    """Report one finding."""
    text = message(finding, waiver)
    report(text, finding.urn or None)
    diagnostic = _last_diagnostic(report)
    if diagnostic is None:
        return
    diagnostic.policyName = finding.rule
    diagnostic.description = title(finding)
    diagnostic.message = text
    diagnostic.enforcementLevel = _LEVELS[level]
    diagnostic.severity = _SEVERITIES[finding.severity]


def report_errors(validate: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """Wrap a policy's function, so that an error in it becomes a finding and does not end the engine's run.

    The finding has the type and location of the error, and not its message, which may contain the value of a secret.
    """

    def wrapped(args: Any, report: Report) -> None:
        try:
            validate(args, report)
        except Exception as error:  # noqa: BLE001 whatever it is
            kind = f"{type(error).__name__} in {error_location(error)}"
            urn = str(getattr(args, "urn", ""))
            report_finding(
                report,
                Finding(PACK_ERROR, PACK_FINDINGS[PACK_ERROR].severity, Verdict.INDETERMINATE, urn, "", kind),
                "mandatory",
            )

    return wrapped


def message(finding: Finding, waiver: Waiver | None = None) -> str:
    """Return the text of a finding: what is wrong and where, how to fix it, and a link to the reference."""
    place = f" at {finding.path}" if finding.path else ""
    prefix = "cannot tell: " if finding.verdict is Verdict.INDETERMINATE else ""
    lines = [f"{title(finding)}: {prefix}{finding.message}{place}"]
    rule = header(finding.rule)
    if rule is not None:
        lines += [rule.fix, f"{REFERENCE}#{finding.rule.lower()}"]
    if waiver is not None:
        lines.append(waiver.summary)
    return "\n".join(lines)


def title(finding: Finding) -> str:
    """Return the title of the finding's rule; its id if the rule is unknown."""
    rule = header(finding.rule)
    return finding.rule if rule is None else rule.title


def header(name: str) -> Rule | PackFinding | None:
    """Return the header of a rule or of a pack's own finding."""
    return PACK_FINDINGS.get(name) or next((rule for rule in all_rules() if rule.id == name), None)


def _last_diagnostic(report: Report) -> Any:
    """Return the last diagnostic of the response that a report function fills; None if it cannot be found."""
    response = inspect.getclosurevars(report).nonlocals.get("response")
    diagnostics = getattr(response, "diagnostics", None)
    return diagnostics[-1] if diagnostics else None
