"""Workspaces as they stand on objects: read from a claim or from the volume of a deleted one, and written to them.

Reading is lenient: an annotation that somebody spoiled by hand makes a workspace that lacks it, never one that cannot
be listed or deleted any more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, cast, get_args

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import KEPT, MODE_LABEL, TASK_LABEL, USER_LABEL, WORKSPACE_LABEL
from agentenv.core.values.object_fields import (
    counted,
    is_text,
    parsed,
    read_amount,
    required,
    rows,
    section,
    strings,
    text,
)
from agentenv.core.values.timestamps import format_timestamp, parse_timestamp
from agentenv.core.workspaces import workspace as words
from agentenv.core.workspaces.workspace import (
    UNSET,
    Access,
    Because,
    Changes,
    CreateRequest,
    Lease,
    Mode,
    State,
    Unset,
    Workspace,
)

Plain = dict[str, Any]

# Reasons of a claim's Ready condition; whatever else it says passes by itself.
SUSPENDED = "SandboxSuspended"
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
    """The workspace of a claim; None where nobody's name is on it, `UnreadableError` where it has none itself."""
    about = section(claim, "metadata")
    labels, notes = strings(about, "labels"), strings(about, "annotations")
    owner = labels.get(USER_LABEL, "")
    if not owner:
        return None
    sandbox = section(section(claim, "status"), "sandbox")
    addresses: object = sandbox.get("podIPs")
    state, why = _state(claim)
    read = Workspace(
        id=required(claim, "metadata", "name"),
        owner=owner,
        class_name=labels.get(CLASS_LABEL) or required(claim, "metadata", "namespace").removeprefix("sandbox-"),
        mode=_mode(labels),
        state=state,
        created=parse_timestamp(about.get("creationTimestamp")),
        claim_uid=text(about, "uid"),
        version=text(about, "resourceVersion"),
        pool=text(section(section(claim, "spec"), "warmPoolRef"), "name"),
        sandbox=text(sandbox, "name") or None,
        addresses=tuple(filter(is_text, cast("list[object]", addresses))) if isinstance(addresses, list) else (),
        task=labels.get(TASK_LABEL),
        kept=notes.get(KEPT) == "true",
        cold=notes.get(words.COLD),
        why=why,
        turned=parse_timestamp(_condition(claim, "Ready").get("lastTransitionTime")),
    )
    return _with_annotations(read, labels, notes)


def workspace_of_volume(volume: Mapping[str, Any]) -> Workspace | None:
    """The deleted workspace whose data a volume keeps; None where it is nobody's, or its workspace stands.

    `UnreadableError` where the volume has no name.
    """
    about = section(volume, "metadata")
    labels, notes = strings(about, "labels"), strings(about, "annotations")
    owner, name = labels.get(USER_LABEL, ""), labels.get(WORKSPACE_LABEL, "")
    if not owner or not name or words.DELETED_AT not in notes:
        return None
    read = Workspace(
        id=name,
        owner=owner,
        class_name=text(section(section(volume, "spec"), "claimRef"), "namespace").removeprefix("sandbox-"),
        mode=_mode(labels),
        state="deleted",
        created=parse_timestamp(about.get("creationTimestamp")),
        version=text(about, "resourceVersion"),
        volume=required(volume, "metadata", "name"),
        task=labels.get(TASK_LABEL),
        kept=True,
    )
    return _with_annotations(read, labels, notes)


def has_other_owner(volume: Mapping[str, Any], owner: str) -> bool:
    """Whether a volume says that it is somebody else's: it says whose it is for as long as it stands."""
    return section(section(volume, "metadata"), "labels").get(USER_LABEL, owner) != owner


def is_claim_ready(claim: Mapping[str, Any]) -> bool:
    """Whether a claim's sandbox can be used."""
    return _condition(claim, "Ready").get("status") == "True" and bool(section(section(claim, "status"), "sandbox"))


def claim_annotations(asked: CreateRequest, now: datetime) -> dict[str, str]:
    """The annotations that a claim is made with."""
    found = {
        words.KEY: asked.fingerprint,
        words.CREATED_BY: asked.created_by,
        words.LAST_ACTIVE: format_timestamp(now),
        words.SHARED: _shared(asked.shared) if asked.shared else None,
        words.IDLE_AFTER: _seconds(asked.idle_after),
        words.DEADLINE: format_timestamp(asked.deadline) if asked.deadline else None,
        words.BUDGET: None if asked.budget is None else str(asked.budget),
        words.ARCHIVE: asked.archive,
        words.PARENT_WORKSPACE: asked.parent,
    }
    return {key: value for key, value in found.items() if value is not None}


def owner_labels_on_object(labels: Mapping[str, str]) -> dict[str, str]:
    """An owner's own labels as they stand on objects."""
    return {f"{words.OWN_LABEL}{key}": value for key, value in labels.items()}


def workspace_patch(read: Workspace, changes: Changes) -> Plain:
    """The merge of changes into what they are made to, but for the class: that is another claim."""
    notes: dict[str, str | None] = {}
    simple: tuple[tuple[str, Any, Callable[[Any], str | None]], ...] = (
        (words.SHARED, changes.shared, _shared),
        (words.IDLE_AFTER, changes.idle_after, _seconds),
        (words.DEADLINE, changes.deadline, format_timestamp),
        (words.BUDGET, changes.budget, str),
        (words.ARCHIVE, changes.archive, str),
        (words.BUSY_UNTIL, changes.busy_until, format_timestamp),
        (words.WAKE_AT, changes.wake_at, format_timestamp),
        (words.LAST_ACTIVE, changes.last_active, format_timestamp),
    )
    for key, value, write in simple:
        if value is not UNSET:
            notes[key] = None if value is None else write(cast("Any", value))
    about: Plain = {"annotations": notes} if notes else {}
    if not isinstance(changes.labels, Unset):
        gone = dict.fromkeys(owner_labels_on_object({key: "" for key in read.labels if key not in changes.labels}))
        about["labels"] = gone | owner_labels_on_object(changes.labels)
    return {"metadata": about} if about else {}


def format_leases(leases: tuple[Lease, ...]) -> str | None:
    """Leases as they stand on a claim; none at all take the annotation away."""
    rows = [{"holder": one.holder, "mode": one.mode, "until": format_timestamp(one.until)} for one in leases]
    return json.dumps(rows, separators=(",", ":")) if rows else None


def _with_annotations(read: Workspace, labels: Mapping[str, str], notes: Mapping[str, str]) -> Workspace:
    because = notes.get(words.SUSPENDED_BECAUSE)
    return replace(
        read,
        key=notes.get(words.KEY, ""),
        created_by=notes.get(words.CREATED_BY, ""),
        labels={
            key.removeprefix(words.OWN_LABEL): value for key, value in labels.items() if key.startswith(words.OWN_LABEL)
        },
        shared=_read_shared(notes.get(words.SHARED)),
        leases=_read_leases(notes.get(words.LEASES)),
        last_active=parse_timestamp(notes.get(words.LAST_ACTIVE)),
        busy_until=parse_timestamp(notes.get(words.BUSY_UNTIL)),
        wake_at=parse_timestamp(notes.get(words.WAKE_AT)),
        idle_after=_read_seconds(notes.get(words.IDLE_AFTER)),
        deadline=parse_timestamp(notes.get(words.DEADLINE)),
        budget=read_amount(notes.get(words.BUDGET)),
        suspended_because=cast("Because", because) if because in get_args(Because) else None,
        deleted_at=parse_timestamp(notes.get(words.DELETED_AT)),
        destroy_after=parse_timestamp(notes.get(words.DESTROY_AFTER)),
        archive=notes.get(words.ARCHIVE),
        archive_ended=parse_timestamp(notes.get(words.ARCHIVE_ENDED)),
        parent=notes.get(words.PARENT_WORKSPACE),
    )


def _state(claim: Mapping[str, Any]) -> tuple[State, str]:
    if section(claim, "metadata").get("deletionTimestamp"):
        return "deleting", ""
    row = _condition(claim, "Ready")
    if is_claim_ready(claim):
        return "running", ""
    reason, message = text(row, "reason"), text(row, "message")
    if reason == SUSPENDED:
        return "suspended", message
    if reason in FAILED or _condition(claim, "Finished").get("status") == "True":
        return "failed", message or reason
    return "creating", message


def _condition(claim: Mapping[str, Any], kind: str) -> Plain:
    return next((row for row in rows(section(claim, "status"), "conditions") if row.get("type") == kind), Plain())


def _mode(labels: Mapping[str, str]) -> Mode:
    found = labels.get(MODE_LABEL)
    for mode in words.MODES:
        if mode == found:
            return mode
    return "user"


def _shared(shared: Mapping[str, Access]) -> str:
    return json.dumps(dict(sorted(shared.items())), separators=(",", ":"))


def _read_shared(note: str | None) -> dict[str, Access]:
    read = parsed(note)
    shares = cast("Plain", read) if isinstance(read, dict) else {}
    return {who: cast("Access", access) for who, access in shares.items() if is_text(who) and _is_access(access)}


def _read_leases(note: str | None) -> tuple[Lease, ...]:
    read = parsed(note)
    found: list[Lease] = []
    for row in rows({"leases": read}, "leases"):
        holder, until = text(row, "holder"), parse_timestamp(row.get("until"))
        if until and holder and _is_access(row.get("mode")):
            found.append(Lease(holder, cast("Access", row["mode"]), until))
    return tuple(found)


def _is_access(value: object) -> bool:
    return isinstance(value, str) and value in get_args(Access)


def _seconds(time: timedelta | None) -> str | None:
    return None if time is None else str(int(time.total_seconds()))


def _read_seconds(note: str | None) -> timedelta | None:
    seconds = counted(note)
    return timedelta(seconds=seconds) if seconds is not None and seconds < 10**9 else None
