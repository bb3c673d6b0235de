"""The records of workspaces on Kubernetes objects: on the claim, or on the volume of a deleted workspace.

Reading is lenient: an invalid annotation reads as missing, so that the workspace can still be listed and deleted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any, cast, get_args

from agentenv.config.sections.classes import SizeName
from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import MODE_LABEL, TASK_LABEL, USER_LABEL, VOLUME_RETAINED, WORKSPACE_LABEL
from agentenv.core.classes.sizes import SMALL
from agentenv.core.lifecycle.restore import used_class
from agentenv.core.values.object_fields import (
    counted,
    is_text,
    parsed,
    parsed_object,
    read_amount,
    required,
    rows,
    section,
    strings,
    text,
)
from agentenv.core.values.timestamps import format_timestamp, parse_timestamp
from agentenv.core.workspaces import workspace as keys
from agentenv.core.workspaces.child_budgets import format_child_budgets, read_child_budgets
from agentenv.core.workspaces.grants import format_grants, read_grants
from agentenv.core.workspaces.leases import leases_after_sharing
from agentenv.core.workspaces.workspace import (
    UNSET,
    Access,
    Because,
    Changes,
    CreateRequest,
    Lease,
    Mode,
    PortSharing,
    Sharing,
    State,
    Timeout,
    Unset,
    Workspace,
)

Plain = dict[str, Any]
_LONGEST = 10**9  # seconds

# Reasons of a claim's Ready condition; any other reason is temporary.
SUSPENDED = "SandboxSuspended"
# The message of that reason while the pod still ends (agent-sandbox, `computeReadyCondition`).
SUSPENDING = "Sandbox is suspending"
FAILED = (
    "ClaimExpired",
    "EnvVarsInjectionRejected",
    "InvalidMetadata",
    "PodFailed",
    "PodSucceeded",
    "SandboxExpired",
    "VolumeClaimTemplatesError",
)


def workspace_of_claim(claim: Mapping[str, Any]) -> Workspace | None:
    """Return the workspace of a claim, or None if it has no owner; raise `UnreadableError` if it has no name."""
    metadata = section(claim, "metadata")
    labels, annotations = strings(metadata, "labels"), strings(metadata, "annotations")
    owner = labels.get(USER_LABEL, "")
    if not owner:
        return None
    sandbox = section(section(claim, "status"), "sandbox")
    addresses: object = sandbox.get("podIPs")
    state, why = _state(claim)
    workspace = Workspace(
        id=required(claim, "metadata", "name"),
        owner=owner,
        class_name=labels.get(CLASS_LABEL) or required(claim, "metadata", "namespace").removeprefix("sandbox-"),
        mode=_mode(labels),
        state=state,
        created=parse_timestamp(metadata.get("creationTimestamp")),
        claim_uid=text(metadata, "uid"),
        version=text(metadata, "resourceVersion"),
        pool=text(section(section(claim, "spec"), "warmPoolRef"), "name"),
        sandbox=text(sandbox, "name") or None,
        # While it does not run, the claim has the address of a pod that ends.
        addresses=tuple(filter(is_text, cast("list[object]", addresses)))
        if isinstance(addresses, list) and state == "running"
        else (),
        task=labels.get(TASK_LABEL),
        volume_retained=annotations.get(VOLUME_RETAINED) == "true",
        cold=annotations.get(keys.COLD),
        why=why,
        turned=parse_timestamp(_condition(claim, "Ready").get("lastTransitionTime")),
    )
    return _with_annotations(workspace, labels, annotations)


def workspace_of_volume(volume: Mapping[str, Any]) -> Workspace | None:
    """Return the workspace of a volume, deleted or recovered; None if it has no owner or its workspace exists.

    Raise `UnreadableError` if the volume has no name.
    """
    metadata = section(volume, "metadata")
    labels, annotations = strings(metadata, "labels"), strings(metadata, "annotations")
    owner, name = labels.get(USER_LABEL, ""), labels.get(WORKSPACE_LABEL, "")
    if not owner or not name or not {keys.DELETED_AT, keys.RECOVERED_AT} & annotations.keys():
        return None
    workspace = Workspace(
        id=name,
        owner=owner,
        class_name=used_class(volume),
        mode=_mode(labels),
        state="deleted" if keys.DELETED_AT in annotations else "suspended",
        created=parse_timestamp(metadata.get("creationTimestamp")),
        version=text(metadata, "resourceVersion"),
        volume=required(volume, "metadata", "name"),
        task=labels.get(TASK_LABEL),
        volume_retained=True,
    )
    return _with_annotations(workspace, labels, annotations)


def has_other_owner(volume: Mapping[str, Any], owner: str) -> bool:
    """Return whether a volume has the label of another owner."""
    return section(section(volume, "metadata"), "labels").get(USER_LABEL, owner) != owner


def is_claim_ready(claim: Mapping[str, Any]) -> bool:
    """Return whether a claim's sandbox can be used."""
    return _condition(claim, "Ready").get("status") == "True" and bool(section(section(claim, "status"), "sandbox"))


def claim_annotations(request: CreateRequest, now: datetime) -> dict[str, str]:
    """Return the annotations of a new claim."""
    annotations = {
        keys.KEY: request.fingerprint,
        keys.CREATED_BY: request.created_by,
        keys.LAST_ACTIVE: format_timestamp(now),
        keys.SHARED: _shared(request.shared) if request.shared else None,
        keys.IDLE_AFTER: _seconds(request.idle_after),
        keys.DEADLINE: format_timestamp(request.deadline) if request.deadline else None,
        keys.BUDGET: None if request.budget is None else str(request.budget),
        keys.ARCHIVE: request.archive,
        keys.PARENT_WORKSPACE: request.parent,
        keys.TEAMS: json.dumps(request.limited_teams) if request.limited_teams else None,
        keys.TIMEOUT: _format_timeout(request.timeout) if request.timeout else None,
        keys.METADATA: _compact(dict(request.metadata)) if request.metadata else None,
        keys.SIZE: _size_text(request.size),
        keys.GRANTS: format_grants(request.grants),
    }
    return {key: value for key, value in annotations.items() if value is not None}


def owner_labels_on_object(labels: Mapping[str, str]) -> dict[str, str]:
    """Return an owner's own labels with the prefix that they have on objects."""
    return {f"{keys.OWN_LABEL}{key}": value for key, value in labels.items()}


def workspace_patch(workspace: Workspace, changes: Changes) -> Plain:
    """Return the merge patch of a workspace's object, without a change of its class, which needs another claim."""
    annotations: dict[str, str | None] = {}
    simple: tuple[tuple[str, Any, Callable[[Any], str | None]], ...] = (
        (keys.SHARED, changes.shared, _shared),
        (keys.IDLE_AFTER, changes.idle_after, _seconds),
        (keys.DEADLINE, changes.deadline, format_timestamp),
        (keys.TIMEOUT, changes.timeout, _format_timeout),
        (keys.BUDGET, changes.budget, str),
        (keys.CHILD_BUDGETS, changes.child_budgets, format_child_budgets),
        (keys.ARCHIVE, changes.archive, str),
        (keys.SIZE, changes.size, _size_text),
        (keys.BUSY_UNTIL, changes.busy_until, format_timestamp),
        (keys.WAKE_AT, changes.wake_at, format_timestamp),
        (keys.LAST_ACTIVE, changes.last_active, format_timestamp),
        (keys.PORTS, changes.ports, _ports),
        (keys.TOKEN_GENERATION, changes.token_generation, str),
    )
    for key, value, to_text in simple:
        if value is not UNSET:
            annotations[key] = None if value is None else to_text(cast("Any", value))
    if not isinstance(changes.size, Unset):
        # The answer of a node to an earlier request does not count for this one.
        annotations[keys.SIZE_PENDING] = keys.RESIZING
    if not isinstance(changes.shared, Unset):
        remaining = leases_after_sharing(workspace, changes.shared)
        if remaining != workspace.leases:
            annotations[keys.LEASES] = format_leases(remaining)
        if any(access == "rw" and changes.shared.get(name) != "rw" for name, access in workspace.shared.items()):
            # Tokens of the workspace are with those who could run programs in it.
            annotations[keys.SHARE_GENERATION] = str(workspace.share_generation + 1)
    metadata: Plain = {"annotations": annotations} if annotations else {}
    if not isinstance(changes.labels, Unset):
        removed = {key: "" for key in workspace.labels if key not in changes.labels}
        metadata["labels"] = dict.fromkeys(owner_labels_on_object(removed)) | owner_labels_on_object(changes.labels)
    return {"metadata": metadata} if metadata else {}


def format_leases(leases: tuple[Lease, ...]) -> str | None:
    """Return leases as the text of their annotation; None, which removes it, without leases."""
    rows = [{"holder": lease.holder, "mode": lease.mode, "until": format_timestamp(lease.until)} for lease in leases]
    return _compact(rows) if rows else None


def read_timeout(annotations: Mapping[str, Any]) -> Timeout | None:
    """Return the timeout that annotations have; None without one that can be read."""
    value = parsed_object(annotations.get(keys.TIMEOUT)) or {}
    seconds, then = value.get("seconds"), value.get("then")
    if not isinstance(seconds, int) or isinstance(seconds, bool) or not 0 <= seconds < _LONGEST:
        return None
    return Timeout(seconds, then, value.get("wakes") is True) if then in {"delete", "suspend"} else None


def _with_annotations(workspace: Workspace, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Workspace:
    because = annotations.get(keys.SUSPENDED_BECAUSE)
    return replace(
        workspace,
        key=annotations.get(keys.KEY, ""),
        created_by=annotations.get(keys.CREATED_BY, ""),
        labels={
            key.removeprefix(keys.OWN_LABEL): value for key, value in labels.items() if key.startswith(keys.OWN_LABEL)
        },
        shared=_read_shared(annotations.get(keys.SHARED)),
        leases=_read_leases(annotations.get(keys.LEASES)),
        last_active=parse_timestamp(annotations.get(keys.LAST_ACTIVE)),
        busy_until=parse_timestamp(annotations.get(keys.BUSY_UNTIL)),
        wake_at=parse_timestamp(annotations.get(keys.WAKE_AT)),
        idle_after=_read_seconds(annotations.get(keys.IDLE_AFTER)),
        deadline=parse_timestamp(annotations.get(keys.DEADLINE)),
        timeout=read_timeout(annotations),
        ports=_read_ports(annotations.get(keys.PORTS)),
        token_generation=counted(annotations.get(keys.TOKEN_GENERATION)) or 0,
        share_generation=counted(annotations.get(keys.SHARE_GENERATION)) or 0,
        metadata=strings({"metadata": parsed(annotations.get(keys.METADATA))}, "metadata"),
        budget=read_amount(annotations.get(keys.BUDGET)),
        child_budgets=read_child_budgets(annotations.get(keys.CHILD_BUDGETS)),
        grants=read_grants(annotations.get(keys.GRANTS)),
        suspended_because=cast("Because", because) if because in get_args(Because) else None,
        deleted_at=parse_timestamp(annotations.get(keys.DELETED_AT)),
        destroy_after=parse_timestamp(annotations.get(keys.DESTROY_AFTER)),
        archive=annotations.get(keys.ARCHIVE),
        archive_ended=parse_timestamp(annotations.get(keys.ARCHIVE_ENDED)),
        parent=annotations.get(keys.PARENT_WORKSPACE),
        limited_teams=tuple(filter(is_text, _list(annotations.get(keys.TEAMS)))),
        size=_read_size(annotations.get(keys.SIZE)),
        current_size=_read_size(annotations.get(keys.CURRENT_SIZE)),
        size_pending=annotations.get(keys.SIZE_PENDING),
    )


def _list(annotation: str | None) -> list[object]:
    value = parsed(annotation)
    return cast("list[object]", value) if isinstance(value, list) else []


def _state(claim: Mapping[str, Any]) -> tuple[State, str]:
    if section(claim, "metadata").get("deletionTimestamp"):
        return "deleting", ""
    because = strings(section(claim, "metadata"), "annotations").get(keys.SUSPENDED_BECAUSE)
    if because == "moving":
        return "moving", "its node goes away, and it starts on another one"
    row = _condition(claim, "Ready")
    if is_claim_ready(claim):
        return ("running", "") if because is None else ("suspending", "its suspension has begun")
    reason, message = text(row, "reason"), text(row, "message")
    if reason == SUSPENDED:
        return "suspending" if message == SUSPENDING else "suspended", message
    if reason in FAILED or _condition(claim, "Finished").get("status") == "True":
        return "failed", message or reason
    return "creating", message


def _condition(claim: Mapping[str, Any], kind: str) -> Plain:
    return next((row for row in rows(section(claim, "status"), "conditions") if row.get("type") == kind), Plain())


def _mode(labels: Mapping[str, str]) -> Mode:
    label = labels.get(MODE_LABEL)
    for mode in keys.MODES:
        if mode == label:
            return mode
    return "user"


def _size_text(size: SizeName) -> str | None:
    return None if size == SMALL else size


def _read_size(annotation: str | None) -> SizeName:
    return cast("SizeName", annotation) if annotation in get_args(SizeName) else SMALL


def _shared(shared: Mapping[str, Access]) -> str:
    return _compact(dict(sorted(shared.items())))


def _format_timeout(timeout: Timeout) -> str:
    return _compact(asdict(timeout))


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _read_shared(annotation: str | None) -> dict[str, Access]:
    value = parsed(annotation)
    shares = cast("Plain", value) if isinstance(value, dict) else {}
    return {user: cast("Access", access) for user, access in shares.items() if is_text(user) and _is_access(access)}


def _ports(ports: Mapping[int, PortSharing]) -> str | None:
    return _compact({str(port): asdict(sharing) for port, sharing in sorted(ports.items())}) if ports else None


def _read_ports(annotation: str | None) -> dict[int, PortSharing]:
    """Return how ports are shared; one that cannot be read is private."""
    value = parsed(annotation)
    ports: dict[int, PortSharing] = {}
    for port, sharing in (cast("Plain", value) if isinstance(value, dict) else {}).items():
        number = counted(port)
        row = cast("Plain", sharing) if isinstance(sharing, dict) else {}
        teams, kind = row.get("teams"), row.get("sharing")
        shared_with = tuple(filter(is_text, cast("list[object]", teams))) if isinstance(teams, list) else ()
        if number and isinstance(kind, str) and kind in get_args(Sharing):
            ports[number] = PortSharing(cast("Sharing", kind), shared_with, row.get("wake") is True)
    return ports


def _read_leases(annotation: str | None) -> tuple[Lease, ...]:
    leases: list[Lease] = []
    for row in rows({"leases": parsed(annotation)}, "leases"):
        holder, until = text(row, "holder"), parse_timestamp(row.get("until"))
        if until and holder and _is_access(row.get("mode")):
            leases.append(Lease(holder, cast("Access", row["mode"]), until))
    return tuple(leases)


def _is_access(value: object) -> bool:
    return isinstance(value, str) and value in get_args(Access)


def _seconds(duration: timedelta | None) -> str | None:
    return None if duration is None else str(int(duration.total_seconds()))


def _read_seconds(annotation: str | None) -> timedelta | None:
    seconds = counted(annotation)
    return timedelta(seconds=seconds) if seconds is not None and seconds < _LONGEST else None
