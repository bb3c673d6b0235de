"""STS AssumeRole. Moto opens a session of any role for anybody, with any tags and duration.

AWS's limits apply to every caller: durations, sizes and characters. Trust policies are evaluated for pods' sessions
only; the rehearsal's own caller owns the account.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from agentenv.core.iam import evaluation
from agentenv.core.iam.evaluation import request_keys
from agentenv.rehearsal.cloud.iam import role_sessions
from agentenv.rehearsal.cloud.request_context import OperationHandler
from agentenv.rehearsal.cloud.responses import AwsError

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import RequestContext

ASSUME, TAG = "sts:AssumeRole", "sts:TagSession"
LONGEST_CHAINED, USUAL_SECONDS = 3600, 3600
MOST_CHARACTERS, MOST_POLICIES, MOST_TAGS = 2048, 10, 50
_KEY = re.compile(r"[\w .:/=+@-]{1,128}")
_VALUE = re.compile(r"[\w .:/=+@-]{0,256}")


def assume_role(context: RequestContext) -> dict[str, Any]:
    """Validate the request and the role's trust in the caller, and open a session."""
    parameters = context.parameters
    tags = {tag["Key"]: tag["Value"] for tag in parameters.get("Tags", [])}
    for problem in _problems(parameters, tags):
        raise AwsError("ValidationError", problem, 400)
    seconds = int(parameters.get("DurationSeconds", USUAL_SECONDS))
    role, session = role_sessions.role_of(context, parameters["RoleArn"]), role_sessions.session_of(context)
    if role is not None and seconds > int(role.max_session_duration or USUAL_SECONDS):
        text = "The requested DurationSeconds exceeds the MaxSessionDuration set for this role."
        raise AwsError("ValidationError", text, 400)
    if session is not None:
        if seconds > LONGEST_CHAINED:
            text = "The requested DurationSeconds exceeds the 1 hour session limit for roles assumed by role chaining"
            raise AwsError("ValidationError", text, 400)
        _check_trust(context, role, session, tags)
    if role is None or session is None:
        return context.result()
    opened = role_sessions.open_session(context, role, parameters["RoleSessionName"], seconds, tags)
    return {
        **role_sessions.session_response(opened),
        "PackedPolicySize": _packed(parameters, tags),
    }


def _problems(parameters: dict[str, Any], tags: dict[str, str]) -> Iterator[str]:
    if len(parameters.get("Policy", "")) > MOST_CHARACTERS:
        yield f"Value at 'policy' failed to satisfy constraint: at most {MOST_CHARACTERS} characters"
    if len(parameters.get("PolicyArns", [])) > MOST_POLICIES:
        yield f"Value at 'policyArns' failed to satisfy constraint: at most {MOST_POLICIES}"
    if len(tags) > MOST_TAGS or len(tags) != len(parameters.get("Tags", [])):
        yield f"Value at 'tags' failed to satisfy constraint: at most {MOST_TAGS}, each key once"
    for key, value in tags.items():
        if not _KEY.fullmatch(key) or not _VALUE.fullmatch(value) or key.lower().startswith("aws:"):
            yield f"Value at 'tags' failed to satisfy constraint: {key!r} cannot be {value!r}"
    if set(parameters.get("TransitiveTagKeys", [])) - set(tags):
        yield "Value at 'transitiveTagKeys' failed to satisfy constraint: only keys among the tags"


def _check_trust(context: RequestContext, role: Any, session: Any, tags: dict[str, str]) -> None:
    """Raise unless the role trusts the session for AssumeRole, and for TagSession if there are tags."""
    own = session["session"].arn
    account = own.split(":")[4]
    names = frozenset({own, session["role"], account, f"arn:aws:iam::{account}:root"})
    principal = evaluation.Principal("AWS", names)
    condition_context = request_keys(
        **{
            "aws:PrincipalArn": session["role"],
            "sts:RoleSessionName": context.parameters["RoleSessionName"],
            **({"aws:TagKeys": sorted(tags)} if tags else {}),
            **{f"aws:RequestTag/{key}": value for key, value in tags.items()},
        }
    )
    for action in (ASSUME, TAG) if tags else (ASSUME,):
        # A role that is not there and one that does not want the caller look the same from outside
        if role is None or not evaluation.trusts(role_sessions.document(role), principal, action, condition_context):
            text = f"User: {own} is not authorized to perform: {action} on resource: {context.parameters['RoleArn']}"
            raise AwsError("AccessDenied", text, 403)


def _packed(parameters: dict[str, Any], tags: dict[str, str]) -> int:
    """Return the packed size in per cent; AWS's algorithm is not published, so the text's size is used."""
    size = len(parameters.get("Policy", "")) + sum(len(key) + len(value) for key, value in tags.items())
    return min(100, size * 100 // MOST_CHARACTERS)


ROWS = (OperationHandler("sts", "AssumeRole", assume_role),)
