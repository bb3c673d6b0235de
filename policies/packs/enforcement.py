"""Which findings stop a deployment: by severity, verdict and environment, and by rule where somebody says so."""

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
    """The severities that stop a deployment where a rule fails, and where it cannot tell."""

    fail: tuple[Severity, ...]
    indeterminate: tuple[Severity, ...]

    def stops(self, finding: Finding) -> bool:
        """Whether that finding stops a deployment."""
        stopping = self.fail if finding.verdict is Verdict.FAIL else self.indeterminate
        return finding.severity in stopping


# In production whoever cannot be told to be safe is taken for unsafe
PRODUCTION: Final = Strictness(("Critical", "High", "Medium"), ("Critical", "High"))
ELSEWHERE: Final = Strictness(("Critical", "High"), ())


def usual(environment: str) -> Strictness:
    """How strict an environment is where nobody says otherwise."""
    return PRODUCTION if is_production(environment) else ELSEWHERE


@dataclass(frozen=True)
class Enforcement:
    """How strict an environment is, and which rules are treated otherwise."""

    environment: str
    by_environment: Mapping[str, Strictness] = field(default_factory=dict[str, Strictness])
    by_rule: Mapping[str, Level] = field(default_factory=dict[str, Level])

    @property
    def strictness(self) -> Strictness:
        """What stops a deployment in this environment."""
        return self.by_environment.get(self.environment) or usual(self.environment)

    def level(self, finding: Finding) -> Level:
        """What becomes of a finding that nobody waived."""
        said = self.by_rule.get(finding.rule)
        return said or ("mandatory" if self.strictness.stops(finding) else "advisory")

    def told(self, findings: Iterable[Finding]) -> list[Finding]:
        """Those that nobody has switched off; a rule that is off is not asked, but not all findings are a rule's."""
        return [one for one in findings if self.by_rule.get(one.rule) != "disabled"]
