"""How somebody comes back to their files: the documents by which a kept volume becomes the home of a new sandbox.

A warm sandbox has a home already, so whoever comes back starts cold: the volume is told whose it will be, the volume
claim is made beforehand and names it, so that no other one is ever made for it, and the claim is of a pool that is
always empty. The sandbox that upstream makes is called like its claim, and takes the volume claim that waits for it.

Files keep the owner that they were written as. In another class a sandbox therefore runs with the ids of the class that
its home was made in: gVisor looks at them itself, and an access point's ids can never be changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import (
    CHANNEL_LABEL,
    EXTENSIONS,
    HOME,
    HOME_CLASS_LABEL,
    MODE_LABEL,
    TASK_LABEL,
    USER_LABEL,
    WORKSPACE_LABEL,
    cold_pool,
    namespace,
)
from agentenv.core.lifecycle.retention import deletion_time
from agentenv.core.values.names import KINDS, fit
from agentenv.core.values.object_fields import required, section, text
from agentenv.core.values.quantities import Quantity
from agentenv.core.values.timestamps import format_timestamp, parse_timestamp
from agentenv.core.workspaces.claims import claim
from agentenv.core.workspaces.workspace import (
    ARCHIVE_ENDED,
    DELETED_AT,
    DESTROY_AFTER,
    DESTROY_REQUESTED,
    OWN_LABEL,
    RECORD,
)

Plain = dict[str, Any]
Marks = dict[str, str | None]

# By this upstream knows that a sandbox may take a volume claim that it did not make.
ADOPTABLE = "agents.x-k8s.io/adoptable"
# A volume claim that waits for whoever comes back; and the class that a volume's workspace is on its way to.
RETURNING_LABEL = "sandbox.users.io/returning"
MOVING_TO = "sandbox.users.io/moving-to"
# Since when somebody is coming back to a volume; with it nobody takes it for one that is nobody's.
RETURNING_SINCE = "sandbox.users.io/returning-since"
# Let go of by nobody that ever was: the API server then says that it is released.
NOBODY = "00000000-0000-4000-8000-000000000000"
_MADE_IN = "efs-"


def home_name(claim_name: str) -> str:
    """The volume claim of the sandbox that a claim starts cold."""
    return f"{HOME}-{claim_name}"


def home_class(volume: Mapping[str, Any]) -> str:
    """The class with whose ids a volume's files were written."""
    labels = section(section(volume, "metadata"), "labels")
    within = text(section(section(volume, "spec"), "claimRef"), "namespace")
    return text(labels, HOME_CLASS_LABEL) or within.removeprefix(namespace(""))


def bind_patch(volume: Mapping[str, Any], space: str, name: str) -> Plain:
    """The change by which a volume waits for the volume claim of a name; nothing where it does already."""
    now = section(section(volume, "spec"), "claimRef")
    changes: Plain = {}
    if (now.get("namespace"), now.get("name")) != (space, name) or now.get("uid"):
        # Without an id it is free for the claim of that name, whenever that is made.
        ref = {"namespace": space, "name": name, "uid": None, "resourceVersion": None}
        changes["spec"] = {"claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **ref}}
    made_in = home_class(volume)
    if namespace(made_in) != space:
        # Another class's claims know only their own storage classes, or none: then the volume has to be named.
        changes.setdefault("spec", {})["storageClassName"] = ""
        changes["metadata"] = {"labels": {HOME_CLASS_LABEL: made_in}}
    return changes


def volume_claim(volume: Mapping[str, Any], space: str, claim_name: str, most: str | None) -> Plain:
    """The volume claim of who comes back; `most` is the size that homes of the class have now."""
    spec: Plain = volume["spec"]
    own = namespace(home_class(volume)) == space
    size = spec["capacity"]["storage"]
    # No larger than the volume, and no larger than the class lets anybody ask for.
    asked = size if most is None or _quantity(size) <= _quantity(most) else most
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": home_name(claim_name),
            "namespace": space,
            "labels": {CLASS_LABEL: space.removeprefix(namespace("")), ADOPTABLE: "true", RETURNING_LABEL: "true"},
        },
        "spec": {
            "accessModes": spec["accessModes"],
            "storageClassName": spec.get("storageClassName", "") if own else "",
            "volumeName": volume["metadata"]["name"],
            "resources": {"requests": {"storage": asked}},
        },
    }


def shared_volume_claim(volume_claim: Mapping[str, Any], volume: Mapping[str, Any]) -> Plain:
    """Return the claim of what a task's sandboxes share, on the volume that was kept of it."""
    of: Plain = section(volume, "spec")
    spec: Plain = {**volume_claim["spec"], "volumeName": required(volume, "metadata", "name")}
    spec |= {"storageClassName": text(of, "storageClassName")}
    size, most = required(of, "capacity", "storage"), spec["resources"]["requests"]["storage"]
    spec["resources"] = {"requests": {"storage": size if _quantity(size) <= _quantity(most) else most}}
    return {**volume_claim, "spec": spec}


def restored_claim(volume: Mapping[str, Any], class_name: str, template: str) -> Plain:
    """The claim by which a deleted workspace stands again, as its volume remembers it."""
    about: Plain = volume["metadata"]
    labels: Plain = about.get("labels") or {}
    notes: Plain = about.get("annotations") or {}
    made = claim(
        class_name,
        cold_pool(template),
        labels[WORKSPACE_LABEL],
        owner=labels[USER_LABEL],
        workspace=labels[WORKSPACE_LABEL],
        mode=labels.get(MODE_LABEL, "user"),
        task=labels.get(TASK_LABEL),
    )
    made["metadata"]["annotations"] = {key: notes[key] for key in RECORD if key in notes}
    made["metadata"]["labels"] |= {key: value for key, value in labels.items() if key.startswith(OWN_LABEL)}
    return made


# What a volume says of its deletion.
DATES = (DELETED_AT, DESTROY_AFTER, MOVING_TO)
MARKS = (DESTROY_REQUESTED,)
# Once its workspace stands again, a volume was not deleted; and whoever came back has had the end of their chat.
UNDATED: Plain = {
    "metadata": {
        "annotations": dict.fromkeys((*DATES, RETURNING_SINCE, ARCHIVE_ENDED)),
        "labels": dict.fromkeys(MARKS),
    }
}
# Seconds until requested destruction is done: by the loop that does it and the driver, and by a pod that ends first.
_UNTIL_DESTROYED, _UNTIL_RELEASED = 15, 45


def deletion_patch(
    volume: Mapping[str, Any],
    created: datetime | None,
    now: datetime,
    keep_for: timedelta,
    *,
    going: bool = False,
    moving_to: str | None = None,
) -> tuple[Marks, Marks]:
    """Return the annotations and labels of a volume when its claim is deleted and its data is kept for so long.

    A deletion is recorded once: a repeated one keeps the timestamp (`deletion_time`). Data that is not kept at all is
    to be destroyed: nobody returns to it. Once the claim is `going`, no later request takes that back.
    """
    if going and destroy_requested(volume):
        keep_for = timedelta(0)
    recorded = parse_timestamp(_annotations(volume).get(DELETED_AT))
    deleted = deletion_time(recorded, created, now, going=going)
    notes: Marks = {DELETED_AT: format_timestamp(deleted), DESTROY_AFTER: format_timestamp(deleted + keep_for)}
    # Any other move of it is over; whoever was returning to it is there, or came too late.
    notes |= {MOVING_TO: moving_to if keep_for else None, RETURNING_SINCE: None}
    return notes, {DESTROY_REQUESTED: None if keep_for else "true"}


def shorten_retention_patch(volume: Mapping[str, Any], now: datetime, keep_for: timedelta) -> tuple[Marks, Marks]:
    """Return the annotations and labels that shorten how long a deleted workspace's volume is kept.

    Nothing makes it longer, and the timestamp of its deletion stays. Both are empty where nothing changes.
    """
    said = _annotations(volume)
    deleted, due = parse_timestamp(said.get(DELETED_AT)), parse_timestamp(said.get(DESTROY_AFTER))
    # Another replica may have deleted it, by a clock that is ahead of ours.
    end = max(now, deleted or now) + keep_for
    notes: Marks = {MOVING_TO: None} if MOVING_TO in said else {}
    if due is None or due > end:
        notes[DESTROY_AFTER] = format_timestamp(end)
    if keep_for or destroy_requested(volume):
        return notes, {}
    return {**notes, RETURNING_SINCE: None}, {DESTROY_REQUESTED: "true"}


def destroy_requested(volume: Mapping[str, Any]) -> bool:
    """Return whether the destruction of a volume's data was requested."""
    return DESTROY_REQUESTED in section(section(volume, "metadata"), "labels")


def being_destroyed(volume: Mapping[str, Any]) -> bool:
    """Return whether nobody may return to a deleted workspace's volume any more."""
    return destroy_requested(volume) or text(section(volume, "spec"), "persistentVolumeReclaimPolicy") == "Delete"


def seconds_until_gone(volume: Mapping[str, Any]) -> int:
    """Return an estimate of when data that is being destroyed is gone."""
    return _UNTIL_RELEASED if text(section(volume, "status"), "phase") == "Bound" else _UNTIL_DESTROYED


def home_class_template_name(template: str, made_in: str) -> str:
    """The template and the pool for homes of another class."""
    return fit(f"{template}-as-{made_in}", KINDS["kubernetes-label"].limit)


def home_class_template(template: Mapping[str, Any], made_in: str, ids: int) -> tuple[Plain, Plain]:
    """A template like another, with the ids of the class that a home was made in; and its pool, always empty."""
    about: Plain = template["metadata"]
    name = home_class_template_name(about["name"], made_in)
    # Of no channel: nothing in the stack names it, so it goes when nobody claims by it any more.
    labels: dict[str, str] = dict(about.get("labels") or {})
    labels.pop(CHANNEL_LABEL, None)
    head: Plain = {"apiVersion": EXTENSIONS, "kind": "SandboxTemplate"}
    where: Plain = {"name": name, "namespace": about["namespace"], "labels": {**labels, HOME_CLASS_LABEL: made_in}}
    spec: Plain = deepcopy(dict(template["spec"]))
    pod: Plain = spec["podTemplate"]
    pod["metadata"]["labels"][HOME_CLASS_LABEL] = made_in
    pod["spec"]["securityContext"] |= {"runAsUser": ids, "runAsGroup": ids}
    pool: Plain = {
        "apiVersion": EXTENSIONS,
        "kind": "SandboxWarmPool",
        "metadata": deepcopy(where),
        "spec": {"replicas": 0, "sandboxTemplateRef": {"name": name}, "updateStrategy": {"type": "Recreate"}},
    }
    return {**head, "metadata": where, "spec": spec}, pool


def _annotations(volume: Mapping[str, Any]) -> Plain:
    return section(section(volume, "metadata"), "annotations")


def _quantity(size: str) -> Decimal:
    return Quantity.parse(size).value
