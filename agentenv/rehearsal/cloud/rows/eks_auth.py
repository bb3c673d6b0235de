"""EKS Auth: the requests of the Pod Identity agent for the pods of its node. Moto does not have the service."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from agentenv.core.iam import evaluation
from agentenv.core.iam.evaluation import request_keys
from agentenv.rehearsal.cloud.iam import role_sessions, token_issuers
from agentenv.rehearsal.cloud.iam.service_account_tokens import InvalidToken, Token
from agentenv.rehearsal.cloud.request_context import OperationHandler
from agentenv.rehearsal.cloud.responses import AwsError
from agentenv.rehearsal.cloud.rows.eks_common import arn, cluster_of, cluster_records
from agentenv.rehearsal.cloud.rows.eks_pod_identity import ASSOCIATIONS

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import RequestContext
    from agentenv.rehearsal.cloud.store import Record

AUDIENCE = SERVICE = "pods.eks.amazonaws.com"
SECONDS = 6 * 3600
ACTIONS = ("sts:AssumeRole", "sts:TagSession")


def assume(context: RequestContext) -> dict[str, Any]:
    """Return credentials of the role that the cluster associates with the token's service account."""
    cluster = cluster_of(context)
    token = _token(context, cluster)
    bound = token.bound
    space, account = str(bound["namespace"]), str(bound["serviceaccount"]["name"])
    association = next(
        (
            row
            for row in cluster_records(context, ASSOCIATIONS, cluster.name).values()
            if (row["namespace"], row["serviceAccount"]) == (space, account)
        ),
        None,
    )
    if association is None:
        text = f"No EKS Pod Identity association found for the service account {space}/{account}"
        raise AwsError("ResourceNotFoundException", text)
    pod = bound.get("pod") or {}
    tags = {
        "eks-cluster-arn": cluster.arn,
        "eks-cluster-name": cluster.name,
        "kubernetes-namespace": space,
        "kubernetes-service-account": account,
        "kubernetes-pod-name": str(pod.get("name", "")),
        "kubernetes-pod-uid": str(pod.get("uid", "")),
    }
    session_tags = (
        {} if association.get("disableSessionTags") else {name: value for name, value in tags.items() if value}
    )
    name = role_sessions.session_name("eks", cluster.name[:20], (tags["kubernetes-pod-name"] or account)[:18])
    session = _open_session(context, association, session_tags, f"{name[:42]}-{uuid.uuid4().hex[:21]}")
    return {
        "subject": {"namespace": space, "serviceAccount": account},
        "audience": AUDIENCE,
        "podIdentityAssociation": {
            "associationArn": association["associationArn"],
            "associationId": association["associationId"],
        },
        "assumedRoleUser": {"arn": session.arn, "assumeRoleId": session.user_id},
        "credentials": {
            "accessKeyId": session.access_key_id,
            "secretAccessKey": session.secret_access_key,
            "sessionToken": session.session_token,
            "expiration": session.expiration,
        },
    }


def _token(context: RequestContext, cluster: Any) -> Token:
    try:
        token = Token.read(context.parameters["token"])
    except InvalidToken as error:
        raise AwsError("InvalidTokenException", f"The token included in the request is not a JWT: {error}") from None
    issuer = (cluster.identity or {}).get("oidc", {}).get("issuer")
    keys = token_issuers.issuer_keys(context.store, token.issuer)
    if token.issuer != issuer or keys is None or not token.signed_by(keys):
        text = f"The token included in the request was not signed by the cluster {cluster.name}"
        raise AwsError("InvalidTokenException", text)
    if AUDIENCE not in token.audiences:
        text = f"The token included in the request is for {', '.join(token.audiences)}, not for {AUDIENCE}"
        raise AwsError("InvalidTokenException", text)
    if token.expired() or token.premature():
        raise AwsError("ExpiredTokenException", "The token included in the request is expired")
    account = token.bound.get("serviceaccount")
    if not token.bound.get("namespace") or not isinstance(account, dict) or not account.get("name"):
        raise AwsError("InvalidTokenException", "The token included in the request is not a service account's")
    return token


def _open_session(context: RequestContext, association: Record, tags: dict[str, str], name: str) -> Any:
    """Open a session of the association's role, or of its target role."""
    source = arn(context, f"cluster/{association['clusterName']}")
    keys = {
        "aws:SourceAccount": context.account,
        "aws:SourceArn": source,
        **{f"aws:RequestTag/{key}": value for key, value in tags.items()},
        "aws:TagKeys": sorted(tags),
        "sts:RoleSessionName": name,
    }
    eks = evaluation.Principal("Service", frozenset({SERVICE}))
    role = _assumable_role(context, association["roleArn"], eks, keys, tags)
    if not (target_role := association.get("targetRoleArn")):
        return role_sessions.open_session(context, role, name, SECONDS, tags)
    session = f"arn:aws:sts::{role.account_id}:assumed-role/{role.name}/{name}"
    names = {role.arn, session, role.account_id, f"arn:aws:iam::{role.account_id}:root"}
    target_keys = {**keys, "sts:ExternalId": association["externalId"], "aws:PrincipalArn": role.arn}
    del target_keys["aws:SourceAccount"], target_keys["aws:SourceArn"]  # of the service alone
    target = _assumable_role(context, target_role, evaluation.Principal("AWS", frozenset(names)), target_keys, tags)
    return role_sessions.open_session(context, target, name, min(SECONDS, 3600), tags)


def _assumable_role(
    context: RequestContext,
    role_arn: str,
    principal: evaluation.Principal,
    keys: dict[str, Any],
    tags: dict[str, str],
) -> Any:
    role = role_sessions.role_of(context, role_arn)
    actions = ACTIONS if tags else ACTIONS[:1]
    condition_keys = request_keys(**keys)
    if role is None or not all(
        evaluation.trusts(role_sessions.document(role), principal, action, condition_keys) for action in actions
    ):
        text = "Unauthorized Exception! EKS does not have permissions to assume the associated role."
        raise AwsError("AccessDeniedException", f"{text} It needs {' and '.join(actions)} on {role_arn}.")
    return role


ROWS = (OperationHandler("eks-auth", "AssumeRoleForPodIdentity", assume),)
