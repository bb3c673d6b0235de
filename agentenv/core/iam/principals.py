"""Parse the ARNs of AWS callers."""

from __future__ import annotations

import re


def session_role(arn: str) -> str | None:
    """Return the role name of an assumed-role session; None for other callers."""
    match = re.fullmatch(r"arn:[a-z-]+:sts::\d{12}:assumed-role/([^/]+)/.+", arn)
    return match[1] if match else None
