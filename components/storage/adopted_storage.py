"""File systems that stand already: homes live on them, and they stay when the environment goes.

They get the environment's policy, which lets in its clients alone and stays with them for good: without one a file
system is open to the whole VPC. Throughput, lifecycle, backups and keys are their owner's.
"""

from typing import Any, NotRequired, TypedDict

import pulumi
from pulumi_aws import efs

from agentenv.components._lib.arguments import ArgumentError, ArgumentReader
from agentenv.components._lib.aws_context import aws_context
from agentenv.components._lib.existing import ExistingFileSystems, file_system_arguments, read_file_systems
from agentenv.components._lib.options import ChildOptions, child_options, component_outputs
from agentenv.components._lib.tags import Labels, Ownership
from agentenv.components.storage.mount_targets import (
    Mounts,
    allow_nfs_from_classes,
    allow_nfs_from_nodes,
    create_mount_security_group,
    create_mount_targets,
)
from agentenv.components.storage.storage import file_system_policy


class AdoptedStorageArgs(TypedDict):
    """What is used of file systems, and by whom."""

    ownership: Ownership
    """Whose the environment is."""

    existing: ExistingFileSystems
    """The file systems."""

    vpc_id: pulumi.Input[str]
    """The VPC they are reachable in."""

    subnet_ids: list[pulumi.Input[str]]
    """A private subnet a zone, in the order of the zones, for mount targets where there are none."""

    nodes_security_group_id: pulumi.Input[str]
    """The group of the nodes, which is let in."""

    class_group_ids: NotRequired[dict[str, pulumi.Input[str]]]
    """The first security group of each class on Fargate with seats, which mount for themselves; none unless told."""

    client_role_arns: NotRequired[pulumi.Input[list[pulumi.Input[str]]]]
    """The roles that may mount, by access points only; nobody may while there are none."""


class AdoptedStorage(pulumi.ComponentResource):
    """EFS file systems that stand already, with their policies, and mount targets where they have none."""

    file_system_ids: pulumi.Output[list[str]]
    """The file systems, by shard."""

    file_system_arns: pulumi.Output[list[str]]
    """Their ARNs, by shard."""

    dns_names: pulumi.Output[list[str]]
    """The names they are mounted under, by shard."""

    security_group_id: pulumi.Output[str]
    """The group of the mount targets."""

    key_arn: pulumi.Output[str]
    """The key that encrypts the first of them."""

    def __init__(self, name: str, args: AdoptedStorageArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Use them; nothing is added to a file system that is not right."""
        reader = ArgumentReader.of("storage", args, AdoptedStorageArgs)
        labels = Labels.of(reader, "storage", name)
        named = file_system_arguments(reader.part("existing", ExistingFileSystems))
        subnets = reader.inputs("subnet_ids")
        if not subnets:
            raise ArgumentError("storage.subnet_ids", "an empty list", "one subnet a zone")

        super().__init__("agent-environment:index:AdoptedStorage", name, {}, opts)
        found = read_file_systems(named, pulumi.InvokeOptions(parent=self))
        child: ChildOptions = child_options(self, opts)
        aws = aws_context(self)
        clients: pulumi.Output[Any] = pulumi.Output.from_input(args.get("client_role_arns") or [])
        mounted = named.get("mount_group_id")
        group = mounted or create_mount_security_group(labels, child, args["vpc_id"]).id
        allow_nfs_from_nodes(labels, child, group, args["nodes_security_group_id"])
        allow_nfs_from_classes(labels, child, group, args.get("class_group_ids") or {})
        for shard, id_ in enumerate(named["ids"]):
            efs.FileSystemPolicy(
                f"{name}-{shard}",
                file_system_id=id_,
                policy=pulumi.Output.all(aws, found.arns[shard], clients).apply(file_system_policy),
                opts=child(pulumi.ResourceOptions(retain_on_delete=True)),
            )
            if not mounted:
                create_mount_targets(Mounts(shard, id_, subnets, group), labels, child)

        known = pulumi.Output.from_input
        self.file_system_ids = known(list(named["ids"]))
        self.file_system_arns = known(list(found.arns))
        self.dns_names = known(list(found.dns_names))
        self.security_group_id = known(group)
        self.key_arn = known(found.key_arns[0])
        self.register_outputs(component_outputs(self))
