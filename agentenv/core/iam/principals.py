"""Who calls AWS: what its ARNs say."""

from __future__ import annotations

import re


def session_role(arn: str) -> str | None:
    """The name of the role that a session is of; None for a caller that is no session."""
    found = re.fullmatch(r"arn:[a-z-]+:sts::\d{12}:assumed-role/([^/]+)/.+", arn)
    return found[1] if found else None
