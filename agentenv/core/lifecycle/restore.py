"""The objects that restore a deleted workspace: its retained volume becomes the home of a new sandbox.

A warm sandbox already has a home, so a restored workspace starts cold. The volume's claimRef names the volume claim.
The volume claim is created first and names the volume, so that no other is provisioned. The sandbox claim names a pool
that is always empty. The controller creates a sandbox with the name of the claim, which adopts the volume claim.

Files keep their uid and gid. In another class, a sandbox therefore runs with the ids of the class that its home was
created in: gVisor checks them itself, and the ids of an access point cannot change.
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
from agentenv.core.service.home_emptying import EMPTYING_LABEL
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
    RECOVERED_AT,
)

Plain = dict[str, Any]
Marks = dict[str, str | None]


# With this label the controller lets a sandbox adopt a volume claim that it did not create.
ADOPTABLE = "agents.x-k8s.io/adoptable"
# On a volume claim that waits for a restored workspace; and on a volume, the class that its workspace changes to.
RETURNING_LABEL = "sandbox.users.io/returning"
MOVING_TO = "sandbox.users.io/moving-to"
# On a volume: since when its workspace is being restored. It is not orphaned meanwhile.
RETURNING_SINCE = "sandbox.users.io/returning-since"
# The uid of no volume claim: with it in its claimRef, a volume is released.
NOBODY = "00000000-0000-4000-8000-000000000000"


def home_name(claim_name: str) -> str:
    """Return the name of the volume claim of a sandbox that starts cold."""
    return f"{HOME}-{claim_name}"


def home_class(volume: Mapping[str, Any]) -> str:
    """Return the class whose uid and gid a volume's files have."""
    labels = section(section(volume, "metadata"), "labels")
    within = text(section(section(volume, "spec"), "claimRef"), "namespace")
    return text(labels, HOME_CLASS_LABEL) or within.removeprefix(namespace(""))


def used_class(volume: Mapping[str, Any]) -> str:
    """Return the class that a volume is used in, or was when it was last used."""
    within = text(section(section(volume, "spec"), "claimRef"), "namespace")
    return within.removeprefix(namespace("")) if within.startswith(namespace("")) else home_class(volume)


def bind_patch(volume: Mapping[str, Any], space: str, name: str) -> Plain:
    """Return the patch that reserves a volume for the volume claim of a name; empty if it is reserved already."""
    current = section(section(volume, "spec"), "claimRef")
    changes: Plain = {}
    if (current.get("namespace"), current.get("name")) != (space, name) or current.get("uid"):
        # Without a uid it binds to the volume claim of that name once that exists.
        ref = {"namespace": space, "name": name, "uid": None, "resourceVersion": None}
        changes["spec"] = {"claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **ref}}
    made_in = home_class(volume)
    if namespace(made_in) != space:
        # In another class, volume claims may only use that class's storage classes, or none with a volumeName.
        changes.setdefault("spec", {})["storageClassName"] = ""
        changes["metadata"] = {"labels": {HOME_CLASS_LABEL: made_in}}
    return changes


def volume_claim(volume: Mapping[str, Any], space: str, claim_name: str, most: str | None) -> Plain:
    """Return the volume claim of a restored workspace; `most` is the current size of homes in the class."""
    spec: Plain = volume["spec"]
    own = namespace(home_class(volume)) == space
    size = spec["capacity"]["storage"]
    # No larger than the volume, and no larger than the class allows.
    requested = size if most is None or _quantity(size) <= _quantity(most) else most
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
            "resources": {"requests": {"storage": requested}},
        },
    }


def shared_volume_claim(volume_claim: Mapping[str, Any], volume: Mapping[str, Any]) -> Plain:
    """Return the claim of a task's shared volume, for the retained volume."""
    spec: Plain = {**volume_claim["spec"], "volumeName": required(volume, "metadata", "name")}
    spec |= {"storageClassName": text(section(volume, "spec"), "storageClassName")}
    size, most = required(volume, "spec", "capacity", "storage"), spec["resources"]["requests"]["storage"]
    spec["resources"] = {"requests": {"storage": size if _quantity(size) <= _quantity(most) else most}}
    return {**volume_claim, "spec": spec}


def restored_claim(volume: Mapping[str, Any], class_name: str, template: str) -> Plain:
    """Return the claim that restores a deleted workspace, from the records on its volume."""
    metadata: Plain = volume["metadata"]
    labels: Plain = metadata.get("labels") or {}
    annotations: Plain = metadata.get("annotations") or {}
    restored = claim(
        class_name,
        cold_pool(template),
        labels[WORKSPACE_LABEL],
        owner=labels[USER_LABEL],
        workspace=labels[WORKSPACE_LABEL],
        mode=labels.get(MODE_LABEL, "user"),
        task=labels.get(TASK_LABEL),
    )
    restored["metadata"]["annotations"] = {key: annotations[key] for key in RECORD if key in annotations}
    restored["metadata"]["labels"] |= {key: value for key, value in labels.items() if key.startswith(OWN_LABEL)}
    return restored


# The records of a deletion on a volume.
DATES = (DELETED_AT, DESTROY_AFTER, MOVING_TO)
MARKS = (DESTROY_REQUESTED,)
# The patch that removes the records of a deletion, and of the end of a chat, once a workspace is restored.
UNDATED: Plain = {
    "metadata": {
        "annotations": dict.fromkeys((*DATES, RETURNING_SINCE, ARCHIVE_ENDED, RECOVERED_AT)),
        "labels": dict.fromkeys(MARKS),
    }
}
# Estimated seconds until requested destruction is done: of a released volume, and of one whose pod must end first. The
# Job that empties a home of some thousand files takes half a minute of them.
_UNTIL_DESTROYED, _UNTIL_RELEASED = 45, 75


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

    A deletion is recorded once: a repeated one keeps the timestamp (`deletion_time`). Without a retention period the
    data is destroyed and cannot be restored. Once the claim is `going`, no later request changes that.
    """
    if going and destroy_requested(volume):
        keep_for = timedelta(0)
    recorded = parse_timestamp(_annotations(volume).get(DELETED_AT))
    deleted = deletion_time(recorded, created, now, going=going)
    annotations: Marks = {DELETED_AT: format_timestamp(deleted), DESTROY_AFTER: format_timestamp(deleted + keep_for)}
    # It ends an earlier change of class, and a restore.
    annotations |= {MOVING_TO: moving_to if keep_for else None, RETURNING_SINCE: None}
    return annotations, {DESTROY_REQUESTED: None if keep_for else "true"}


def shorten_retention_patch(volume: Mapping[str, Any], now: datetime, keep_for: timedelta) -> tuple[Marks, Marks]:
    """Return the annotations and labels that shorten the retention of a deleted workspace's volume.

    The retention never becomes longer, and the timestamp of the deletion stays. Both are empty if nothing changes.
    """
    current = _annotations(volume)
    deleted, due = parse_timestamp(current.get(DELETED_AT)), parse_timestamp(current.get(DESTROY_AFTER))
    # Another replica may have deleted it, with a clock that is ahead.
    end = max(now, deleted or now) + keep_for
    annotations: Marks = {MOVING_TO: None} if MOVING_TO in current else {}
    if deleted is None and RECOVERED_AT in current:
        annotations |= {DELETED_AT: format_timestamp(now), RECOVERED_AT: None}
    if due is None or due > end:
        annotations[DESTROY_AFTER] = format_timestamp(end)
    if keep_for or destroy_requested(volume):
        return annotations, {}
    return {**annotations, RETURNING_SINCE: None}, {DESTROY_REQUESTED: "true"}


def destroy_requested(volume: Mapping[str, Any]) -> bool:
    """Return whether the destruction of a volume's data was requested."""
    return DESTROY_REQUESTED in section(section(volume, "metadata"), "labels")


def being_destroyed(volume: Mapping[str, Any]) -> bool:
    """Return whether a deleted workspace can no longer be restored from its volume."""
    if EMPTYING_LABEL in section(section(volume, "metadata"), "labels"):
        return True
    return destroy_requested(volume) or text(section(volume, "spec"), "persistentVolumeReclaimPolicy") == "Delete"


def seconds_until_gone(volume: Mapping[str, Any]) -> int:
    """Return the estimated seconds until data that is being destroyed is gone."""
    return _UNTIL_RELEASED if text(section(volume, "status"), "phase") == "Bound" else _UNTIL_DESTROYED


def home_class_template_name(template: str, made_in: str) -> str:
    """Return the name of the template and pool for homes of another class."""
    return fit(f"{template}-as-{made_in}", KINDS["kubernetes-label"].limit)


def home_class_template(template: Mapping[str, Any], made_in: str, ids: int) -> tuple[Plain, Plain]:
    """Return a copy of a template with the ids of the class that a home was created in, and its empty pool."""
    metadata: Plain = template["metadata"]
    name = home_class_template_name(metadata["name"], made_in)
    # It has no channel, because the stack does not name it: it is deleted when no claim names it.
    labels: dict[str, str] = dict(metadata.get("labels") or {})
    labels.pop(CHANNEL_LABEL, None)
    head: Plain = {"apiVersion": EXTENSIONS, "kind": "SandboxTemplate"}
    copied: Plain = {"name": name, "namespace": metadata["namespace"], "labels": {**labels, HOME_CLASS_LABEL: made_in}}
    spec: Plain = deepcopy(dict(template["spec"]))
    pod: Plain = spec["podTemplate"]
    pod["metadata"]["labels"][HOME_CLASS_LABEL] = made_in
    pod["spec"]["securityContext"] |= {"runAsUser": ids, "runAsGroup": ids}
    pool: Plain = {
        "apiVersion": EXTENSIONS,
        "kind": "SandboxWarmPool",
        "metadata": deepcopy(copied),
        "spec": {"replicas": 0, "sandboxTemplateRef": {"name": name}, "updateStrategy": {"type": "Recreate"}},
    }
    return {**head, "metadata": copied, "spec": spec}, pool


def _annotations(volume: Mapping[str, Any]) -> Plain:
    return section(section(volume, "metadata"), "annotations")


def _quantity(size: str) -> Decimal:
    return Quantity.parse(size).value
