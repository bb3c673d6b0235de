"""STS: a role for whoever has keys. Moto gives any role to anybody, with any tags, for any time.

What AWS refuses everybody is refused everybody: times, sizes and words out of its limits. Whom a role trusts is asked
of sessions of pods; the rehearsal's own caller owns the account.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.iam import policy_evaluation as verdicts
from agentenv.rehearsal.cloud.iam import role_sessions as sessions
from agentenv.rehearsal.cloud.iam.policy_conditions import context_of
from agentenv.rehearsal.cloud.request_context import Row
from agentenv.rehearsal.cloud.responses import Refused

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import Desk

ASSUME, TAG = "sts:AssumeRole", "sts:TagSession"
LONGEST_CHAINED, USUAL_SECONDS = 3600, 3600
MOST_CHARACTERS, MOST_POLICIES, MOST_TAGS = 2048, 10, 50
_KEY = re.compile(r"[\w .:/=+@-]{1,128}")
_VALUE = re.compile(r"[\w .:/=+@-]{0,256}")


def assume_role(desk: Desk) -> dict[str, Any]:
    """Check what is asked for, then whether the role is for the caller, and open a session."""
    asked = desk.asked
    tags = {tag["Key"]: tag["Value"] for tag in asked.get("Tags", [])}
    for problem in _problems(asked, tags):
        raise Refused("ValidationError", problem, 400)
    seconds = int(asked.get("DurationSeconds", USUAL_SECONDS))
    role, session = sessions.role_of(desk, asked["RoleArn"]), sessions.session_of(desk)
    if role is not None and seconds > int(role.max_session_duration or USUAL_SECONDS):
        text = "The requested DurationSeconds exceeds the MaxSessionDuration set for this role."
        raise Refused("ValidationError", text, 400)
    if session is not None:
        if seconds > LONGEST_CHAINED:
            text = "The requested DurationSeconds exceeds the 1 hour session limit for roles assumed by role chaining"
            raise Refused("ValidationError", text, 400)
        _admit(desk, role, session, tags)
    if role is None or session is None:
        return desk.result()
    made = sessions.open_session(desk, role, asked["RoleSessionName"], seconds, tags)
    return {
        **sessions.told(made),
        "PackedPolicySize": _packed(asked, tags),
    }


def _problems(asked: dict[str, Any], tags: dict[str, str]) -> Iterator[str]:
    if len(asked.get("Policy", "")) > MOST_CHARACTERS:
        yield f"Value at 'policy' failed to satisfy constraint: at most {MOST_CHARACTERS} characters"
    if len(asked.get("PolicyArns", [])) > MOST_POLICIES:
        yield f"Value at 'policyArns' failed to satisfy constraint: at most {MOST_POLICIES}"
    if len(tags) > MOST_TAGS or len(tags) != len(asked.get("Tags", [])):
        yield f"Value at 'tags' failed to satisfy constraint: at most {MOST_TAGS}, each key once"
    for key, value in tags.items():
        if not _KEY.fullmatch(key) or not _VALUE.fullmatch(value) or key.lower().startswith("aws:"):
            yield f"Value at 'tags' failed to satisfy constraint: {key!r} cannot be {value!r}"
    if set(asked.get("TransitiveTagKeys", [])) - set(tags):
        yield "Value at 'transitiveTagKeys' failed to satisfy constraint: only keys among the tags"


def _admit(desk: Desk, role: Any, session: Any, tags: dict[str, str]) -> None:
    """The role has to trust the session, and nothing less than both actions where there are tags."""
    own = session["session"].arn
    account = own.split(":")[4]
    names = frozenset({own, session["role"], account, f"arn:aws:iam::{account}:root"})
    who = verdicts.Principal("AWS", names)
    context = context_of(
        **{
            "aws:PrincipalArn": session["role"],
            "sts:RoleSessionName": desk.asked["RoleSessionName"],
            **({"aws:TagKeys": sorted(tags)} if tags else {}),
            **{f"aws:RequestTag/{key}": value for key, value in tags.items()},
        }
    )
    for action in (ASSUME, TAG) if tags else (ASSUME,):
        # A role that is not there and one that does not want the caller look the same from outside
        if role is None or not verdicts.trusts(sessions.document(role), who, action, context):
            text = f"User: {own} is not authorized to perform: {action} on resource: {desk.asked['RoleArn']}"
            raise Refused("AccessDenied", text, 403)


def _packed(asked: dict[str, Any], tags: dict[str, str]) -> int:
    """AWS does not say how it packs; this is how full the text is."""
    size = len(asked.get("Policy", "")) + sum(len(key) + len(value) for key, value in tags.items())
    return min(100, size * 100 // MOST_CHARACTERS)


ROWS = (Row("sts", "AssumeRole", assume_role),)
