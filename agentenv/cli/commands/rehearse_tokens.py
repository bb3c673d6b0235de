"""Sign tokens for the sandboxes of a rehearsed stack, with the key of its own service."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from agentenv.core.service.rbac import NAME, SIGNING_KEYS
from agentenv.rehearsal.scenario.command_probe import CommandRefused

if TYPE_CHECKING:
    from agentenv.rehearsal.controlplane.client import Client


def token_signer(client: Client) -> Callable[[str, str, str], str]:
    """Return a function that signs a token for a pod's uid, with a claim's uid and a scope."""
    from agentenv.service.workspaced.keys import signing_key
    from agentenv.service.workspaced.publish import keys_of
    from agentenv.service.workspaced.tokens import Grant, sign_token

    def sign(pod_uid: str, claim_uid: str, scope: str) -> str:
        now = datetime.now(UTC)
        key = signing_key(keys_of(client.find(f"/api/v1/namespaces/{NAME}/secrets/{SIGNING_KEYS}")), now)
        if key is None:
            raise CommandRefused("the service has no signing key yet")
        return sign_token(key, now, Grant(pod_uid, scope, claim_uid))

    return sign
