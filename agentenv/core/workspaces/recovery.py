"""Records of homes outside of the cluster, from which their volumes are created again in another cluster.

Everything about a workspace is in Kubernetes: on its claim, and on the volume of its home. The record of a home has
what both of them know. From it, and from the access point that still exists, the volume is created again. A workspace
that was not deleted is then suspended, without a claim: a request or traffic restores it, as it restores a deleted one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, cast

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import (
    HOME,
    HOME_CLASS_LABEL,
    MODE_LABEL,
    TASK_LABEL,
    USER_LABEL,
    WORKSPACE_LABEL,
    namespace,
)
from agentenv.core.classes.storage_classes import DRIVER
from agentenv.core.guardrails.volumes import PROVISIONED_BY
from agentenv.core.lifecycle.restore import DATES, MARKS, NOBODY
from agentenv.core.lifecycle.retention import HOLD
from agentenv.core.values.object_fields import section, strings, text
from agentenv.core.values.timestamps import format_timestamp
from agentenv.core.workspaces.swarms import REQUESTED_COUNT
from agentenv.core.workspaces.workspace import ARCHIVE_ENDED, OWN_LABEL, RECORD, RECOVERED_AT, workspace_id

Plain = dict[str, Any]

_LABELS = (USER_LABEL, WORKSPACE_LABEL, MODE_LABEL, TASK_LABEL, HOME_CLASS_LABEL, CLASS_LABEL, *MARKS)
_ANNOTATIONS = (*RECORD, *DATES, ARCHIVE_ENDED, HOLD, REQUESTED_COUNT, RECOVERED_AT)


@dataclass(frozen=True)
class HomeRecord:
    """The data that the volume of a home is created again from."""

    volume: str
    handle: str
    namespace: str  # of its volume claim, and below its name
    claim: str
    storage_class: str
    capacity: str
    access_modes: tuple[str, ...]
    mount_options: tuple[str, ...]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]

    @property
    def owner(self) -> str:
        """Return the owner of the home."""
        return self.labels.get(USER_LABEL, "")

    def as_text(self) -> str:
        """Return the record as JSON, always the same for the same record."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))


def home_record(volume: Mapping[str, Any], claim: Mapping[str, Any] | None) -> HomeRecord | None:
    """Return the record of a volume, and of the claim of its workspace if that exists; None without an owner."""
    metadata, spec = section(volume, "metadata"), section(volume, "spec")
    labels, annotations = strings(metadata, "labels"), strings(metadata, "annotations")
    if not labels.get(USER_LABEL) or section(spec, "csi").get("driver") != DRIVER:
        return None
    if annotations.get(PROVISIONED_BY) != DRIVER:  # of a declared seat: the stack creates it again
        return None
    of_claim = section(claim or {}, "metadata")
    claim_annotations = strings(of_claim, "annotations")
    # The claim is newer than what an earlier deletion left on the volume.
    known = {**annotations, **dict.fromkeys(RECORD, ""), **claim_annotations} if claim else annotations
    own = {
        key: value
        for key, value in (strings(of_claim, "labels") if claim else labels).items()
        if key.startswith(OWN_LABEL)
    }
    ref = section(spec, "claimRef")
    return HomeRecord(
        volume=text(metadata, "name"),
        handle=text(section(spec, "csi"), "volumeHandle"),
        namespace=text(ref, "namespace"),
        claim=text(ref, "name"),
        storage_class=text(spec, "storageClassName"),
        capacity=text(section(spec, "capacity"), "storage"),
        access_modes=tuple(map(str, spec.get("accessModes") or ())),
        mount_options=tuple(map(str, spec.get("mountOptions") or ())),
        labels={key: labels[key] for key in _LABELS if key in labels} | own,
        annotations={key: known[key] for key in _ANNOTATIONS if known.get(key)},
    )


def record_from_text(document: str) -> HomeRecord:
    """Return a record from its JSON; raise `ValueError` where it has another shape."""
    fields = json.loads(document)
    row = cast("Plain", fields) if isinstance(fields, dict) else Plain()
    record = HomeRecord(
        **{key: text(row, key) for key in ("volume", "handle", "namespace", "claim", "storage_class", "capacity")},
        access_modes=tuple(map(str, row.get("access_modes") or ())),
        mount_options=tuple(map(str, row.get("mount_options") or ())),
        labels=strings(row, "labels"),
        annotations=strings(row, "annotations"),
    )
    if not (record.owner and record.volume and record.handle and record.namespace and record.claim):
        raise ValueError("the record of a home has no owner, volume or claim")
    return record


def record_of_point(handle: str, owner: str, class_name: str, storage_class: str, capacity: str) -> HomeRecord:
    """Return a record for an access point of which only the tags are known. Its workspace gets an id of its own."""
    point = handle.partition("::")[2]
    id_ = workspace_id(owner, f"recovered:{point}")
    return HomeRecord(
        volume=f"recovered-{point}",
        handle=handle,
        namespace=namespace(class_name),
        claim=f"{HOME}-{id_}",
        storage_class=storage_class,
        capacity=capacity,
        access_modes=("ReadWriteMany",),
        mount_options=("tls", "iam"),
        labels={USER_LABEL: owner, WORKSPACE_LABEL: id_, MODE_LABEL: "user"},
        annotations={},
    )


def recovered_volume(record: HomeRecord, now: datetime) -> Plain:
    """Return the volume of a record: released, retained, and marked unless its workspace was deleted."""
    deleted = any(key in record.annotations for key in DATES) or any(key in record.labels for key in MARKS)
    mark = {} if deleted else {RECOVERED_AT: format_timestamp(now)}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": record.volume,
            "labels": dict(record.labels),
            "annotations": {**record.annotations, PROVISIONED_BY: DRIVER, **mark},
        },
        "spec": {
            "accessModes": list(record.access_modes),
            "capacity": {"storage": record.capacity},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": record.namespace,
                "name": record.claim,
                # No volume claim has it, so that the volume is released until its workspace is restored.
                "uid": NOBODY,
            },
            "csi": {"driver": DRIVER, "volumeHandle": record.handle},
            "mountOptions": list(record.mount_options),
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": record.storage_class,
        },
    }
