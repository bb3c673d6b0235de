"""EKS Auth: what the Pod Identity agent asks for the pods of its node. Moto does not have the service."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.iam import policy_evaluation as verdicts
from agentenv.rehearsal.cloud.iam import role_sessions as sessions
from agentenv.rehearsal.cloud.iam import token_issuers as issuers
from agentenv.rehearsal.cloud.iam.policy_conditions import context_of
from agentenv.rehearsal.cloud.iam.service_account_tokens import NotAToken, Token
from agentenv.rehearsal.cloud.request_context import Row
from agentenv.rehearsal.cloud.responses import Refused
from agentenv.rehearsal.cloud.rows.eks_common import arn, belonging_to, cluster_of
from agentenv.rehearsal.cloud.rows.eks_pod_identity import ASSOCIATIONS

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import Desk
    from agentenv.rehearsal.cloud.store import Record

AUDIENCE = SERVICE = "pods.eks.amazonaws.com"
SECONDS = 6 * 3600
ACTIONS = ("sts:AssumeRole", "sts:TagSession")


def assume(desk: Desk) -> dict[str, Any]:
    """The role that the cluster's association gives to the token's service account."""
    cluster = cluster_of(desk)
    token = _token(desk, cluster)
    bound = token.bound
    space, account = str(bound["namespace"]), str(bound["serviceaccount"]["name"])
    found = next(
        (
            one
            for one in belonging_to(desk, ASSOCIATIONS, cluster.name).values()
            if (one["namespace"], one["serviceAccount"]) == (space, account)
        ),
        None,
    )
    if found is None:
        text = f"No EKS Pod Identity association found for the service account {space}/{account}"
        raise Refused("ResourceNotFoundException", text)
    pod = bound.get("pod") or {}
    tags = {
        "eks-cluster-arn": cluster.arn,
        "eks-cluster-name": cluster.name,
        "kubernetes-namespace": space,
        "kubernetes-service-account": account,
        "kubernetes-pod-name": str(pod.get("name", "")),
        "kubernetes-pod-uid": str(pod.get("uid", "")),
    }
    given = {} if found.get("disableSessionTags") else {name: value for name, value in tags.items() if value}
    name = sessions.session_name("eks", cluster.name[:20], (tags["kubernetes-pod-name"] or account)[:18])
    made = _taken(desk, found, given, f"{name[:42]}-{uuid.uuid4().hex[:21]}")
    return {
        "subject": {"namespace": space, "serviceAccount": account},
        "audience": AUDIENCE,
        "podIdentityAssociation": {
            "associationArn": found["associationArn"],
            "associationId": found["associationId"],
        },
        "assumedRoleUser": {"arn": made.arn, "assumeRoleId": made.user_id},
        "credentials": {
            "accessKeyId": made.access_key_id,
            "secretAccessKey": made.secret_access_key,
            "sessionToken": made.session_token,
            "expiration": made.expiration,
        },
    }


def _token(desk: Desk, cluster: Any) -> Token:
    try:
        token = Token.read(desk.asked["token"])
    except NotAToken as error:
        raise Refused("InvalidTokenException", f"The token included in the request is not a JWT: {error}") from None
    issuer = (cluster.identity or {}).get("oidc", {}).get("issuer")
    keys = issuers.keys_of(desk.shelves, token.issuer)
    if token.issuer != issuer or keys is None or not token.signed_by(keys):
        text = f"The token included in the request was not signed by the cluster {cluster.name}"
        raise Refused("InvalidTokenException", text)
    if AUDIENCE not in token.audiences:
        text = f"The token included in the request is for {', '.join(token.audiences)}, not for {AUDIENCE}"
        raise Refused("InvalidTokenException", text)
    if token.expired() or token.premature():
        raise Refused("ExpiredTokenException", "The token included in the request is expired")
    account = token.bound.get("serviceaccount")
    if not token.bound.get("namespace") or not isinstance(account, dict) or not account.get("name"):
        raise Refused("InvalidTokenException", "The token included in the request is not a service account's")
    return token


def _taken(desk: Desk, association: Record, tags: dict[str, str], name: str) -> Any:
    """A session of the association's role, or of the role beyond it that the association leads to."""
    source = arn(desk, f"cluster/{association['clusterName']}")
    about = {
        "aws:SourceAccount": desk.account,
        "aws:SourceArn": source,
        **{f"aws:RequestTag/{key}": value for key, value in tags.items()},
        "aws:TagKeys": sorted(tags),
        "sts:RoleSessionName": name,
    }
    eks = verdicts.Principal("Service", frozenset({SERVICE}))
    role = _admitted(desk, association["roleArn"], eks, about, tags)
    if not (beyond := association.get("targetRoleArn")):
        return sessions.open_session(desk, role, name, SECONDS, tags)
    session = f"arn:aws:sts::{role.account_id}:assumed-role/{role.name}/{name}"
    names = {role.arn, session, role.account_id, f"arn:aws:iam::{role.account_id}:root"}
    further = {**about, "sts:ExternalId": association["externalId"], "aws:PrincipalArn": role.arn}
    del further["aws:SourceAccount"], further["aws:SourceArn"]  # of the service alone
    target = _admitted(desk, beyond, verdicts.Principal("AWS", frozenset(names)), further, tags)
    return sessions.open_session(desk, target, name, min(SECONDS, 3600), tags)


def _admitted(desk: Desk, wanted: str, who: verdicts.Principal, about: dict[str, Any], tags: dict[str, str]) -> Any:
    role = sessions.role_of(desk, wanted)
    actions = ACTIONS if tags else ACTIONS[:1]
    context = context_of(**about)
    if role is None or not all(verdicts.trusts(sessions.document(role), who, one, context) for one in actions):
        text = "Unauthorized Exception! EKS does not have permissions to assume the associated role."
        raise Refused("AccessDeniedException", f"{text} It needs {' and '.join(actions)} on {wanted}.")
    return role


ROWS = (Row("eks-auth", "AssumeRoleForPodIdentity", assume),)
