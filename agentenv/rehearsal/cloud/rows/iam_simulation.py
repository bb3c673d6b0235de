"""IAM's policy simulation: what the policies and the permissions boundary of a role or user allow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentenv.core.iam import evaluation
from agentenv.core.iam.documents import read, statements
from agentenv.rehearsal.cloud.iam.authorization import boundary_texts, role_texts
from agentenv.rehearsal.cloud.request_context import OperationHandler
from agentenv.rehearsal.cloud.responses import AwsError
from agentenv.rehearsal.cloud.rows.eks_common import PRINCIPAL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agentenv.rehearsal.cloud.request_context import RequestContext

DECISIONS = {"Allow": "allowed", "Deny": "explicitDeny", None: "implicitDeny"}


def simulate(context: RequestContext) -> dict[str, Any]:
    """Return a decision for each pair of an action and a resource."""
    parameters = context.parameters
    principal = _principal(context, parameters["PolicySourceArn"])
    own, bounds = role_texts(principal), boundary_texts(context.moto, principal)
    keys = evaluation.request_keys(
        **{row["ContextKeyName"]: row["ContextKeyValues"] for row in parameters.get("ContextEntries") or []}
    )
    results = [
        _result(action, resource, own, bounds, keys)
        for action in parameters["ActionNames"]
        for resource in parameters.get("ResourceArns") or ["*"]
    ]
    return {"EvaluationResults": results, "IsTruncated": False}


def _result(
    action: str,
    resource: str,
    own: Sequence[str],
    bounds: Sequence[Sequence[str]],
    keys: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    decisions = [evaluation.effect(texts, action, resource, keys) for texts in (own, *bounds)]
    decision = "Deny" if "Deny" in decisions else "Allow" if set(decisions) == {"Allow"} else None
    missing = {
        condition.name
        for texts in (own, *bounds)
        for text in texts
        for statement in statements(read(text)[0])
        if statement.matches_action(action) and statement.matches_resource(resource)
        for condition in statement.conditions
        if condition.key not in keys
    }
    return {
        "EvalActionName": action,
        "EvalResourceName": resource,
        "EvalDecision": DECISIONS[decision],
        "MatchedStatements": [],
        "MissingContextValues": sorted(missing),
    }


def _principal(context: RequestContext, arn: str) -> Any:
    """Return the role or user; a session is neither, as in AWS."""
    match = PRINCIPAL.fullmatch(arn)
    if match is None or match["kind"] == "root":
        raise AwsError("InvalidInput", f"Invalid Entity Arn: {arn} does not clearly define entity type and name.", 400)
    backend = context.backend("iam")
    found = backend.roles.values() if match["kind"] == "role" else backend.users.values()
    for principal in found:
        if principal.arn == arn:
            return principal
    raise AwsError("NoSuchEntity", f"The {match['kind']} with name {match['name']} cannot be found.", 404)


ROWS = (OperationHandler("iam", "SimulatePrincipalPolicy", simulate),)
