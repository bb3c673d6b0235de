"""The mount targets of file systems, one per zone, and their security group."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_aws import ec2, efs

from agentenv.components._lib.options import ChildOptions
from agentenv.components._lib.security_group_rules import GroupRules, Traffic
from agentenv.components._lib.tags import Labels

NFS = 2049


@dataclass(frozen=True)
class FileSystemMount:
    """The mount targets of one file system."""

    shard: int
    file_system_id: pulumi.Input[str]
    subnets: Sequence[pulumi.Input[str]]
    group: pulumi.Input[str]


def create_mount_security_group(labels: Labels, child: ChildOptions, vpc: pulumi.Input[str]) -> ec2.SecurityGroup:
    """Create the security group of mount targets, without rules; other functions add ingress for clients."""
    return ec2.SecurityGroup(
        f"{labels.base}-mount",
        name=labels.name("security-group", "mount"),
        description="Mount targets of the file systems",
        vpc_id=vpc,
        tags=labels.tags("mount"),
        opts=child(),
    )


def allow_nfs_from_nodes(
    labels: Labels, child: ChildOptions, group: pulumi.Input[str], nodes: pulumi.Input[str]
) -> None:
    """Allow NFS from the nodes: ingress at the mount targets, egress at the nodes."""
    rules = GroupRules(labels, child)
    rules.ingress("from-nodes", group, nodes, Traffic("NFS for nodes", ports=(NFS, NFS)))
    rules.egress("nodes-out", nodes, group, Traffic("NFS to the file systems", ports=(NFS, NFS)))


def create_mount_targets(mount: FileSystemMount, labels: Labels, child: ChildOptions) -> None:
    """Create a mount target in each zone."""
    for zone, subnet in enumerate(mount.subnets):
        efs.MountTarget(
            f"{labels.base}-{mount.shard}-{zone}",
            file_system_id=mount.file_system_id,
            subnet_id=subnet,
            security_groups=[mount.group],
            opts=child(),
        )
