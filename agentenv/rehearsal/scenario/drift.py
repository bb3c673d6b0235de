"""Changes made behind the engine's back, to see that a refresh notices them and an update mends them.

Each row is a thing that people really do by hand in a console. It works on the state's own record of a resource and
speaks to the endpoint by boto3, and to the API server (the client called `kubernetes`) by itself, so it is the same
whichever plugin made the resource.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

Resource = dict[str, Any]
Clients = Callable[[str], Any]


@dataclass(frozen=True)
class Tampering:
    """One change by hand: on what type, what it does, and how it shows."""

    type: str
    done: str
    change: Callable[[Clients, Resource], object]
    undone: Callable[[Clients, Resource], bool]
    fits: Callable[[Resource], bool] = lambda _: True  # which resources of the type it may be done to


def _tag_vpc(clients: Clients, vpc: Resource) -> object:
    return clients("ec2").create_tags(Resources=[vpc["id"]], Tags=[{"Key": "owner", "Value": "somebody-else"}])


def _vpc_owned(clients: Clients, vpc: Resource) -> bool:
    found = clients("ec2").describe_vpcs(VpcIds=[vpc["id"]])["Vpcs"][0]
    return {"Key": "owner", "Value": "somebody-else"} not in found.get("Tags", [])


def _change_retention(clients: Clients, group: Resource) -> object:
    other = 3 if group["inputs"].get("retentionInDays") == 1 else 1
    return clients("logs").put_retention_policy(logGroupName=group["id"], retentionInDays=other)


def _retention_right(clients: Clients, group: Resource) -> bool:
    found = clients("logs").describe_log_groups(logGroupNamePrefix=group["id"])["logGroups"]
    wanted = group["inputs"].get("retentionInDays")
    return any(row["logGroupName"] == group["id"] and row.get("retentionInDays") == wanted for row in found)


def _revoke_rule(clients: Clients, rule: Resource) -> object:
    return clients("ec2").revoke_security_group_ingress(
        GroupId=rule["outputs"]["securityGroupId"], SecurityGroupRuleIds=[rule["id"]]
    )


def _rule_stands(clients: Clients, rule: Resource) -> bool:
    wanted = rule["inputs"]
    found = clients("ec2").describe_security_group_rules(
        Filters=[{"Name": "group-id", "Values": [rule["outputs"]["securityGroupId"]]}]
    )["SecurityGroupRules"]
    return any(not row["IsEgress"] and row["FromPort"] == wanted.get("fromPort") for row in found)


def _open_file_system(clients: Clients, policy: Resource) -> object:
    statement = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "elasticfilesystem:ClientRootAccess"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    return clients("efs").put_file_system_policy(FileSystemId=policy["id"], Policy=document)


def _file_system_closed(clients: Clients, policy: Resource) -> bool:
    found = clients("efs").describe_file_system_policy(FileSystemId=policy["id"])["Policy"]
    statements = json.loads(found)["Statement"]
    return not any(row["Effect"] == "Allow" and "ClientRootAccess" in str(row["Action"]) for row in statements)


def _named_budget(budget: Resource) -> dict[str, str]:
    return {"AccountId": budget["outputs"]["accountId"], "BudgetName": budget["outputs"]["name"]}


def _notices(clients: Clients, budget: Resource) -> list[dict[str, Any]]:
    return clients("budgets").describe_notifications_for_budget(**_named_budget(budget))["Notifications"]


def _silence_budget(clients: Clients, budget: Resource) -> None:
    note = _notices(clients, budget)[0]
    notification = {key: value for key, value in note.items() if key != "NotificationState"}
    clients("budgets").delete_notification(**_named_budget(budget), Notification=notification)


def _of_several(budget: Resource) -> bool:
    # The official plugin takes a budget that has lost its last notification for one that has them all.
    return len(budget["inputs"].get("notifications") or []) > 1


def _budget_tells(clients: Clients, budget: Resource) -> bool:
    return len(_notices(clients, budget)) == len(budget["inputs"]["notifications"])


def _disable_rule(clients: Clients, rule: Resource) -> object:
    return clients("events").disable_rule(Name=rule["outputs"]["name"])


def _rule_enabled(clients: Clients, rule: Resource) -> bool:
    return clients("events").describe_rule(Name=rule["outputs"]["name"])["State"] == "ENABLED"


def _of_nodes(entry: Resource) -> bool:
    # Without a person's entry it might be the rehearsal itself that is locked out
    return entry["inputs"].get("type") == "EC2_LINUX"


def _entry_of(entry: Resource) -> dict[str, str]:
    return {"clusterName": entry["outputs"]["clusterName"], "principalArn": entry["outputs"]["principalArn"]}


def _remove_entry(clients: Clients, entry: Resource) -> object:
    return clients("eks").delete_access_entry(**_entry_of(entry))


def _entry_stands(clients: Clients, entry: Resource) -> bool:
    named = _entry_of(entry)
    return (
        named["principalArn"] in clients("eks").list_access_entries(clusterName=named["clusterName"])["accessEntries"]
    )


def _raise_limit(clients: Clients, pool: Resource) -> object:
    api = clients("kubernetes")
    return api.merge(api.path(_object(pool)), {"spec": {"limits": {"cpu": "100000"}}})


def _limit_right(clients: Clients, pool: Resource) -> bool:
    api = clients("kubernetes")
    return api.get(api.path(_object(pool)))["spec"]["limits"]["cpu"] == pool["inputs"]["spec"]["limits"]["cpu"]


def _delete_object(clients: Clients, thing: Resource) -> object:
    api = clients("kubernetes")
    return api.delete(api.path(_object(thing)))


def _object_stands(clients: Clients, thing: Resource) -> bool:
    api = clients("kubernetes")
    return api.find(api.path(_object(thing))) is not None


def _object(resource: Resource) -> dict[str, Any]:
    told = resource["outputs"]
    return {name: told[name] for name in ("apiVersion", "kind", "metadata")}


ROWS = (
    Tampering("aws:ec2/vpc:Vpc", "the VPC's owner tag overwritten", _tag_vpc, _vpc_owned),
    Tampering(
        "aws:cloudwatch/logGroup:LogGroup", "a log group's retention changed", _change_retention, _retention_right
    ),
    Tampering(
        "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
        "an ingress rule revoked",
        _revoke_rule,
        _rule_stands,
    ),
    Tampering(
        "aws:efs/fileSystemPolicy:FileSystemPolicy",
        "a file system opened to root by everyone",
        _open_file_system,
        _file_system_closed,
    ),
    Tampering(
        "aws:eks/accessEntry:AccessEntry", "the nodes' access entry removed", _remove_entry, _entry_stands, _of_nodes
    ),
    Tampering("aws:cloudwatch/eventRule:EventRule", "a rule of interruptions disabled", _disable_rule, _rule_enabled),
    Tampering(
        "aws:budgets/budget:Budget",
        "a notification of a budget deleted",
        _silence_budget,
        _budget_tells,
        _of_several,
    ),
    Tampering("kubernetes:karpenter.sh/v1:NodePool", "a node pool's limit raised", _raise_limit, _limit_right),
    Tampering(
        "kubernetes:networking.k8s.io/v1:NetworkPolicy", "a network policy deleted", _delete_object, _object_stands
    ),
)


@dataclass(frozen=True)
class Tampered:
    """A row that was applied to one resource of the state."""

    row: Tampering
    resource: Resource

    @property
    def urn(self) -> str:
        return self.resource["urn"]


def tamper(clients: Clients, state: Iterable[Resource]) -> list[Tampered]:
    """Apply every row to the first resource of its type that it fits."""
    there = list(state)
    found = [(row, [one for one in there if one["type"] == row.type and row.fits(one)]) for row in ROWS]
    done = [Tampered(row, fitting[0]) for row, fitting in found if fitting]
    for tampered in done:
        tampered.row.change(clients, tampered.resource)
    return done


def mended(clients: Clients, done: Iterable[Tampered]) -> list[Tampered]:
    """Those of the changes that no longer stand."""
    return [tampered for tampered in done if tampered.row.undone(clients, tampered.resource)]
