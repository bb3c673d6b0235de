"""Adopted storage: existing EFS file systems for homes, which are retained when the environment is destroyed.

They get the environment's file system policy, which admits only its clients. The policy is retained too: without one a
file system is open to the whole VPC. Throughput, lifecycle, backups and keys stay with their owner.
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
    FileSystemMount,
    allow_nfs_from_classes,
    allow_nfs_from_nodes,
    create_mount_security_group,
    create_mount_targets,
)
from agentenv.components.storage.storage import file_system_policy_json


class AdoptedStorageArgs(TypedDict):
    """The arguments of adopted storage."""

    ownership: Ownership
    """The owner of the environment, for tags and names."""

    existing: ExistingFileSystems
    """The file systems."""

    vpc_id: pulumi.Input[str]
    """The VPC of their mount targets."""

    subnet_ids: list[pulumi.Input[str]]
    """The private subnets, one per zone in order, for mount targets where there are none."""

    nodes_security_group_id: pulumi.Input[str]
    """The security group of the nodes, which may connect."""

    class_group_ids: NotRequired[dict[str, pulumi.Input[str]]]
    """The first security group of each Fargate class with declared workspaces, whose pods mount EFS directly."""

    client_role_arns: NotRequired[pulumi.Input[list[pulumi.Input[str]]]]
    """The roles that may mount, through access points only. Default: none."""


class AdoptedStorage(pulumi.ComponentResource):
    """Existing EFS file systems with their policies, and with mount targets if they have none."""

    file_system_ids: pulumi.Output[list[str]]
    """The file systems, by shard."""

    file_system_arns: pulumi.Output[list[str]]
    """Their ARNs, by shard."""

    dns_names: pulumi.Output[list[str]]
    """Their DNS names, by shard."""

    security_group_id: pulumi.Output[str]
    """The security group of the mount targets."""

    key_arn: pulumi.Output[str]
    """The KMS key that encrypts the first of them."""

    def __init__(self, name: str, args: AdoptedStorageArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Adopt the file systems; raise before creating anything if one cannot be adopted."""
        reader = ArgumentReader.of("storage", args, AdoptedStorageArgs)
        labels = Labels.of(reader, "storage", name)
        existing = file_system_arguments(reader.part("existing", ExistingFileSystems))
        subnets = reader.inputs("subnet_ids")
        if not subnets:
            raise ArgumentError("storage.subnet_ids", "an empty list", "one subnet per zone")

        super().__init__("agent-environment:index:AdoptedStorage", name, {}, opts)
        facts = read_file_systems(existing, pulumi.InvokeOptions(parent=self))
        child: ChildOptions = child_options(self, opts)
        aws = aws_context(self)
        clients: pulumi.Output[Any] = pulumi.Output.from_input(args.get("client_role_arns") or [])
        mount_group_id = existing.get("mount_group_id")
        group = mount_group_id or create_mount_security_group(labels, child, args["vpc_id"]).id
        allow_nfs_from_nodes(labels, child, group, args["nodes_security_group_id"])
        allow_nfs_from_classes(labels, child, group, args.get("class_group_ids") or {})
        for shard, id_ in enumerate(existing["ids"]):
            efs.FileSystemPolicy(
                f"{name}-{shard}",
                file_system_id=id_,
                policy=pulumi.Output.all(aws, facts.arns[shard], clients).apply(file_system_policy_json),
                opts=child(pulumi.ResourceOptions(retain_on_delete=True)),
            )
            if not mount_group_id:
                create_mount_targets(FileSystemMount(shard, id_, subnets, group), labels, child)

        to_output = pulumi.Output.from_input
        self.file_system_ids = to_output(list(existing["ids"]))
        self.file_system_arns = to_output(list(facts.arns))
        self.dns_names = to_output(list(facts.dns_names))
        self.security_group_id = to_output(group)
        self.key_arn = to_output(facts.key_arns[0])
        self.register_outputs(component_outputs(self))
