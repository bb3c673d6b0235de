"""Adopted storage: existing EFS file systems for homes, which are retained when the environment is destroyed.

They get the environment's file system policy, which admits only its clients. The policy is retained too: without one a
file system is open to the whole VPC. Throughput, lifecycle, backups and keys stay with their owner.
"""

from collections.abc import Sequence
from typing import Any

import pulumi
from pulumi_aws import efs

from agentenv.components._lib.aws_context import aws_context
from agentenv.components._lib.existing import adopted, read_file_systems
from agentenv.components._lib.options import ChildOptions, child_options, component_outputs
from agentenv.components._lib.tags import Labels
from agentenv.components.network.network import NetworkContext
from agentenv.components.storage.mount_targets import (
    FileSystemMount,
    allow_nfs_from_nodes,
    create_mount_security_group,
    create_mount_targets,
)
from agentenv.components.storage.storage import file_system_policy_json
from agentenv.core.plan import StoragePlan


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

    def __init__(
        self,
        name: str,
        plan: StoragePlan,
        network: NetworkContext,
        *,
        client_role_arns: pulumi.Input[Sequence[pulumi.Input[str]]] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Adopt the file systems; raise before creating anything if one cannot be adopted.

        The other arguments are those of `Storage`.
        """
        labels = Labels.of(plan.environment, "storage", name)
        existing, mount_group_id = adopted(plan.settings.existing, "storage.existing"), plan.settings.mount_group

        super().__init__("agent-environment:index:AdoptedStorage", name, {}, opts)
        facts = read_file_systems(existing, pulumi.InvokeOptions(parent=self))
        child: ChildOptions = child_options(self, opts)
        aws = aws_context(self)
        clients: pulumi.Output[Any] = pulumi.Output.from_input(client_role_arns)
        group = mount_group_id or create_mount_security_group(labels, child, network.vpc_id).id
        allow_nfs_from_nodes(labels, child, group, network.nodes_security_group_id)
        for shard, id_ in enumerate(existing):
            efs.FileSystemPolicy(
                f"{name}-{shard}",
                file_system_id=id_,
                policy=pulumi.Output.all(aws, facts.arns[shard], clients).apply(file_system_policy_json),
                opts=child(pulumi.ResourceOptions(retain_on_delete=True)),
            )
            if not mount_group_id:
                create_mount_targets(FileSystemMount(shard, id_, network.subnet_ids, group), labels, child)

        to_output = pulumi.Output.from_input
        self.file_system_ids = to_output(list(existing))
        self.file_system_arns = to_output(list(facts.arns))
        self.dns_names = to_output(list(facts.dns_names))
        self.security_group_id = to_output(group)
        self.key_arn = to_output(facts.key_arns[0])
        self.register_outputs(component_outputs(self))
