"""Role sessions of pods: opened for a token, and recognized by their access key.

Moto creates the keys and returns the caller's name. A record here holds what moto does not: that the session is a
pod's, its tags, and its expiration.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.cloud.rows.eks_common import PRINCIPAL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentenv.rehearsal.cloud.moto_backend import MotoBackend
    from agentenv.rehearsal.cloud.request_context import RequestContext
    from agentenv.rehearsal.cloud.store import Record, Store

_KIND: Final = "_sts.sessions"
_INVALID_CHARACTERS: Final = re.compile(r"[^\w+=,.@-]")
LONGEST_NAME: Final = 64


def role_of(context: RequestContext, arn: str) -> Any:
    """Return moto's role of that ARN, in any account, or None."""
    return role_by_arn(context.moto, arn)


def role_by_arn(moto: MotoBackend, arn: str) -> Any:
    """Return the same from moto's state."""
    match = PRINCIPAL.fullmatch(arn)
    if match is None or match["kind"] != "role":
        return None
    roles = moto.backend("iam", match["account"], "aws").roles.values()
    return next((role for role in roles if role.arn == arn), None)


def document(role: Any) -> str:
    """Return its trust policy."""
    return str(role.assume_role_policy_document or "{}")


def open_session(
    context: RequestContext, role: Any, name: str, seconds: int, tags: Mapping[str, str] | None = None
) -> Any:
    """Open a session of a role for a pod: moto's own, with its keys."""
    session = context.moto.backend("sts", role.account_id, context.region).assume_role(
        region_name=context.region,
        role_session_name=name,
        role_arn=role.arn,
        policy="",
        duration=seconds,
        external_id="",
    )
    _records(context.store)[session.access_key_id] = {"role": role.arn, "tags": dict(tags or {}), "session": session}
    return session


def session_response(session: Any) -> Record:
    """Return a session as STS returns it."""
    return {
        "Credentials": {
            "AccessKeyId": session.access_key_id,
            "SecretAccessKey": session.secret_access_key,
            "SessionToken": session.session_token,
            "Expiration": session.expiration,
        },
        "AssumedRoleUser": {"AssumedRoleId": session.user_id, "Arn": session.arn},
    }


def session_of(context: RequestContext) -> Record | None:
    """Return the pod's session of a call; None for every other caller."""
    return session_of_key(context.store, context.call.key)


def session_of_key(store: Store, access_key: str) -> Record | None:
    """Return the pod's session with an access key; None if there is none."""
    return _records(store).get(access_key)


def session_name(*parts: str) -> str:
    """Return a valid session name."""
    return _INVALID_CHARACTERS.sub("-", "-".join(parts))[:LONGEST_NAME]


def _records(store: Store) -> dict[str, Record]:
    return store.records(_KIND, "", "")
