"""Quantities of Kubernetes: whether one bounds anything."""

from __future__ import annotations

import re
from typing import Final

from agentenv.policies.view.fields import Field

_ZERO: Final = re.compile(r"[+-]?(0+\.?0*|\.0+)([eE][+-]?\d+|[numkMGTPE]|[KMGTPE]i)?")


def is_zero(value: object) -> bool:
    """Whether it is a quantity of nothing, in whatever unit."""
    return not isinstance(value, bool) and (value == 0 or (isinstance(value, str) and bool(_ZERO.fullmatch(value))))


def no_bound(field: Field) -> bool:
    """Whether nothing is bounded by it: it is missing, or 0, which the kubelet takes for no limit at all."""
    return field.missing or is_zero(field.raw)
