"""The storage: encrypted EFS file systems for the files of sandboxes, reachable from nodes only.

Each file system is a shard, numbered from 0, with its own policy, backup policy and mount targets. Adding a shard
changes none of the others; with fewer shards the last ones are deleted.
"""

from collections.abc import Sequence
from typing import Any

import pulumi
from pulumi_aws import efs, kms

from agentenv.components._lib import iam_policies
from agentenv.components._lib.arguments import ArgumentError
from agentenv.components._lib.aws_context import AwsContext, aws_context
from agentenv.components._lib.encryption_key import LONGEST, SHORTEST, create_key
from agentenv.components._lib.options import ChildOptions, child_options, component_outputs
from agentenv.components._lib.planned_documents import (
    OUTPUT,
    PlannedDocuments,
    placeholder_file_system_arn,
    placeholder_role_arn,
)
from agentenv.components._lib.tags import Labels
from agentenv.components.network.network import NetworkContext
from agentenv.components.storage.mount_targets import (
    FileSystemMount,
    allow_nfs_from_nodes,
    create_mount_security_group,
    create_mount_targets,
)
from agentenv.config.sections.storage import Storage as StorageSettings
from agentenv.core.plan import StoragePlan

LONGEST_POLICY = 20_000


class Storage(pulumi.ComponentResource):
    """Encrypted EFS file systems with their key, policies, backups, lifecycle and mount targets."""

    file_system_ids: pulumi.Output[list[str]]
    """The file systems, by shard."""

    file_system_arns: pulumi.Output[list[str]]
    """Their ARNs, by shard."""

    dns_names: pulumi.Output[list[str]]
    """Their DNS names, by shard."""

    security_group_id: pulumi.Output[str]
    """The security group of the mount targets."""

    key_arn: pulumi.Output[str]
    """The KMS key that encrypts them."""

    def __init__(
        self,
        name: str,
        plan: StoragePlan,
        network: NetworkContext,
        *,
        client_role_arns: pulumi.Input[Sequence[pulumi.Input[str]]] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Create the storage. The roles may mount, through access points only; without any, nobody may."""
        labels, settings = Labels.of(plan.environment, "storage", name), plan.settings
        protected = plan.environment.keep_data

        super().__init__("agent-environment:index:Storage", name, {}, opts)
        self._name, self._labels, self._aws = name, labels, aws_context(self)
        self._child: ChildOptions = child_options(self, opts)
        self._planned_documents = PlannedDocuments()
        # Options of resources with data. The policy is retained too: without it a file system is open to the whole VPC.
        self._data_options = pulumi.ResourceOptions(protect=True, retain_on_delete=True) if protected else None

        key_arn = pulumi.Output.from_input(settings.kms_key or self._key(protected=protected).arn)
        group = create_mount_security_group(labels, self._child, network.vpc_id)
        allow_nfs_from_nodes(labels, self._child, group.id, network.nodes_security_group_id)
        clients: pulumi.Output[Any] = pulumi.Output.from_input(client_role_arns)
        systems: list[efs.FileSystem] = []
        for shard in range(settings.file_systems):
            system = efs.FileSystem(
                f"{name}-{shard}",
                encrypted=True,
                kms_key_id=key_arn,
                performance_mode="generalPurpose",
                **_performance(settings),
                tags=labels.tags(f"{shard}"),
                opts=self._child(self._data_options),
            )
            self._create_policies(shard, system, clients, backups=settings.backup)
            create_mount_targets(FileSystemMount(shard, system.id, network.subnet_ids, group.id), labels, self._child)
            systems.append(system)

        self.file_system_ids = pulumi.Output.all(*[system.id for system in systems])
        self.file_system_arns = pulumi.Output.all(*[system.arn for system in systems])
        self.dns_names = pulumi.Output.all(*[system.dns_name for system in systems])
        self.security_group_id = group.id
        self.key_arn = key_arn
        self.register_outputs({**component_outputs(self), OUTPUT: self._planned_documents.entries})

    def _key(self, *, protected: bool) -> kms.Key:
        return create_key(
            "key",
            "File systems",
            self._aws.apply(iam_policies.file_system_key_policy),
            self._labels,
            self._child,
            options=self._data_options,
            deletion_window=LONGEST if protected else SHORTEST,
        )

    def _create_policies(
        self, shard: int, system: efs.FileSystem, clients: pulumi.Output[Sequence[str]], *, backups: bool
    ) -> None:
        # Clients may be roles that do not exist yet; the statements about all other principals do not depend on them.
        self._planned_documents.add(
            "aws:efs/fileSystemPolicy:FileSystemPolicy",
            f"{self._name}-{shard}",
            "policy",
            self._aws.apply(
                lambda context: iam_policies.file_system_policy(
                    context, placeholder_file_system_arn(context), [placeholder_role_arn(context)]
                )
            ),
        )
        efs.FileSystemPolicy(
            f"{self._name}-{shard}",
            file_system_id=system.id,
            policy=pulumi.Output.all(self._aws, system.arn, clients).apply(file_system_policy_json),
            opts=self._child(self._data_options),
        )
        efs.BackupPolicy(
            f"{self._name}-{shard}",
            file_system_id=system.id,
            backup_policy={"status": "ENABLED" if backups else "DISABLED"},
            opts=self._child(),
        )


def file_system_policy_json(values: Sequence[Any]) -> str:
    """Return the file system policy as JSON, from an AWS context, a file system ARN and client role ARNs."""
    aws: AwsContext
    aws, arn, clients = values
    policy = iam_policies.to_json(iam_policies.file_system_policy(aws, arn, clients))
    if len(policy) > LONGEST_POLICY:
        raise ArgumentError(
            "storage.client_role_arns",
            f"{len(clients)} roles, which make a file system policy of {len(policy)} characters",
            f"as many as fit into {LONGEST_POLICY} characters; let clients share a role",
        )
    return policy


def _performance(settings: StorageSettings) -> dict[str, Any]:
    """Return the throughput and lifecycle properties."""
    performance: dict[str, Any] = {"throughput_mode": settings.throughput}
    if settings.provisioned_mibps is not None:
        performance["provisioned_throughput_in_mibps"] = settings.provisioned_mibps
    # EFS takes one transition per entry.
    transitions: list[dict[str, str]] = []
    if settings.infrequent_access_after != "never":
        transitions.append({"transition_to_ia": _after(settings.infrequent_access_after)})
    if settings.archive_after != "never":
        transitions.append({"transition_to_archive": _after(settings.archive_after)})
    if settings.infrequent_access_after != "never" and settings.back_on_access:
        transitions.append({"transition_to_primary_storage_class": "AFTER_1_ACCESS"})
    return {**performance, "lifecycle_policies": transitions}


def _after(transition: str) -> str:
    days = int(transition.removesuffix("d"))
    return "AFTER_1_DAY" if days == 1 else f"AFTER_{days}_DAYS"
