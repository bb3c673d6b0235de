"""The verdicts of rules, and findings: one verdict about one field of one resource."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal

Severity = Literal["Critical", "High", "Medium", "Low"]
SEVERITIES: Final[tuple[Severity, ...]] = ("Critical", "High", "Medium", "Low")


class Verdict(Enum):
    """The verdict of a rule. `INDETERMINATE` means that a deciding value is not known yet, or that the rule failed."""

    PASS = "pass"  # noqa: S105
    FAIL = "fail"
    INDETERMINATE = "indeterminate"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True)
class PackFinding:
    """The header of a finding about a pack itself: its waivers, its configuration or its errors."""

    title: str
    severity: Severity
    why: str
    fix: str


PACK_FINDINGS: Final[Mapping[str, PackFinding]] = {
    "WVR-01": PackFinding(
        "A waiver has expired",
        "High",
        "Nobody is responsible for the finding any more.",
        "Fix the finding and remove the waiver, or have its owners renew it.",
    ),
    "WVR-02": PackFinding(
        "A waiver is invalid",
        "High",
        "It waives nothing, although its owners expect it to.",
        "Write it as docs/policies.md describes.",
    ),
    "WVR-03": PackFinding(
        "A waiver is unused",
        "Low",
        "It would silently waive the next finding of its rule.",
        "Remove it.",
    ),
    "PACK-01": PackFinding(
        "The configuration of a pack is invalid",
        "Critical",
        "The pack evaluates with other settings than its configuration intends.",
        "Correct the file that --policy-pack-config names.",
    ),
    "PACK-03": PackFinding(
        "A pack failed to run",
        "Critical",
        "Everything that it had not evaluated by then is not evaluated.",
        "Fix what the message names; report an error in the pack itself to its maintainers.",
    ),
    "PACK-02": PackFinding(
        "A document differs from its planned document",
        "High",
        "The preview evaluated the planned document; the real one allows or denies something else.",
        "Create both documents in the component with the same function.",
    ),
}


# The configuration cannot disable these: they say that the configuration itself is wrong or the pack incomplete
ALWAYS_REPORTED: Final = frozenset({"PACK-01", "PACK-03"})


@dataclass(frozen=True)
class Finding:
    """One verdict of one rule: about which resource, at which property, and a message for the reader.

    `path` is empty if the verdict is about the whole resource, `urn` if it is about the whole stack.
    """

    rule: str
    severity: Severity
    verdict: Verdict
    urn: str
    path: str
    message: str

    def plain(self) -> dict[str, str]:
        """Return the finding as JSON data."""
        return {
            "id": self.rule,
            "severity": self.severity,
            "verdict": self.verdict.value,
            "urn": self.urn,
            "path": self.path,
            "message": self.message,
        }
