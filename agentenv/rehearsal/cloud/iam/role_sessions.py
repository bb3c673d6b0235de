"""Sessions of roles that pods take on: opened for who shows a token, and known again when they call.

Moto makes the keys and tells their caller's name. What it does not keep lies on a shelf: that the session is a pod's,
what it was tagged with, and when it ends.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.cloud.rows.eks_common import PRINCIPAL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentenv.rehearsal.cloud.request_context import Desk
    from agentenv.rehearsal.cloud.store import Record

_KIND: Final = "_sts.sessions"
_SPARE: Final = re.compile(r"[^\w+=,.@-]")
LONGEST_NAME: Final = 64


def role_of(desk: Desk, arn: str) -> Any:
    """Moto's role of that ARN, in whichever account; None if there is none."""
    found = PRINCIPAL.fullmatch(arn)
    if found is None or found["kind"] != "role":
        return None
    roles = desk.moto.backend("iam", found["account"], "aws").roles.values()
    return next((role for role in roles if role.arn == arn), None)


def document(role: Any) -> str:
    """Its trust policy."""
    return str(role.assume_role_policy_document or "{}")


def open_session(desk: Desk, role: Any, name: str, seconds: int, tags: Mapping[str, str] | None = None) -> Any:
    """A session of a role for a pod: moto's own, with its keys."""
    made = desk.moto.backend("sts", role.account_id, desk.region).assume_role(
        region_name=desk.region,
        role_session_name=name,
        role_arn=role.arn,
        policy="",
        duration=seconds,
        external_id="",
    )
    _shelf(desk)[made.access_key_id] = {"role": role.arn, "tags": dict(tags or {}), "session": made}
    return made


def told(made: Any) -> Record:
    """A session as STS tells whoever opened it."""
    return {
        "Credentials": {
            "AccessKeyId": made.access_key_id,
            "SecretAccessKey": made.secret_access_key,
            "SessionToken": made.session_token,
            "Expiration": made.expiration,
        },
        "AssumedRoleUser": {"AssumedRoleId": made.user_id, "Arn": made.arn},
    }


def session_of(desk: Desk) -> Record | None:
    """The pod's session that a call is made in; None for every other caller."""
    return _shelf(desk).get(desk.call.key)


def session_name(*parts: str) -> str:
    """A name for a session, of letters that such names may have."""
    return _SPARE.sub("-", "-".join(parts))[:LONGEST_NAME]


def _shelf(desk: Desk) -> dict[str, Record]:
    return desk.shelves.shelf(_KIND, "", "")
