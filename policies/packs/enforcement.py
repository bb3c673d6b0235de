"""The findings that stop a deployment, by severity, verdict and environment, or by the configuration of the rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from agentenv.config.settings import is_production
from agentenv.policies.verdicts import Finding, Severity, Verdict

Level = Literal["mandatory", "advisory", "disabled"]
LEVELS: Final[tuple[Level, ...]] = ("mandatory", "advisory", "disabled")


@dataclass(frozen=True)
class Strictness:
    """The severities that stop a deployment if a rule fails, and if it is indeterminate."""

    fail: tuple[Severity, ...]
    indeterminate: tuple[Severity, ...]

    def stops(self, finding: Finding) -> bool:
        """Return whether a finding stops a deployment."""
        stopping = self.fail if finding.verdict is Verdict.FAIL else self.indeterminate
        return finding.severity in stopping


# In production, an indeterminate verdict of a severe rule counts as a failure
PRODUCTION: Final = Strictness(("Critical", "High", "Medium"), ("Critical", "High"))
OTHER_ENVIRONMENTS: Final = Strictness(("Critical", "High"), ())


def default_strictness(environment: str) -> Strictness:
    """Return the strictness of an environment that the configuration does not mention."""
    return PRODUCTION if is_production(environment) else OTHER_ENVIRONMENTS


@dataclass(frozen=True)
class Enforcement:
    """The strictness of an environment, and the levels set for single rules."""

    environment: str
    by_environment: Mapping[str, Strictness] = field(default_factory=dict[str, Strictness])
    by_rule: Mapping[str, Level] = field(default_factory=dict[str, Level])

    @property
    def strictness(self) -> Strictness:
        """Return what stops a deployment in this environment."""
        return self.by_environment.get(self.environment) or default_strictness(self.environment)

    def level(self, finding: Finding) -> Level:
        """Return the level of a finding that is not waived."""
        default: Level = "mandatory" if self.strictness.stops(finding) else "advisory"
        return self.by_rule.get(finding.rule) or default

    def enabled(self, findings: Iterable[Finding]) -> list[Finding]:
        """Return the findings that are not disabled. Disabled rules do not run, but a pack's own findings remain."""
        return [finding for finding in findings if self.by_rule.get(finding.rule) != "disabled"]
