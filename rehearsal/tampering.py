"""Changes made behind the engine's back, to see that a refresh notices them and an update mends them.

Each row is a thing that people really do by hand in a console. It works on the state's own record of a resource and
speaks to the endpoint by boto3, so it is the same whichever plugin made the resource.
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
    """Apply every row to the first resource of its type."""
    first: dict[str, Resource] = {}
    for resource in state:
        first.setdefault(resource["type"], resource)
    done = [Tampered(row, first[row.type]) for row in ROWS if row.type in first]
    for tampered in done:
        tampered.row.change(clients, tampered.resource)
    return done


def mended(clients: Clients, done: Iterable[Tampered]) -> list[Tampered]:
    """Those of the changes that no longer stand."""
    return [tampered for tampered in done if tampered.row.undone(clients, tampered.resource)]
