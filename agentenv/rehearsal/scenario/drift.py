"""Changes made outside the engine, to check that a refresh notices them and an update mends them.

Each row is a change that people make by hand in a console. A row reads a resource from the state and changes it
through boto3, or through the API server (the client called `kubernetes`). So it works with every plugin that may have
created the resource.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from agentenv.core.iam.documents import policy_document

Resource = dict[str, Any]
Clients = Callable[[str], Any]


@dataclass(frozen=True)
class Change:
    """One change: the resource type, its description, how to apply it, and how to see that it was reverted."""

    type: str
    description: str
    apply: Callable[[Clients, Resource], object]
    is_reverted: Callable[[Clients, Resource], bool]
    applies_to: Callable[[Resource], bool] = lambda _: True  # the resources of the type that it may be applied to


def _tag_vpc(clients: Clients, vpc: Resource) -> object:
    return clients("ec2").create_tags(Resources=[vpc["id"]], Tags=[{"Key": "owner", "Value": "somebody-else"}])


def _tag_restored(clients: Clients, vpc: Resource) -> bool:
    vpc = clients("ec2").describe_vpcs(VpcIds=[vpc["id"]])["Vpcs"][0]
    return {"Key": "owner", "Value": "somebody-else"} not in vpc.get("Tags", [])


def _change_retention(clients: Clients, group: Resource) -> object:
    other = 3 if group["inputs"].get("retentionInDays") == 1 else 1
    return clients("logs").put_retention_policy(logGroupName=group["id"], retentionInDays=other)


def _retention_restored(clients: Clients, group: Resource) -> bool:
    groups = clients("logs").describe_log_groups(logGroupNamePrefix=group["id"])["logGroups"]
    expected = group["inputs"].get("retentionInDays")
    return any(row["logGroupName"] == group["id"] and row.get("retentionInDays") == expected for row in groups)


def _revoke_rule(clients: Clients, rule: Resource) -> object:
    return clients("ec2").revoke_security_group_ingress(
        GroupId=rule["outputs"]["securityGroupId"], SecurityGroupRuleIds=[rule["id"]]
    )


def _rule_exists(clients: Clients, rule: Resource) -> bool:
    expected = rule["inputs"]
    rules = clients("ec2").describe_security_group_rules(
        Filters=[{"Name": "group-id", "Values": [rule["outputs"]["securityGroupId"]]}]
    )["SecurityGroupRules"]
    return any(not row["IsEgress"] and row["FromPort"] == expected.get("fromPort") for row in rules)


def _allow_root_access(clients: Clients, policy: Resource) -> object:
    statement = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "elasticfilesystem:ClientRootAccess"}
    document = json.dumps(policy_document(statement))
    return clients("efs").put_file_system_policy(FileSystemId=policy["id"], Policy=document)


def _root_access_denied(clients: Clients, policy: Resource) -> bool:
    document = clients("efs").describe_file_system_policy(FileSystemId=policy["id"])["Policy"]
    statements = json.loads(document)["Statement"]
    return not any(row["Effect"] == "Allow" and "ClientRootAccess" in str(row["Action"]) for row in statements)


def _budget_key(budget: Resource) -> dict[str, str]:
    return {"AccountId": budget["outputs"]["accountId"], "BudgetName": budget["outputs"]["name"]}


def _notifications(clients: Clients, budget: Resource) -> list[dict[str, Any]]:
    return clients("budgets").describe_notifications_for_budget(**_budget_key(budget))["Notifications"]


def _delete_notification(clients: Clients, budget: Resource) -> None:
    first = _notifications(clients, budget)[0]
    notification = {key: value for key, value in first.items() if key != "NotificationState"}
    clients("budgets").delete_notification(**_budget_key(budget), Notification=notification)


def _has_several_notifications(budget: Resource) -> bool:
    # The official plugin does not notice that a budget has lost its last notification.
    return len(budget["inputs"].get("notifications") or []) > 1


def _notifications_restored(clients: Clients, budget: Resource) -> bool:
    return len(_notifications(clients, budget)) == len(budget["inputs"]["notifications"])


def _disable_rule(clients: Clients, rule: Resource) -> object:
    return clients("events").disable_rule(Name=rule["outputs"]["name"])


def _rule_enabled(clients: Clients, rule: Resource) -> bool:
    return clients("events").describe_rule(Name=rule["outputs"]["name"])["State"] == "ENABLED"


def _is_node_entry(entry: Resource) -> bool:
    # Deleting a person's entry could lock out the rehearsal itself
    return entry["inputs"].get("type") == "EC2_LINUX"


def _entry_key(entry: Resource) -> dict[str, str]:
    return {"clusterName": entry["outputs"]["clusterName"], "principalArn": entry["outputs"]["principalArn"]}


def _delete_entry(clients: Clients, entry: Resource) -> object:
    return clients("eks").delete_access_entry(**_entry_key(entry))


def _entry_exists(clients: Clients, entry: Resource) -> bool:
    key = _entry_key(entry)
    return key["principalArn"] in clients("eks").list_access_entries(clusterName=key["clusterName"])["accessEntries"]


def _raise_limit(clients: Clients, pool: Resource) -> object:
    api = clients("kubernetes")
    return api.merge(api.path(_object(pool)), {"spec": {"limits": {"cpu": "100000"}}})


def _limit_restored(clients: Clients, pool: Resource) -> bool:
    api = clients("kubernetes")
    return api.get(api.path(_object(pool)))["spec"]["limits"]["cpu"] == pool["inputs"]["spec"]["limits"]["cpu"]


def _delete_object(clients: Clients, resource: Resource) -> object:
    api = clients("kubernetes")
    return api.delete(api.path(_object(resource)))


def _object_exists(clients: Clients, resource: Resource) -> bool:
    api = clients("kubernetes")
    return api.find(api.path(_object(resource))) is not None


def _object(resource: Resource) -> dict[str, Any]:
    outputs = resource["outputs"]
    return {name: outputs[name] for name in ("apiVersion", "kind", "metadata")}


ROWS = (
    Change("aws:ec2/vpc:Vpc", "the VPC's owner tag overwritten", _tag_vpc, _tag_restored),
    Change(
        "aws:cloudwatch/logGroup:LogGroup", "a log group's retention changed", _change_retention, _retention_restored
    ),
    Change(
        "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
        "an ingress rule revoked",
        _revoke_rule,
        _rule_exists,
    ),
    Change(
        "aws:efs/fileSystemPolicy:FileSystemPolicy",
        "a file system opened to root by everyone",
        _allow_root_access,
        _root_access_denied,
    ),
    Change(
        "aws:eks/accessEntry:AccessEntry",
        "the nodes' access entry removed",
        _delete_entry,
        _entry_exists,
        _is_node_entry,
    ),
    Change("aws:cloudwatch/eventRule:EventRule", "a rule of interruptions disabled", _disable_rule, _rule_enabled),
    Change(
        "aws:budgets/budget:Budget",
        "a notification of a budget deleted",
        _delete_notification,
        _notifications_restored,
        _has_several_notifications,
    ),
    Change("kubernetes:karpenter.sh/v1:NodePool", "a node pool's limit raised", _raise_limit, _limit_restored),
    Change("kubernetes:networking.k8s.io/v1:NetworkPolicy", "a network policy deleted", _delete_object, _object_exists),
)


@dataclass(frozen=True)
class AppliedChange:
    """A change that was applied to one resource of the state."""

    row: Change
    resource: Resource

    @property
    def urn(self) -> str:
        return self.resource["urn"]


def apply_changes(clients: Clients, state: Iterable[Resource]) -> list[AppliedChange]:
    """Apply every row to the first resource of its type that it fits."""
    resources = list(state)
    matches = [
        (row, [resource for resource in resources if resource["type"] == row.type and row.applies_to(resource)])
        for row in ROWS
    ]
    applied = [AppliedChange(row, matching[0]) for row, matching in matches if matching]
    for apply in applied:
        apply.row.apply(clients, apply.resource)
    return applied


def reverted(clients: Clients, applied: Iterable[AppliedChange]) -> list[AppliedChange]:
    """Return the changes that have been reverted."""
    return [apply for apply in applied if apply.row.is_reverted(clients, apply.resource)]
