"""The attempts, a module a family as the guardrails have them."""

from __future__ import annotations

from tests.live.guardrails.attempts.attempt import Attempt

from . import claims, identity, looking, network, owners, running, sandboxes, shapes, spaces, volumes

ATTEMPTS: tuple[Attempt, ...] = (
    *claims.ATTEMPTS,
    *owners.ATTEMPTS,
    *shapes.ATTEMPTS,
    *sandboxes.ATTEMPTS,
    *running.ATTEMPTS,
    *network.ATTEMPTS,
    *identity.ATTEMPTS,
    *volumes.ATTEMPTS,
    *spaces.ATTEMPTS,
    *looking.ATTEMPTS,
)
