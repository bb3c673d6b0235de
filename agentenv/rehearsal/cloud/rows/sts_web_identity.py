"""STS AssumeRoleWithWebIdentity: a session for a token of a known issuer. Moto opens one for anybody."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from agentenv.core.iam import evaluation
from agentenv.core.iam.evaluation import request_keys
from agentenv.rehearsal.cloud.iam import role_sessions, token_issuers
from agentenv.rehearsal.cloud.iam.service_account_tokens import InvalidToken, Token
from agentenv.rehearsal.cloud.request_context import OperationHandler
from agentenv.rehearsal.cloud.responses import AwsError

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import RequestContext

ACTION = "sts:AssumeRoleWithWebIdentity"
USUAL_SECONDS, LONGEST_SECONDS = 3600, 3600


def assume_role_with_web_identity(context: RequestContext) -> dict[str, Any]:
    """Verify the token, then evaluate the role's trust policy."""
    parameters = context.parameters
    token = _token(parameters["WebIdentityToken"])
    provider = _provider(context, parameters["RoleArn"], token)
    keys = token_issuers.issuer_keys(context.store, token.issuer)
    if keys is None:
        text = f"Couldn't reach the identity provider {token.issuer} to verify the token."
        raise AwsError("IDPCommunicationError", text)
    if not token.signed_by(keys):
        text = "Couldn't verify the token's signature with the keys of your identity provider."
        raise AwsError("InvalidIdentityToken", text)
    if token.expired() or token.premature():
        moment = datetime.fromtimestamp(token.claims["exp"], UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        raise AwsError("ExpiredTokenException", f"Token expired: current date/time must be before {moment}")
    audiences = [audience for audience in token.audiences if audience in provider.client_id_list]
    if not audiences:
        raise AwsError("InvalidIdentityToken", "Incorrect token audience")
    role = role_sessions.role_of(context, parameters["RoleArn"])
    issuer = provider.url
    condition_context = request_keys(
        **{
            f"{issuer}:aud": audiences,
            f"{issuer}:sub": token.subject,
            "aws:FederatedProvider": provider.arn,
            "sts:RoleSessionName": parameters["RoleSessionName"],
        }
    )
    federated = evaluation.Principal("Federated", frozenset({provider.arn}))
    # A role that is not there and one that does not want the caller look the same from outside
    if role is None or not evaluation.trusts(role_sessions.document(role), federated, ACTION, condition_context):
        raise AwsError("AccessDenied", f"Not authorized to perform {ACTION}", 403)
    seconds = parameters.get("DurationSeconds", USUAL_SECONDS)
    if seconds > int(role.max_session_duration or LONGEST_SECONDS):
        text = "The requested DurationSeconds exceeds the MaxSessionDuration set for this role."
        raise AwsError("ValidationError", text, 400)
    session = role_sessions.open_session(context, role, parameters["RoleSessionName"], seconds)
    return {
        **role_sessions.session_response(session),
        "SubjectFromWebIdentityToken": token.subject,
        "Provider": provider.arn,
        "Audience": audiences[0],
    }


def _token(text: str) -> Token:
    try:
        return Token.read(text)
    except InvalidToken as error:
        raise AwsError("InvalidIdentityToken", f"The ID Token provided is not a valid JWT: {error}") from None


def _provider(context: RequestContext, role: str, token: Token) -> Any:
    """Return the account's OIDC provider of the token's issuer."""
    account = role.split(":")[4] if role.count(":") > 4 else context.account
    providers = context.moto.backend("iam", account, "aws").open_id_providers.values()
    provider = next((row for row in providers if f"https://{row.url}" == token.issuer), None)
    if provider is None:
        text = f"No OpenIDConnect provider found in your account for {token.issuer}"
        raise AwsError("InvalidIdentityToken", text)
    return provider


ROWS = (OperationHandler("sts", "AssumeRoleWithWebIdentity", assume_role_with_web_identity),)
