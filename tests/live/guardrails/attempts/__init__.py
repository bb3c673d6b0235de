"""The attempts, in one module per family of guardrails."""

from __future__ import annotations

from tests.live.guardrails.attempts import (
    claims,
    doors,
    identity,
    looking,
    network,
    owners,
    running,
    sandboxes,
    shapes,
    spaces,
    volume_claims,
    volumes,
)
from tests.live.guardrails.attempts.attempt import Attempt

ATTEMPTS: tuple[Attempt, ...] = (
    *claims.ATTEMPTS,
    *owners.ATTEMPTS,
    *shapes.ATTEMPTS,
    *sandboxes.ATTEMPTS,
    *running.ATTEMPTS,
    *doors.ATTEMPTS,
    *network.ATTEMPTS,
    *identity.ATTEMPTS,
    *volumes.ATTEMPTS,
    *volume_claims.ATTEMPTS,
    *spaces.ATTEMPTS,
    *looking.ATTEMPTS,
)
