"""Principals of AWS: the roles of callers, and service-linked roles that belong to an account."""

from __future__ import annotations

import re
from typing import Final

SPOT: Final = "spot.amazonaws.com"
SPOT_ROLE: Final = "AWSServiceRoleForEC2Spot"


def session_role(arn: str) -> str | None:
    """Return the role name of an assumed-role session; None for other callers."""
    match = re.fullmatch(r"arn:[a-z-]+:sts::\d{12}:assumed-role/([^/]+)/.+", arn)
    return match[1] if match else None
