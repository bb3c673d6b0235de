"""What a rule says of a resource: the verdicts, and a finding, which is one verdict in one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal

Severity = Literal["Critical", "High", "Medium", "Low"]
SEVERITIES: Final[tuple[Severity, ...]] = ("Critical", "High", "Medium", "Low")


class Verdict(Enum):
    """The four answers; `INDETERMINATE` is that a value which decides is not known yet, or that the rule broke."""

    PASS = "pass"  # noqa: S105
    FAIL = "fail"
    INDETERMINATE = "indeterminate"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True)
class Own:
    """A finding about the rules' own running, which is no rule's."""

    title: str
    severity: Severity
    why: str
    do: str


OWN: Final[Mapping[str, Own]] = {
    "WVR-01": Own(
        "A waiver has expired",
        "High",
        "What somebody answered for, nobody answers for any more.",
        "Mend what it was for and remove it, or have its owners write another.",
    ),
    "WVR-02": Own(
        "A waiver is written wrongly",
        "High",
        "It waives nothing, and somebody believes that it does.",
        "Write it as docs/policies.md says.",
    ),
    "WVR-03": Own(
        "A waiver waives nothing any more",
        "Low",
        "It would waive the next mistake of its kind, unseen.",
        "Remove it.",
    ),
    "PACK-01": Own(
        "The configuration of a pack is wrong",
        "Critical",
        "A pack that is configured otherwise than somebody believes judges by other measures.",
        "Mend the file that --policy-pack-config names.",
    ),
    "PACK-03": Own(
        "A pack itself broke",
        "Critical",
        "What it had not judged by then, it has not judged.",
        "Mend what the message names; where it is a mistake of the pack's, tell those who keep it.",
    ),
    "PACK-02": Own(
        "A document is not what was promised",
        "High",
        "At the preview it was judged as its component promised it; what came is another one.",
        "Make the promise in the component by the same function that makes the document.",
    ),
}


# That a pack judges otherwise than somebody believes cannot be switched off by what it is configured with
ALWAYS: Final = frozenset({"PACK-01", "PACK-03"})


@dataclass(frozen=True)
class Finding:
    """One verdict of one rule: on which resource, at which of its properties, and in words for who has to act.

    `path` is empty where the verdict is about the resource as a whole, `urn` where it is about the whole stack.
    """

    rule: str
    severity: Severity
    verdict: Verdict
    urn: str
    path: str
    message: str

    def plain(self) -> dict[str, str]:
        """As JSON has it."""
        return {
            "id": self.rule,
            "severity": self.severity,
            "verdict": self.verdict.value,
            "urn": self.urn,
            "path": self.path,
            "message": self.message,
        }
