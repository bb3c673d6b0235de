"""Kubernetes quantities: parse and format amounts of CPU and memory."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from math import ceil

QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?")

UNITS: dict[str, Decimal] = {
    "m": Decimal("0.001"),
    "": Decimal(1),
    **{unit: Decimal(1000) ** power for power, unit in enumerate(("k", "M", "G", "T", "P"), 1)},
    **{unit: Decimal(1024) ** power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi"), 1)},
}


@dataclass(frozen=True)
class Quantity:
    """A quantity of cores or bytes: its text and its value."""

    text: str
    value: Decimal

    @classmethod
    def parse(cls, text: str) -> Quantity:
        """Return the quantity of a text; raise `ValueError` if it is not one."""
        match = QUANTITY.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not a Kubernetes quantity")
        return cls(text, Decimal(match[1]) * UNITS[match[2] or ""])

    def __str__(self) -> str:
        return self.text


def cores(value: Decimal) -> str:
    """Return cores in the canonical form of Kubernetes, rounded up to a thousandth; any other form looks like drift."""
    thousandths = ceil(value * 1000)
    return f"{thousandths}m" if thousandths % 1000 else f"{thousandths // 1000}"


def size(value: Decimal) -> str:
    """Return bytes in the canonical form of Kubernetes, rounded up to a kibibyte."""
    amount, unit = ceil(value / 1024), "Ki"
    for larger in ("Mi", "Gi", "Ti", "Pi"):
        if amount == 0 or amount % 1024:
            break
        amount, unit = amount // 1024, larger
    return f"{amount}{unit}" if amount else "0"
