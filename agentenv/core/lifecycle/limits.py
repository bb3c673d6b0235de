"""How long things last in a class, as its constraints say it."""

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

# Three hundred years: what is longer was not meant, and added to a timestamp would be none.
_LONGEST = 10**10


@dataclass(frozen=True)
class Limits:
    """Of one class; what is None has no end, and is never acted on."""

    suspend_after: timedelta | None = None
    max_lifetime: timedelta | None = None
    retain_deleted_for: timedelta | None = None
    session_retention: timedelta | None = None

    def kept_for(self, mode: str) -> timedelta | None:
        """How long the data of a deleted workspace is kept; None where nobody said, and so for ever."""
        return self.session_retention if mode == "session" else self.retain_deleted_for


def limits(data: Mapping[str, str]) -> Limits:
    """Those of a class, from its constraints."""
    keys = (SUSPEND_AFTER, MAX_LIFETIME, RETAIN_DELETED_FOR, SESSION_RETENTION)
    return Limits(*(_length(data.get(key)) for key in keys))


def _length(text: object) -> timedelta | None:
    # Whatever is no length of time is none: nothing ends by it.
    seconds = counted(text)
    return timedelta(seconds=seconds) if seconds is not None and seconds < _LONGEST else None
