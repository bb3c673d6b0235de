"""Check that the caller of `pulumi up` has access to the cluster, where half of the environment is created."""

from __future__ import annotations

from agentenv.cli.preflight.aws_calls import Account, AwsCallError
from agentenv.cli.preflight.check import Answer, Question
from agentenv.cli.preflight.permissions import caller_arn
from agentenv.config import Settings

ADMINISTRATOR = "AmazonEKSClusterAdminPolicy"


def questions(settings: Settings) -> list[Question]:
    """Return one question: about the settings of a new cluster, or about the access entries of an existing one."""
    if settings.cluster.existing is None:
        return [
            Question(
                "the caller may deploy", "deployer or admin", lambda account: _access_by_settings(account, settings)
            )
        ]
    return [Question("the caller may deploy", "an access entry", lambda account: _access_by_entries(account, settings))]


def _access_by_settings(account: Account, settings: Settings) -> Answer:
    allowed = (*settings.cluster.deployers, *settings.cluster.admins)
    caller = caller_arn(account)
    if not allowed:
        return Answer("its creator", ok=True, why="")
    if caller in allowed:
        return Answer(caller, ok=True, why="")
    why = f"{caller} could create the cluster, but nothing in it; add it to cluster.deployers, or use one of those"
    return Answer(", ".join(allowed), ok=False, why=why)


def _access_by_entries(account: Account, settings: Settings) -> Answer:
    cluster, caller = settings.cluster_name, caller_arn(account)
    entry = {"clusterName": cluster, "principalArn": caller}
    try:
        account.call("eks", "describe_access_entry", **entry)
    except AwsCallError as error:
        if error.code != "ResourceNotFoundException":
            raise
        return _no_entry_answer(account, cluster, caller)
    policies = account.list_all("eks", "list_associated_access_policies", "associatedAccessPolicies", **entry)
    for policy in policies:
        if policy["policyArn"].endswith(f"/{ADMINISTRATOR}") and policy["accessScope"]["type"] == "cluster":
            return Answer(ADMINISTRATOR, ok=True, why="")
    why = f"its access entry has no {ADMINISTRATOR} for the whole cluster; permissions by groups are not checked here"
    return Answer("an entry", ok=None, why=why)


def _no_entry_answer(account: Account, cluster: str, caller: str) -> Answer:
    description = account.call("eks", "describe_cluster", name=cluster)["cluster"]
    mode = (description.get("accessConfig") or {}).get("authenticationMode", "CONFIG_MAP")
    if mode != "API":
        return Answer("none", ok=None, why=f"{caller} has no access entry; the aws-auth ConfigMap may still allow it")
    why = (
        f"aws eks create-access-entry --cluster-name {cluster} --principal-arn {caller}, and then aws eks"
        f" associate-access-policy with the same, --access-scope type=cluster and --policy-arn"
        f" arn:{caller.split(':')[1]}:eks::aws:cluster-access-policy/{ADMINISTRATOR}"
    )
    return Answer("none", ok=False, why=why)
