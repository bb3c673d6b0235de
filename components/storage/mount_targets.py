"""The mount targets of file systems, one per zone, and their security group."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
from pulumi_aws import ec2, efs
from pulumi_aws import vpc as rules

from agentenv.components._lib.options import ChildOptions
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
    _allow_nfs("nodes", labels, child, group, nodes)


def allow_nfs_from_classes(
    labels: Labels, child: ChildOptions, group: pulumi.Input[str], classes: Mapping[str, pulumi.Input[str]]
) -> None:
    """Allow NFS from sandboxes of Fargate classes, which have no node that mounts for them."""
    for name, class_group in sorted(classes.items()):
        _allow_nfs(f"class-{name}", labels, child, group, class_group)


def _allow_nfs(
    client_name: str, labels: Labels, child: ChildOptions, group: pulumi.Input[str], client: pulumi.Input[str]
) -> None:
    rules.SecurityGroupIngressRule(
        f"{labels.base}-from-{client_name}",
        security_group_id=group,
        referenced_security_group_id=client,
        ip_protocol="tcp",
        from_port=NFS,
        to_port=NFS,
        description=f"NFS for {client_name}",
        tags=labels.tags(f"from-{client_name}"),
        opts=child(),
    )
    rules.SecurityGroupEgressRule(
        f"{labels.base}-{client_name}-out",
        security_group_id=client,
        referenced_security_group_id=group,
        ip_protocol="tcp",
        from_port=NFS,
        to_port=NFS,
        description="NFS to the file systems",
        tags=labels.tags(f"{client_name}-out"),
        opts=child(),
    )


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
