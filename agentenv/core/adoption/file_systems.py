"""Checks of existing EFS file systems: their attributes, mount targets and policies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from agentenv.core.adoption import AdoptionProblem

MOUNT = "elasticfilesystem:ClientMount"
WRITE = "elasticfilesystem:ClientWrite"
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
    statements = _statements(policy)
    for statement in statements:
        actions = _as_list(statement.get("Action"))
        if statement.get("Effect") != "Allow" or not any(_grants(action, MOUNT) for action in actions):
            if statement.get("Effect") == "Allow" and any(_grants(action, ROOT) for action in actions):
                yield AdoptionProblem(id_, "has a policy that allows clients root access", fix)
            continue
        keys = {key for test in _conditions(statement).values() for key in test}
        principals = _principals(statement.get("Principal"))
        if "elasticfilesystem:AccessPointArn" not in keys:
            yield AdoptionProblem(id_, f"has a policy that allows {principals} to mount without an access point", fix)
        if any(_grants(action, ROOT) for action in actions):
            yield AdoptionProblem(id_, f"has a policy that allows {principals} root access", fix)
    if not any(_demands_tls(statement) for statement in statements):
        yield AdoptionProblem(id_, "has a policy that allows clients without TLS", fix)


def _grants(action: str, requested: str) -> bool:
    pattern, requested = action.lower(), requested.lower()
    return pattern == requested or (pattern.endswith("*") and requested.startswith(pattern[:-1]))


def _demands_tls(statement: Mapping[str, Any]) -> bool:
    condition = _conditions(statement).get("Bool", {}).get("aws:SecureTransport")
    return statement.get("Effect") == "Deny" and str(condition).lower() == "false"


def _statements(policy: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    statements: Any = policy.get("Statement") or []
    return cast("list[Mapping[str, Any]]", list(statements) if isinstance(statements, list) else [statements])  # pyright: ignore[reportUnknownArgumentType] - somebody else's document


def _conditions(statement: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    return cast("Mapping[str, Mapping[str, Any]]", statement.get("Condition") or {})


def _principals(principal: Any) -> str:
    if isinstance(principal, Mapping):
        return ", ".join(sorted(_as_list(next(iter(principal.values()), "*"))))  # pyright: ignore[reportUnknownArgumentType] - somebody else's document
    return "everybody" if principal in {"*", None} else str(principal)


def _as_list(value: Any) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list | tuple) else [str(value)]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - somebody else's document
