"""STS: a role for whoever brings a token of a known issuer. Moto gives any role to anybody."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.iam import policy_evaluation as verdicts
from agentenv.rehearsal.cloud.iam import role_sessions as sessions
from agentenv.rehearsal.cloud.iam import token_issuers as issuers
from agentenv.rehearsal.cloud.iam.policy_conditions import context_of
from agentenv.rehearsal.cloud.iam.service_account_tokens import NotAToken, Token
from agentenv.rehearsal.cloud.request_context import Row
from agentenv.rehearsal.cloud.responses import Refused

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import Desk

ACTION = "sts:AssumeRoleWithWebIdentity"
USUAL_SECONDS, LONGEST_SECONDS = 3600, 3600


def with_web_identity(desk: Desk) -> dict[str, Any]:
    """Check the token, then what the role's trust policy says of it."""
    asked = desk.asked
    token = _token(asked["WebIdentityToken"])
    provider = _provider(desk, asked["RoleArn"], token)
    keys = issuers.keys_of(desk.shelves, token.issuer)
    if keys is None:
        text = f"Couldn't reach the identity provider {token.issuer} to verify the token."
        raise Refused("IDPCommunicationError", text)
    if not token.signed_by(keys):
        text = "Couldn't verify the token's signature with the keys of your identity provider."
        raise Refused("InvalidIdentityToken", text)
    if token.expired() or token.premature():
        moment = datetime.fromtimestamp(token.claims["exp"], UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        raise Refused("ExpiredTokenException", f"Token expired: current date/time must be before {moment}")
    audiences = [one for one in token.audiences if one in provider.client_id_list]
    if not audiences:
        raise Refused("InvalidIdentityToken", "Incorrect token audience")
    role = sessions.role_of(desk, asked["RoleArn"])
    issuer = provider.url
    context = context_of(
        **{
            f"{issuer}:aud": audiences,
            f"{issuer}:sub": token.subject,
            "aws:FederatedProvider": provider.arn,
            "sts:RoleSessionName": asked["RoleSessionName"],
        }
    )
    federated = verdicts.Principal("Federated", frozenset({provider.arn}))
    # A role that is not there and one that does not want the caller look the same from outside
    if role is None or not verdicts.trusts(sessions.document(role), federated, ACTION, context):
        raise Refused("AccessDenied", f"Not authorized to perform {ACTION}", 403)
    seconds = asked.get("DurationSeconds", USUAL_SECONDS)
    if seconds > int(role.max_session_duration or LONGEST_SECONDS):
        text = "The requested DurationSeconds exceeds the MaxSessionDuration set for this role."
        raise Refused("ValidationError", text, 400)
    made = sessions.open_session(desk, role, asked["RoleSessionName"], seconds)
    return {
        **sessions.told(made),
        "SubjectFromWebIdentityToken": token.subject,
        "Provider": provider.arn,
        "Audience": audiences[0],
    }


def _token(text: str) -> Token:
    try:
        return Token.read(text)
    except NotAToken as error:
        raise Refused("InvalidIdentityToken", f"The ID Token provided is not a valid JWT: {error}") from None


def _provider(desk: Desk, role: str, token: Token) -> Any:
    """The provider by whose name the role's account knows the issuer."""
    account = role.split(":")[4] if role.count(":") > 4 else desk.account
    known = desk.moto.backend("iam", account, "aws").open_id_providers.values()
    found = next((one for one in known if f"https://{one.url}" == token.issuer), None)
    if found is None:
        text = f"No OpenIDConnect provider found in your account for {token.issuer}"
        raise Refused("InvalidIdentityToken", text)
    return found


ROWS = (Row("sts", "AssumeRoleWithWebIdentity", with_web_identity),)
