"""Access tokens of workspaces for E2B's client, and the signatures that it makes of them for links to files.

A token follows from the service's secret and the epoch of the workspace: its claim and its generation, and for those
whom it is shared with how often a share has ended. So it is never stored, raising a number revokes it, and a workspace
that is created anew under the same id has other tokens.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from datetime import datetime
from typing import Literal

from agentenv.core.workspaces.workspace import Workspace

# What a token opens: workspaced's API, or the private ports of the user's programs.
Purpose = Literal["api", "traffic"]
Operation = Literal["read", "write"]
_EXPIRATION = re.compile(r"[0-9]{1,12}")


def epoch_of(workspace: Workspace, *, shared: bool = False) -> str:
    """Return for how long tokens of a workspace are valid: those of its owner, or of those whom it is shared with."""
    epoch = f"{workspace.id}:{workspace.claim_uid}:{workspace.token_generation}"
    return f"{epoch}:{workspace.share_generation}" if shared else epoch


def access_token(secret: bytes, epoch: str, purpose: Purpose = "api") -> str:
    """Return the token of a workspace's epoch."""
    return hmac.new(secret, f"{purpose}:{epoch}".encode(), hashlib.sha256).hexdigest()


def is_access_token(presented: str, secret: bytes, epoch: str, purpose: Purpose = "api") -> bool:
    """Return whether a text is the token of a workspace's epoch, in constant time."""
    return hmac.compare_digest(presented.encode(), access_token(secret, epoch, purpose).encode())


def signature(path: str, operation: Operation, user: str, token: str, expiration: int | None = None) -> str:
    """Return the signature of a link to a file, as E2B's client makes it."""
    expires = "" if expiration is None else f":{expiration}"
    digest = hashlib.sha256(f"{path}:{operation}:{user}:{token}{expires}".encode("utf-8", "surrogatepass")).digest()
    return "v1_" + base64.b64encode(digest).rstrip(b"=").decode()


def is_signature(
    presented: str,
    path: str,
    operation: Operation,
    user: str,
    token: str,
    *,
    expiration: str | None,
    now: datetime,
) -> bool:
    """Return whether a link to a file was signed with a token, and has not expired; `expiration` is that of the URL."""
    if expiration is not None and (not _EXPIRATION.fullmatch(expiration) or int(expiration) < now.timestamp()):
        return False
    expected = signature(path, operation, user, token, None if expiration is None else int(expiration))
    return hmac.compare_digest(presented.encode("utf-8", "surrogatepass"), expected.encode())
