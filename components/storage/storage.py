"""The storage: encrypted file systems that a sandbox's files live on, reachable from the nodes only.

A file system is a shard, numbered from 0. Each has its policy, backups and mount targets; another one touches none of
those before it, and the last goes first when there are to be fewer.
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
    Mounts,
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
    """Which file systems there are, and how they behave."""

    file_systems: NotRequired[int]
    """How many: 1 unless told. Each holds 10,000 access points; fewer than before destroys the last ones."""

    throughput: NotRequired[str]
    """`elastic` (paid by use, the default), `bursting` (with the stored size) or `provisioned`."""

    provisioned_mibps: NotRequired[int]
    """MiB a second, with `provisioned` only."""

    infrequent_after_days: NotRequired[int]
    """Days without access after which a file moves to Infrequent Access: 30 unless told, 0 for never."""

    archive_after_days: NotRequired[int]
    """Days after which it moves on to Archive, with `elastic` only: 90 with it unless told, 0 for never."""

    back_on_access: NotRequired[bool]
    """Whether a file that is read moves back to the fast class; true unless told."""

    key_arn: NotRequired[pulumi.Input[str]]
    """A key to encrypt with, instead of one of its own; it stays with its file systems for good."""

    backups: NotRequired[bool]
    """Whether AWS Backup keeps daily copies, for its usual 35 days; true unless told."""


class StorageArgs(TypedDict):
    """What a storage is made from."""

    ownership: Ownership
    """Whose it is."""

    layout: StorageLayout
    """Which file systems there are."""

    vpc_id: pulumi.Input[str]
    """The VPC it is reachable in."""

    subnet_ids: list[pulumi.Input[str]]
    """A private subnet a zone, in the order of the zones; each gets a mount target of every file system."""

    nodes_security_group_id: pulumi.Input[str]
    """The group of the nodes: the only one let in, given a way out to here."""

    client_role_arns: NotRequired[pulumi.Input[list[pulumi.Input[str]]]]
    """The roles that may mount, by access points only; nobody may while there are none."""

    class_group_ids: NotRequired[dict[str, pulumi.Input[str]]]
    """The first security group of each class on Fargate with seats, which mount for themselves; none unless told."""

    keep_data: NotRequired[bool]
    """Whether the file systems and their key are protected, and outlive the stack; true in `prod` unless told."""


class Storage(pulumi.ComponentResource):
    """Encrypted EFS file systems with their key, policies, backups, lifecycle and mount targets."""

    file_system_ids: pulumi.Output[list[str]]
    """The file systems, by shard."""

    file_system_arns: pulumi.Output[list[str]]
    """Their ARNs, by shard."""

    dns_names: pulumi.Output[list[str]]
    """The names they are mounted under, by shard."""

    security_group_id: pulumi.Output[str]
    """The group of the mount targets."""

    key_arn: pulumi.Output[str]
    """The key that encrypts them."""

    def __init__(self, name: str, args: StorageArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Make the storage; a wrong plain argument raises before anything is made."""
        reader = ArgumentReader.of("storage", args, StorageArgs)
        layout = reader.part("layout", StorageLayout)
        labels = Labels.of(reader, "storage", name)
        behaviour = _behaviour(layout)
        backups = layout.flag("backups", default=True)
        shards = layout.whole("file_systems", 1, 100, default=1)
        subnets = reader.inputs("subnet_ids")
        if not subnets:
            raise ArgumentError("storage.subnet_ids", "an empty list", "one subnet a zone")
        kept = reader.flag("keep_data", default=is_production(labels.environment))

        super().__init__("agent-environment:index:Storage", name, {}, opts)
        self._name, self._labels, self._aws = name, labels, aws_context(self)
        self._child: ChildOptions = child_options(self, opts)
        self._planned_documents = PlannedDocuments()
        # What holds data. The policy stays with its file system, which would be open to everybody without it.
        self._held = pulumi.ResourceOptions(protect=True, retain_on_delete=True) if kept else None

        key_arn = pulumi.Output.from_input(args["layout"].get("key_arn") or self._key(kept=kept).arn)
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
                **behaviour,
                tags=labels.tags(f"{shard}"),
                opts=self._child(self._held),
            )
            self._guard(shard, system, clients, backups=backups)
            create_mount_targets(Mounts(shard, system.id, subnets, group.id), labels, self._child)
            systems.append(system)

        self.file_system_ids = pulumi.Output.all(*[system.id for system in systems])
        self.file_system_arns = pulumi.Output.all(*[system.arn for system in systems])
        self.dns_names = pulumi.Output.all(*[system.dns_name for system in systems])
        self.security_group_id = group.id
        self.key_arn = key_arn
        self.register_outputs({**component_outputs(self), OUTPUT: self._planned_documents.entries})

    def _key(self, *, kept: bool) -> kms.Key:
        key = kms.Key(
            f"{self._name}-key",
            description=f"File systems of environment {self._labels.environment}",
            enable_key_rotation=True,
            # As long as AWS allows where there is data to miss; where there is none, as short.
            deletion_window_in_days=30 if kept else 7,
            policy=iam_policies.policy_json(self._aws.apply(iam_policies.file_system_key_policy)),
            tags=self._labels.tags("key"),
            opts=self._child(self._held),
        )
        kms.Alias(
            f"{self._name}-key",
            name=self._labels.name("kms-alias", "key", prefix="alias/"),
            target_key_id=key.key_id,
            opts=self._child(),
        )
        return key

    def _guard(
        self, shard: int, system: efs.FileSystem, clients: pulumi.Output[Sequence[str]], *, backups: bool
    ) -> None:
        # Its clients may be roles that are not there yet; what it says of everybody else does not hang on them.
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
            policy=pulumi.Output.all(self._aws, system.arn, clients).apply(file_system_policy),
            opts=self._child(self._held),
        )
        efs.BackupPolicy(
            f"{self._name}-{shard}",
            file_system_id=system.id,
            backup_policy={"status": "ENABLED" if backups else "DISABLED"},
            opts=self._child(),
        )


def file_system_policy(known: Sequence[Any]) -> str:
    """Who is let in, of a place, a file system and its clients."""
    aws: AwsContext
    aws, arn, clients = known
    policy = iam_policies.to_json(iam_policies.file_system_policy(aws, arn, clients))
    if len(policy) > LONGEST_POLICY:
        raise ArgumentError(
            "storage.client_role_arns",
            f"{len(clients)} roles, which make a file system policy of {len(policy)} characters",
            f"so many as fit into {LONGEST_POLICY}; let several clients share a role",
        )
    return policy


def _behaviour(layout: ArgumentReader) -> dict[str, Any]:
    """Throughput and lifecycle, as AWS combines them."""
    throughput = layout.choice("throughput", THROUGHPUT, default="elastic")
    behaviour: dict[str, Any] = {"throughput_mode": throughput}
    if throughput == "provisioned":
        if not layout.has("provisioned_mibps"):
            raise ArgumentError(f"{layout.path}.provisioned_mibps", "nothing", "MiB a second with 'provisioned'")
        behaviour["provisioned_throughput_in_mibps"] = layout.whole("provisioned_mibps", 1, 3414)
    elif layout.has("provisioned_mibps"):
        raise ArgumentError(
            f"{layout.path}.provisioned_mibps", f"a value with '{throughput}'", "a value with 'provisioned' only"
        )
    elastic = throughput == "elastic"
    idle = layout.whole("infrequent_after_days", 0, 365, default=30, among=IDLE_DAYS | {0})
    archive = layout.whole(
        "archive_after_days", 0, 365, default=90 if elastic and 0 < idle < 90 else 0, among=IDLE_DAYS | {0}
    )
    if archive and not elastic:
        raise ArgumentError(f"{layout.path}.archive_after_days", f"{archive} with '{throughput}'", "0, or 'elastic'")
    if archive and not 0 < idle < archive:
        raise ArgumentError(
            f"{layout.path}.archive_after_days",
            f"{archive} with infrequent_after_days {idle}",
            "0, or more days than infrequent_after_days, which cannot be 0 then",
        )
    # EFS takes one transition an entry.
    moves: list[dict[str, str]] = []
    if idle:
        moves.append({"transition_to_ia": _after(idle)})
    if archive:
        moves.append({"transition_to_archive": _after(archive)})
    if idle and layout.flag("back_on_access", default=True):
        moves.append({"transition_to_primary_storage_class": "AFTER_1_ACCESS"})
    return {**behaviour, "lifecycle_policies": moves}


def _after(days: int) -> str:
    return "AFTER_1_DAY" if days == 1 else f"AFTER_{days}_DAYS"
