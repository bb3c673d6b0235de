"""The attempts, in one module per family of guardrails."""

from __future__ import annotations

from tests.live.guardrails.attempts import (
    claims,
    connections,
    emptying,
    home_metering,
    identity,
    namespaces,
    network,
    owners,
    platform_pods,
    running,
    sandboxes,
    shapes,
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
    *connections.ATTEMPTS,
    *network.ATTEMPTS,
    *identity.ATTEMPTS,
    *volumes.ATTEMPTS,
    *volume_claims.ATTEMPTS,
    *namespaces.ATTEMPTS,
    *home_metering.ATTEMPTS,
    *emptying.ATTEMPTS,
    *platform_pods.ATTEMPTS,
)
