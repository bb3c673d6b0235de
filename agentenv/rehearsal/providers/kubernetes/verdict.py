"""The result of a readiness check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Verdict:
    """Ready, waiting or failed, with the reasons."""

    done: bool
    failed: bool = False
    reasons: tuple[str, ...] = ()


READY: Final = Verdict(done=True)


def waiting(*reasons: str) -> Verdict:
    return Verdict(done=False, reasons=reasons)


def failed(*reasons: str) -> Verdict:
    """Return a verdict that ends the wait."""
    return Verdict(done=False, failed=True, reasons=reasons)
