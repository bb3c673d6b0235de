"""The time limits of a class, from its ConfigMap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from agentenv.core.classes.constraints_configmap import (
    MAX_LIFETIME,
    RETAIN_DELETED_FOR,
    SESSION_RETENTION,
    SUSPEND_AFTER,
)
from agentenv.core.values.object_fields import counted

# 300 years: a longer duration is a mistake, and would overflow a timestamp.
_LONGEST = 10**10


@dataclass(frozen=True)
class Limits:
    """The time limits of one class; None is no limit."""

    suspend_after: timedelta | None = None
    max_lifetime: timedelta | None = None
    retain_deleted_for: timedelta | None = None
    session_retention: timedelta | None = None

    def kept_for(self, mode: str) -> timedelta | None:
        """Return how long the data of a deleted workspace is retained; None is forever."""
        return self.session_retention if mode == "session" else self.retain_deleted_for


def limits(data: Mapping[str, str]) -> Limits:
    """Return the limits of a class from the data of its ConfigMap."""
    keys = (SUSPEND_AFTER, MAX_LIFETIME, RETAIN_DELETED_FOR, SESSION_RETENTION)
    return Limits(*(_duration(data.get(key)) for key in keys))


def _duration(text: object) -> timedelta | None:
    # An invalid duration is no limit.
    seconds = counted(text)
    return timedelta(seconds=seconds) if seconds is not None and seconds < _LONGEST else None
