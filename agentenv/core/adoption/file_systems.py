"""Checks of existing EFS file systems: their attributes, mount targets and policies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentenv.core.adoption import AdoptionProblem
from agentenv.core.iam.documents import PRINCIPAL_KINDS, Statement, statements

MOUNT = "elasticfilesystem:ClientMount"
ROOT = "elasticfilesystem:ClientRootAccess"


@dataclass(frozen=True)
class FoundFileSystem:
    """The attributes of an existing file system."""

    id: str
    encrypted: bool
    one_zone: str
    performance: str


@dataclass(frozen=True)
class FoundMountTarget:
    """The attributes of an existing mount target."""

    id: str
    file_system: str
    vpc_id: str
    zone: str
    groups: Sequence[str]


def file_system_problems(file_system: FoundFileSystem) -> list[AdoptionProblem]:
    """Return the problems of a file system itself."""
    return list(_file_system_problems(file_system))


def _file_system_problems(file_system: FoundFileSystem) -> Iterator[AdoptionProblem]:
    if not file_system.encrypted:
        yield AdoptionProblem(
            file_system.id,
            "is not encrypted, and that cannot be changed",
            "copy its files to an encrypted file system and use that",
        )
    if file_system.one_zone:
        yield AdoptionProblem(
            file_system.id,
            f"stores its files in {file_system.one_zone} only, so nodes in other zones depend on it",
            "use a regional file system",
        )
    if file_system.performance != "generalPurpose":
        yield AdoptionProblem(
            file_system.id,
            f"has the performance mode {file_system.performance}, which is slow for homes",
            "use another file system",
        )


def mount_problems(
    id_: str, targets: Sequence[FoundMountTarget], zones: Sequence[str], vpc_id: str | None, group: str | None
) -> list[AdoptionProblem]:
    """Return the problems of the mount targets of a file system.

    With a security group, mount targets must exist: one in each zone, all with that group. Without one they are
    created, and none may exist: a file system can be mounted in one VPC only, and once in each zone.
    """
    return list(_mount_problems(id_, targets, zones, vpc_id, group))


def _mount_problems(
    id_: str, targets: Sequence[FoundMountTarget], zones: Sequence[str], vpc_id: str | None, group: str | None
) -> Iterator[AdoptionProblem]:
    if group is None:
        if targets:
            places = ", ".join(sorted(target.zone for target in targets))
            yield AdoptionProblem(
                id_,
                f"already has mount targets ({places})",
                "set storage.mountGroup to their security group, or delete them",
            )
        return
    for target in targets:
        if vpc_id is not None and target.vpc_id != vpc_id:
            yield AdoptionProblem(
                id_, f"is mounted in {target.vpc_id} and not in {vpc_id}", "use that VPC, or another file system"
            )
        elif group not in target.groups:
            yield AdoptionProblem(
                target.id,
                f"has {', '.join(target.groups)} and not {group}, which allows the nodes",
                f"aws efs modify-mount-target-security-groups --mount-target-id {target.id}"
                f" --security-groups {' '.join((*target.groups, group))}",
            )
    for zone in sorted(set(zones) - {target.zone for target in targets}):
        yield AdoptionProblem(id_, f"has no mount target in {zone}", "create one there, with the same security group")


def policy_problems(id_: str, policy: Mapping[str, Any] | None) -> list[AdoptionProblem]:
    """Return the problems of a file system policy; without a policy `pulumi up` creates one."""
    return [] if policy is None else list(_policy_problems(id_, policy))


def _policy_problems(id_: str, policy: Mapping[str, Any]) -> Iterator[AdoptionProblem]:
    fix = "`pulumi up` replaces the policy: if other clients rely on it, use another file system"
    every = statements(policy)
    for statement in every:
        if not statement.allows:
            continue
        if statement.matches_action(MOUNT) and not statement.conditions_on("elasticfilesystem:AccessPointArn"):
            yield AdoptionProblem(
                id_, f"has a policy that allows {_principals(statement)} to mount without an access point", fix
            )
        if statement.matches_action(ROOT):
            yield AdoptionProblem(id_, f"has a policy that allows {_principals(statement)} root access", fix)
    if not any(statement.denies and _is_without_tls(statement) for statement in every):
        yield AdoptionProblem(id_, "has a policy that allows clients without TLS", fix)


def _is_without_tls(statement: Statement) -> bool:
    conditions = statement.conditions_on("aws:SecureTransport")
    return any(condition.operator == "Bool" and condition.values == ("false",) for condition in conditions)


def _principals(statement: Statement) -> str:
    names = [str(name) for kind in PRINCIPAL_KINDS for name in statement.principals(kind)]
    return "everybody" if statement.has_every_principal else ", ".join(sorted(names))
