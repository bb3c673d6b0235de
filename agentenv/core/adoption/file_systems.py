"""EFS file systems that stand already: how they are made, who is let in, and where they are mounted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from agentenv.core.adoption.problem import Shortcoming

MOUNT = "elasticfilesystem:ClientMount"
WRITE = "elasticfilesystem:ClientWrite"
ROOT = "elasticfilesystem:ClientRootAccess"


@dataclass(frozen=True)
class FoundFileSystem:
    """What there is to know of a file system."""

    id: str
    encrypted: bool
    one_zone: str
    performance: str


@dataclass(frozen=True)
class FoundMountTarget:
    """What there is to know of a mount target."""

    id: str
    file_system: str
    vpc_id: str
    zone: str
    groups: Sequence[str]


def file_system_shortcomings(found: FoundFileSystem) -> list[Shortcoming]:
    """What keeps homes off a file system, whoever may mount it."""
    return list(_of_file_system(found))


def _of_file_system(found: FoundFileSystem) -> Iterator[Shortcoming]:
    if not found.encrypted:
        yield Shortcoming(
            found.id,
            "is not encrypted, and that cannot be changed",
            "copy its files into an encrypted one and name that",
        )
    if found.one_zone:
        yield Shortcoming(
            found.id,
            f"keeps its files in {found.one_zone} alone, and nodes of other zones lose them with it",
            "name a regional one",
        )
    if found.performance != "generalPurpose":
        yield Shortcoming(
            found.id, f"has the performance mode {found.performance}, which is slow for homes", "name another"
        )


def mount_shortcomings(
    id_: str, found: Sequence[FoundMountTarget], zones: Sequence[str], vpc_id: str | None, group: str | None
) -> list[Shortcoming]:
    """What is wrong with the places where a file system is mounted.

    With a `group` named, mount targets stand already: one in each zone, all with that group. Without one they are made,
    and none may be there: a file system is mounted in one VPC, and once in each zone.
    """
    return list(_of_targets(id_, found, zones, vpc_id, group))


def _of_targets(
    id_: str, found: Sequence[FoundMountTarget], zones: Sequence[str], vpc_id: str | None, group: str | None
) -> Iterator[Shortcoming]:
    if group is None:
        if found:
            places = ", ".join(sorted(one.zone for one in found))
            yield Shortcoming(
                id_,
                f"has mount targets already ({places})",
                "name their security group in storage.mountGroup, or delete them",
            )
        return
    for one in found:
        if vpc_id is not None and one.vpc_id != vpc_id:
            yield Shortcoming(id_, f"is mounted in {one.vpc_id} and not in {vpc_id}", "name that VPC, or another one")
        elif group not in one.groups:
            yield Shortcoming(
                one.id,
                f"has {', '.join(one.groups)} and not {group}, to which nodes are let in",
                f"aws efs modify-mount-target-security-groups --mount-target-id {one.id}"
                f" --security-groups {' '.join((*one.groups, group))}",
            )
    for zone in sorted(set(zones) - {one.zone for one in found}):
        yield Shortcoming(id_, f"has no mount target in {zone}", "make one there, with the same security group")


def policy_shortcomings(id_: str, policy: Mapping[str, Any] | None) -> list[Shortcoming]:
    """Whom a file system's policy lets in who should not be; with none at all, `pulumi up` writes one."""
    return [] if policy is None else list(_of_policy(id_, policy))


def _of_policy(id_: str, policy: Mapping[str, Any]) -> Iterator[Shortcoming]:
    written = "`pulumi up` writes its own policy in its place: whoever relies on this one needs another file system"
    rows = _statements(policy)
    for statement in rows:
        actions = _listed(statement.get("Action"))
        if statement.get("Effect") != "Allow" or not any(_grants(action, MOUNT) for action in actions):
            if statement.get("Effect") == "Allow" and any(_grants(action, ROOT) for action in actions):
                yield Shortcoming(id_, "has a policy that lets clients act as root", written)
            continue
        keys = {key for test in _conditions(statement).values() for key in test}
        who = _principals(statement.get("Principal"))
        if "elasticfilesystem:AccessPointArn" not in keys:
            yield Shortcoming(id_, f"has a policy that lets {who} in without an access point", written)
        if any(_grants(action, ROOT) for action in actions):
            yield Shortcoming(id_, f"has a policy that lets {who} act as root", written)
    if not any(_demands_tls(statement) for statement in rows):
        yield Shortcoming(id_, "has a policy that lets clients in without TLS", written)


def _grants(action: str, wanted: str) -> bool:
    pattern, wanted = action.lower(), wanted.lower()
    return pattern == wanted or (pattern.endswith("*") and wanted.startswith(pattern[:-1]))


def _demands_tls(statement: Mapping[str, Any]) -> bool:
    told = _conditions(statement).get("Bool", {}).get("aws:SecureTransport")
    return statement.get("Effect") == "Deny" and str(told).lower() == "false"


def _statements(policy: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found: Any = policy.get("Statement") or []
    return cast("list[Mapping[str, Any]]", list(found) if isinstance(found, list) else [found])  # pyright: ignore[reportUnknownArgumentType] - somebody else's document


def _conditions(statement: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    return cast("Mapping[str, Mapping[str, Any]]", statement.get("Condition") or {})


def _principals(principal: Any) -> str:
    if isinstance(principal, Mapping):
        return ", ".join(sorted(_listed(next(iter(principal.values()), "*"))))  # pyright: ignore[reportUnknownArgumentType] - somebody else's document
    return "everybody" if principal in {"*", None} else str(principal)


def _listed(value: Any) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list | tuple) else [str(value)]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - somebody else's document
