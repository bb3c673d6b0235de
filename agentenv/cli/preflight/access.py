"""Whether whoever runs `pulumi up` gets into the cluster, where half of the environment is made."""

from __future__ import annotations

from agentenv.cli.preflight.aws_calls import Account, Unanswered
from agentenv.cli.preflight.check import Answer, Question
from agentenv.cli.preflight.permissions import principal
from agentenv.config import Settings

ADMINISTRATOR = "AmazonEKSClusterAdminPolicy"


def questions(settings: Settings) -> list[Question]:
    """One: by what the stack file says of a cluster that is made, or by the entries of one that stands."""
    if settings.cluster.existing is None:
        return [Question("the caller may deploy", "deployer or admin", lambda account: _named(account, settings))]
    return [Question("the caller may deploy", "an access entry", lambda account: _entered(account, settings))]


def _named(account: Account, settings: Settings) -> Answer:
    may = (*settings.cluster.deployers, *settings.cluster.admins)
    caller = principal(account)
    if not may:
        return Answer("whoever makes it", ok=True, why="")
    if caller in may:
        return Answer(caller, ok=True, why="")
    why = f"{caller} could make the cluster and nothing in it; name it in cluster.deployers, or sign in as one of them"
    return Answer(", ".join(may), ok=False, why=why)


def _entered(account: Account, settings: Settings) -> Answer:
    cluster, caller = settings.cluster_name, principal(account)
    named = {"clusterName": cluster, "principalArn": caller}
    try:
        account.ask("eks", "describe_access_entry", **named)
    except Unanswered as silence:
        if silence.code != "ResourceNotFoundException":
            raise
        return _outside(account, cluster, caller)
    found = account.all("eks", "list_associated_access_policies", "associatedAccessPolicies", **named)
    for one in found:
        if one["policyArn"].endswith(f"/{ADMINISTRATOR}") and one["accessScope"]["type"] == "cluster":
            return Answer(ADMINISTRATOR, ok=True, why="")
    why = f"its entry has no {ADMINISTRATOR} for the whole cluster; what its groups may do is not asked here"
    return Answer("an entry", ok=None, why=why)


def _outside(account: Account, cluster: str, caller: str) -> Answer:
    found = account.ask("eks", "describe_cluster", name=cluster)["cluster"]
    mode = (found.get("accessConfig") or {}).get("authenticationMode", "CONFIG_MAP")
    if mode != "API":
        return Answer("none", ok=None, why=f"{caller} has no entry; the aws-auth ConfigMap may let it in all the same")
    why = (
        f"aws eks create-access-entry --cluster-name {cluster} --principal-arn {caller}, and then aws eks"
        f" associate-access-policy with the same, --access-scope type=cluster and --policy-arn"
        f" arn:{caller.split(':')[1]}:eks::aws:cluster-access-policy/{ADMINISTRATOR}"
    )
    return Answer("none", ok=False, why=why)
