"""The outcome of looking at an object that is waited for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Verdict:
    """Done, still to be waited for, or in vain; with the reasons in words."""

    done: bool
    failed: bool = False
    reasons: tuple[str, ...] = ()


READY: Final = Verdict(done=True)


def waiting(*reasons: str) -> Verdict:
    return Verdict(done=False, reasons=reasons)


def failed(*reasons: str) -> Verdict:
    """Waiting longer would not help."""
    return Verdict(done=False, failed=True, reasons=reasons)
