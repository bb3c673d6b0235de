"""The storage: encrypted EFS file systems for the files of sandboxes, reachable from nodes only.

Each file system is a shard, numbered from 0, with its own policy, backup policy and mount targets. Adding a shard
changes none of the others; with fewer shards the last ones are deleted.
"""

from collections.abc import Sequence
from typing import Any, NotRequired, TypedDict

import pulumi
from pulumi_aws import efs, kms

from agentenv.components._lib import iam_policies
from agentenv.components._lib.arguments import ArgumentError, ArgumentReader
from agentenv.components._lib.aws_context import AwsContext, aws_context
from agentenv.components._lib.options import ChildOptions, child_options, component_outputs
from agentenv.components._lib.planned_documents import (
    OUTPUT,
    PlannedDocuments,
    placeholder_file_system_arn,
    placeholder_role_arn,
)
from agentenv.components._lib.tags import Labels, Ownership
from agentenv.components.storage.mount_targets import (
    FileSystemMount,
    allow_nfs_from_classes,
    allow_nfs_from_nodes,
    create_mount_security_group,
    create_mount_targets,
)
from agentenv.config.settings import is_production

THROUGHPUT = ("bursting", "elastic", "provisioned")
IDLE_DAYS = frozenset({1, 7, 14, 30, 60, 90, 180, 270, 365})
LONGEST_POLICY = 20_000


class StorageLayout(TypedDict):
    """The file systems and their configuration."""

    file_systems: NotRequired[int]
    """Their number. Each holds 10,000 access points; a smaller number destroys the last ones. Default: 1."""

    throughput: NotRequired[str]
    """The throughput mode: `elastic` (default; paid by use), `bursting` (grows with size) or `provisioned`."""

    provisioned_mibps: NotRequired[int]
    """MiB per second, with `provisioned` only."""

    infrequent_after_days: NotRequired[int]
    """Days without access before a file moves to Infrequent Access; 0 for never. Default: 30."""

    archive_after_days: NotRequired[int]
    """Days without access before a file moves to Archive, with `elastic` only; 0 for never. Default with it: 90."""

    back_on_access: NotRequired[bool]
    """Whether a file that is read moves back to the Standard storage class. Default: true."""

    key_arn: NotRequired[pulumi.Input[str]]
    """An existing KMS key to encrypt with. It cannot be changed. Default: a new key."""

    backups: NotRequired[bool]
    """Whether AWS Backup makes daily backups, retained for its default of 35 days. Default: true."""


class StorageArgs(TypedDict):
    """The arguments of storage."""

    ownership: Ownership
    """The owner, for tags and names."""

    layout: StorageLayout
    """The file systems."""

    vpc_id: pulumi.Input[str]
    """The VPC of the mount targets."""

    subnet_ids: list[pulumi.Input[str]]
    """The private subnets, one per zone in order; each gets a mount target of every file system."""

    nodes_security_group_id: pulumi.Input[str]
    """The security group of the nodes, which may connect."""

    client_role_arns: NotRequired[pulumi.Input[list[pulumi.Input[str]]]]
    """The roles that may mount, through access points only. Default: none."""

    class_group_ids: NotRequired[dict[str, pulumi.Input[str]]]
    """The first security group of each Fargate class with declared workspaces, whose pods mount EFS directly."""

    keep_data: NotRequired[bool]
    """Whether file systems and their key are protected, and retained on destroy. Default: true in `prod`."""


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

    def __init__(self, name: str, args: StorageArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Create the storage; a wrong plain argument raises before anything is created."""
        reader = ArgumentReader.of("storage", args, StorageArgs)
        layout = reader.part("layout", StorageLayout)
        labels = Labels.of(reader, "storage", name)
        performance = _performance(layout)
        backups = layout.flag("backups", default=True)
        shards = layout.whole("file_systems", 1, 100, default=1)
        subnets = reader.inputs("subnet_ids")
        if not subnets:
            raise ArgumentError("storage.subnet_ids", "an empty list", "one subnet per zone")
        protected = reader.flag("keep_data", default=is_production(labels.environment))

        super().__init__("agent-environment:index:Storage", name, {}, opts)
        self._name, self._labels, self._aws = name, labels, aws_context(self)
        self._child: ChildOptions = child_options(self, opts)
        self._planned_documents = PlannedDocuments()
        # Options of resources with data. The policy is retained too: without it a file system is open to the whole VPC.
        self._data_options = pulumi.ResourceOptions(protect=True, retain_on_delete=True) if protected else None

        key_arn = pulumi.Output.from_input(args["layout"].get("key_arn") or self._key(protected=protected).arn)
        group = create_mount_security_group(labels, self._child, args["vpc_id"])
        allow_nfs_from_nodes(labels, self._child, group.id, args["nodes_security_group_id"])
        allow_nfs_from_classes(labels, self._child, group.id, args.get("class_group_ids") or {})
        clients: pulumi.Output[Any] = pulumi.Output.from_input(args.get("client_role_arns") or [])
        systems: list[efs.FileSystem] = []
        for shard in range(shards):
            system = efs.FileSystem(
                f"{name}-{shard}",
                encrypted=True,
                kms_key_id=key_arn,
                performance_mode="generalPurpose",
                **performance,
                tags=labels.tags(f"{shard}"),
                opts=self._child(self._data_options),
            )
            self._create_policies(shard, system, clients, backups=backups)
            create_mount_targets(FileSystemMount(shard, system.id, subnets, group.id), labels, self._child)
            systems.append(system)

        self.file_system_ids = pulumi.Output.all(*[system.id for system in systems])
        self.file_system_arns = pulumi.Output.all(*[system.arn for system in systems])
        self.dns_names = pulumi.Output.all(*[system.dns_name for system in systems])
        self.security_group_id = group.id
        self.key_arn = key_arn
        self.register_outputs({**component_outputs(self), OUTPUT: self._planned_documents.entries})

    def _key(self, *, protected: bool) -> kms.Key:
        key = kms.Key(
            f"{self._name}-key",
            description=f"File systems of environment {self._labels.environment}",
            enable_key_rotation=True,
            # The longest window that KMS allows where data must be retained, otherwise the shortest.
            deletion_window_in_days=30 if protected else 7,
            policy=iam_policies.policy_json(self._aws.apply(iam_policies.file_system_key_policy)),
            tags=self._labels.tags("key"),
            opts=self._child(self._data_options),
        )
        kms.Alias(
            f"{self._name}-key",
            name=self._labels.name("kms-alias", "key", prefix="alias/"),
            target_key_id=key.key_id,
            opts=self._child(),
        )
        return key

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


def _performance(layout: ArgumentReader) -> dict[str, Any]:
    """Return the throughput and lifecycle properties, checked."""
    throughput = layout.choice("throughput", THROUGHPUT, default="elastic")
    performance: dict[str, Any] = {"throughput_mode": throughput}
    if throughput == "provisioned":
        if not layout.has("provisioned_mibps"):
            raise ArgumentError(f"{layout.path}.provisioned_mibps", "nothing", "MiB per second with 'provisioned'")
        performance["provisioned_throughput_in_mibps"] = layout.whole("provisioned_mibps", 1, 3414)
    elif layout.has("provisioned_mibps"):
        raise ArgumentError(
            f"{layout.path}.provisioned_mibps", f"a value with '{throughput}'", "a value with 'provisioned' only"
        )
    elastic = throughput == "elastic"
    infrequent = layout.whole("infrequent_after_days", 0, 365, default=30, among=IDLE_DAYS | {0})
    archive = layout.whole(
        "archive_after_days", 0, 365, default=90 if elastic and 0 < infrequent < 90 else 0, among=IDLE_DAYS | {0}
    )
    if archive and not elastic:
        raise ArgumentError(f"{layout.path}.archive_after_days", f"{archive} with '{throughput}'", "0, or 'elastic'")
    if archive and not 0 < infrequent < archive:
        raise ArgumentError(
            f"{layout.path}.archive_after_days",
            f"{archive} with infrequent_after_days {infrequent}",
            "0, or more days than infrequent_after_days, which cannot be 0 then",
        )
    # EFS takes one transition per entry.
    transitions: list[dict[str, str]] = []
    if infrequent:
        transitions.append({"transition_to_ia": _after(infrequent)})
    if archive:
        transitions.append({"transition_to_archive": _after(archive)})
    if infrequent and layout.flag("back_on_access", default=True):
        transitions.append({"transition_to_primary_storage_class": "AFTER_1_ACCESS"})
    return {**performance, "lifecycle_policies": transitions}


def _after(days: int) -> str:
    return "AFTER_1_DAY" if days == 1 else f"AFTER_{days}_DAYS"
