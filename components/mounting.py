"""How file systems are reached: a group of mount targets that answers the nodes only, and a target a zone."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_aws import ec2, efs
from pulumi_aws import vpc as rules

from components.children import Child
from components.ownership import Labels

NFS = 2049


@dataclass(frozen=True)
class Mounts:
    """Where one file system is mounted."""

    shard: int
    file_system_id: pulumi.Input[str]
    subnets: Sequence[pulumi.Input[str]]
    group: pulumi.Input[str]


def mount_group(labels: Labels, child: Child, vpc: pulumi.Input[str]) -> ec2.SecurityGroup:
    """The mount targets' group: nothing in until somebody is let in, nothing out, for a server only answers."""
    return ec2.SecurityGroup(
        f"{labels.base}-mount",
        name=labels.name("security-group", "mount"),
        description="Mount targets of the file systems",
        vpc_id=vpc,
        tags=labels.tags("mount"),
        opts=child(),
    )


def let_nodes_in(labels: Labels, child: Child, group: pulumi.Input[str], nodes: pulumi.Input[str]) -> None:
    """NFS from the nodes, in at one end and out at the other."""
    rules.SecurityGroupIngressRule(
        f"{labels.base}-from-nodes",
        security_group_id=group,
        referenced_security_group_id=nodes,
        ip_protocol="tcp",
        from_port=NFS,
        to_port=NFS,
        description="NFS for nodes",
        tags=labels.tags("from-nodes"),
        opts=child(),
    )
    rules.SecurityGroupEgressRule(
        f"{labels.base}-nodes-out",
        security_group_id=nodes,
        referenced_security_group_id=group,
        ip_protocol="tcp",
        from_port=NFS,
        to_port=NFS,
        description="NFS to the file systems",
        tags=labels.tags("nodes-out"),
        opts=child(),
    )


def mount_targets(mounts: Mounts, labels: Labels, child: Child) -> None:
    """A target a zone."""
    for zone, subnet in enumerate(mounts.subnets):
        efs.MountTarget(
            f"{labels.base}-{mounts.shard}-{zone}",
            file_system_id=mounts.file_system_id,
            subnet_id=subnet,
            security_groups=[mounts.group],
            opts=child(),
        )
