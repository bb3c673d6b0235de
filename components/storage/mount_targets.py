"""How file systems are reached: a group of mount targets that answers the nodes only, and a target a zone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
from pulumi_aws import ec2, efs
from pulumi_aws import vpc as rules

from agentenv.components._lib.options import ChildOptions
from agentenv.components._lib.tags import Labels

NFS = 2049


@dataclass(frozen=True)
class Mounts:
    """Where one file system is mounted."""

    shard: int
    file_system_id: pulumi.Input[str]
    subnets: Sequence[pulumi.Input[str]]
    group: pulumi.Input[str]


def create_mount_security_group(labels: Labels, child: ChildOptions, vpc: pulumi.Input[str]) -> ec2.SecurityGroup:
    """The mount targets' group: nothing in until somebody is let in, nothing out, for a server only answers."""
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
    """NFS from the nodes, in at one end and out at the other."""
    _let_in("nodes", labels, child, group, nodes)


def allow_nfs_from_classes(
    labels: Labels, child: ChildOptions, group: pulumi.Input[str], classes: Mapping[str, pulumi.Input[str]]
) -> None:
    """NFS from the sandboxes of classes on Fargate, which mount for themselves: no node of ours does it for them."""
    for name, own in sorted(classes.items()):
        _let_in(f"class-{name}", labels, child, group, own)


def _let_in(
    word: str, labels: Labels, child: ChildOptions, group: pulumi.Input[str], client: pulumi.Input[str]
) -> None:
    rules.SecurityGroupIngressRule(
        f"{labels.base}-from-{word}",
        security_group_id=group,
        referenced_security_group_id=client,
        ip_protocol="tcp",
        from_port=NFS,
        to_port=NFS,
        description=f"NFS for {word}",
        tags=labels.tags(f"from-{word}"),
        opts=child(),
    )
    rules.SecurityGroupEgressRule(
        f"{labels.base}-{word}-out",
        security_group_id=client,
        referenced_security_group_id=group,
        ip_protocol="tcp",
        from_port=NFS,
        to_port=NFS,
        description="NFS to the file systems",
        tags=labels.tags(f"{word}-out"),
        opts=child(),
    )


def create_mount_targets(mounts: Mounts, labels: Labels, child: ChildOptions) -> None:
    """A target a zone."""
    for zone, subnet in enumerate(mounts.subnets):
        efs.MountTarget(
            f"{labels.base}-{mounts.shard}-{zone}",
            file_system_id=mounts.file_system_id,
            subnet_id=subnet,
            security_groups=[mounts.group],
            opts=child(),
        )
