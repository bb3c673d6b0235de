"""Attempts to get another owner's files through volumes."""

from __future__ import annotations

from typing import Any

from agentenv.core.classes.names import USER_LABEL, WORKSPACE_LABEL
from agentenv.core.guardrails.principals import METER
from agentenv.core.lifecycle.retention import HOLD
from agentenv.core.workspaces import seats
from agentenv.core.workspaces.workspace import DELETED_AT, DESTROY_AFTER, DESTROY_REQUESTED
from tests.live.guardrails.attempts.attempt import Attempt, Table, changed, create, merge, patch, put, volume_path
from tests.live.guardrails.guarded import (
    BINDER,
    CONTROLLER,
    DEPLOYER,
    INSIDER,
    POINT,
    PROVISIONER,
    SERVICE,
    Guarded,
    Object,
    seat,
    volume,
)

ATTEMPTS: list[Attempt] = []
_FOREIGN = "fs-0fedcba9876543210"
_DISK = {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-0123456789abcdef0"}


def _handle(text: str) -> Any:
    def change(guarded: Guarded) -> Object:
        return changed(volume, put("spec.csi.volumeHandle", text.format(ours=guarded.file_system)))(guarded)

    return create(change)


def _files(guarded: Guarded) -> Object:
    found = volume(guarded)
    found["spec"].pop("csi")
    found["spec"]["nfs"] = {"server": f"{guarded.file_system}.efs.us-east-1.amazonaws.com", "path": "/"}
    return found


def _of_node(guarded: Guarded) -> Object:
    found = volume(guarded)
    found["spec"].pop("csi")
    found["spec"].pop("mountOptions")
    return {**found, "spec": {**found["spec"], "hostPath": {"path": "/"}}}


_volumes = Table("volumes", ATTEMPTS)
_volumes.refused("volume-handle", "all of a file system", DEPLOYER, _handle("{ours}"))
_volumes.refused("volume-handle", "a folder of a file system", DEPLOYER, _handle("{ours}:/homes"))
_volumes.refused("volume-handle", "a folder beside an access point", DEPLOYER, _handle("{ours}:/x:" + POINT))
_volumes.refused("volume-handle", "a foreign file system's access point", DEPLOYER, _handle(f"{_FOREIGN}::{POINT}"))
_volumes.refused("volume-handle", "no claim", DEPLOYER, create(changed(volume, put("spec.claimRef", None))))
_volumes.refused(
    "volume-handle", "no claim, by the provisioner", PROVISIONER, create(changed(volume, put("spec.claimRef", None)))
)
_volumes.refused(
    "volume-handle",
    "plain text on the way",
    DEPLOYER,
    create(changed(volume, put("spec.csi.volumeAttributes", {"encryptInTransit": "false"}))),
)
for _key, _value in (
    ("EncryptInTransit", "false"),
    ("path", "/"),
    ("mountTargetIp", "203.0.113.7"),
    ("CrossAccount", "true"),
):
    _volumes.refused(
        "volume-handle",
        f"the attribute {_key}",
        DEPLOYER,
        create(changed(volume, put("spec.csi.volumeAttributes", {_key: _value}))),
    )
_volumes.passes(
    "volume-handle",
    "attributes that change nothing",
    PROVISIONER,
    create(changed(volume, put("spec.csi.volumeAttributes", {"encryptInTransit": "true", "x.io/y": "z"}))),
)
_volumes.refused(
    "volume-handle",
    "another access point by a mount option",
    DEPLOYER,
    create(changed(volume, put("spec.mountOptions", ["tls", "accesspoint=fsap-00000000000000000"]))),
)
_volumes.refused("volume-handle", "the file system without its driver", DEPLOYER, create(_files))
_volumes.refused("volume-handle", "the node's files for a claim of the class", DEPLOYER, create(_of_node))
_volumes.refused(
    "volume-handle",
    "another way of mounting an existing one",
    DEPLOYER,
    merge(volume_path, {"spec": {"mountOptions": ["accesspoint=fsap-00000000000000000"]}}),
)
_volumes.passes("volume-handle volume-by volume-kept", "by the provisioner", PROVISIONER, create(volume))
_volumes.passes("volume-handle volume-by volume-kept", "by a deployment", DEPLOYER, create(volume))
_volumes.refused("volume-by", "as it should be, by the service", SERVICE, create(volume))
_volumes.passes(
    "volume-handle volume-by",
    "a declared workspace's, by a deployment",
    DEPLOYER,
    create(lambda guarded: seats.volume(seat(), f"{guarded.file_system}::{POINT}")),
)
_volumes.refused("volume-by", "as it should be, by somebody", INSIDER, create(volume))
_volumes.refused("volume-by", "as it should be, by the controller", CONTROLLER, create(volume))
_volumes.passes(
    "volume-by volume-handle",
    "a disk of somebody else's",
    INSIDER,
    create(changed(volume, lambda obj: [put("spec.csi", _DISK)(obj), put("spec.claimRef", None)(obj)])),
)
_volumes.refused(
    "volume-kept",
    "one that is no longer kept",
    INSIDER,
    merge(volume_path, {"spec": {"persistentVolumeReclaimPolicy": "Recycle"}}),
)
_volumes.refused(
    "volume-kept", "somebody else's", INSIDER, merge(volume_path, {"spec": {"claimRef": {"name": "home-somebody"}}})
)
_volumes.refused(
    "volume-kept",
    "anybody's, by a JSON patch",
    PROVISIONER,
    patch(volume_path, {"op": "remove", "path": "/spec/claimRef"}),
)
# Without the uid of its claim, a volume binds to the next claim of that name.
for _way, _request in (
    ("by a merge patch", merge(volume_path, {"spec": {"claimRef": {"uid": None}}})),
    ("by a JSON patch", patch(volume_path, {"op": "remove", "path": "/spec/claimRef/uid"})),
    ("with another id", patch(volume_path, {"op": "replace", "path": "/spec/claimRef/uid", "value": "1-2-3"})),
):
    _volumes.refused("volume-kept", f"whoever claims by that name, {_way}", INSIDER, _request)
for _user, _who in ((SERVICE, "the service"), (BINDER, "the binder"), (DEPLOYER, "a deployment")):
    _volumes.passes(
        "volume-kept",
        f"the next of that name, by {_who}",
        _user,
        merge(volume_path, {"spec": {"claimRef": {"uid": None}}}),
    )
_volumes.passes(
    "volume-kept",
    "one that is kept from now on",
    SERVICE,
    merge(volume_path, {"spec": {"persistentVolumeReclaimPolicy": "Retain"}}),
)
_volumes.passes(
    "volume-kept",
    "a finalizer",
    PROVISIONER,
    merge(volume_path, {"metadata": {"annotations": {"x": "y"}, "finalizers": ["kubernetes.io/pv-protection"]}}),
)
_volumes.passes(
    "volume-kept",
    "a status",
    INSIDER,
    merge(lambda guarded: volume_path(guarded) + "/status", {"status": {"message": "well"}}),
)


def _status(guarded: Guarded) -> str:
    return volume_path(guarded) + "/status"


def _record_patch(part: str, key: str, value: str | None) -> Object:
    return {"metadata": {part: {key: value}}}


def _marked(part: str, key: str, value: str) -> Any:
    return changed(volume, put(f"metadata|{part}|{key}", value))


_records = Table("volume-records", ATTEMPTS)
for _part, _key, _value in (
    ("labels", WORKSPACE_LABEL, "w-2"),
    ("labels", "label.sandbox.users.io/team", "red"),
    ("labels", DESTROY_REQUESTED, "true"),
    ("annotations", DELETED_AT, "2020-01-01T00:00:00Z"),
    ("annotations", DESTROY_AFTER, "2020-01-01T00:00:00Z"),
    ("annotations", HOLD, "yes"),
    ("annotations", "sandbox.users.io/measured-bytes", "1"),
    ("annotations", "pv.kubernetes.io/provisioned-by", "somebody"),
):
    _word = _key.rpartition("/")[2]
    _records.refused(
        "volume-record", f"{_word} by a merge patch", INSIDER, merge(volume_path, _record_patch(_part, _key, _value))
    )
    _records.refused(
        "volume-record", f"{_word} with its status", INSIDER, merge(_status, _record_patch(_part, _key, _value))
    )
_records.refused(
    "volume-record",
    "nobody's workspace by a JSON patch",
    PROVISIONER,
    patch(volume_path, {"op": "remove", "path": "/metadata/annotations"}),
)
_records.refused(
    "volume-record",
    "whose it is, of one that nobody has",
    INSIDER,
    merge(lambda _: "/api/v1/persistentvolumes/leftover", _record_patch("labels", USER_LABEL, "u-2")),
)
_records.refused(
    "volume-record", "one that is made somebody's", PROVISIONER, create(_marked("labels", USER_LABEL, "u-2"))
)
_records.refused(
    "volume-record",
    "a disk of somebody's own that is made a workspace's",
    INSIDER,
    create(
        changed(
            volume,
            lambda obj: [
                put("spec.csi", _DISK)(obj),
                put("spec.claimRef", None)(obj),
                put(f"metadata|labels|{WORKSPACE_LABEL}", "w-1")(obj),
            ],
        )
    ),
)
_records.refused(
    "volume-record",
    "when it was deleted, by who measures",
    METER,
    merge(volume_path, _record_patch("annotations", DELETED_AT, "x")),
)
_records.passes(
    "volume-record",
    "what it holds, by who measures",
    METER,
    merge(volume_path, _record_patch("annotations", "sandbox.users.io/found-bytes", "1")),
)
_records.passes(
    "volume-record",
    "when it was deleted, by the service",
    SERVICE,
    merge(volume_path, _record_patch("annotations", DELETED_AT, "x")),
)
_records.passes(
    "volume-record",
    "that it is to be destroyed, by the service",
    SERVICE,
    merge(volume_path, _record_patch("labels", DESTROY_REQUESTED, "true")),
)
_records.passes(
    "volume-record",
    "that it is held, by a deployer",
    DEPLOYER,
    merge(volume_path, _record_patch("annotations", HOLD, "yes")),
)
_records.passes(
    "volume-record", "another annotation", INSIDER, merge(volume_path, _record_patch("annotations", "x", "y"))
)
_records.passes(
    "volume-record", "another label, with its status", INSIDER, merge(_status, _record_patch("labels", "x", "y"))
)
_records.passes("volume-record", "one that is made, by the provisioner", PROVISIONER, create(volume))


def _unbound(guarded: Guarded, name: str = "attempt", kind: str = "") -> Object:
    """Return a volume that binds to any claim of its storage class."""
    found = _of_node(guarded)
    found["spec"].pop("claimRef")
    found["metadata"]["name"] = name
    found["spec"]["storageClassName"] = kind or guarded.objects.storage_classes[0]["metadata"]["name"]
    return found


def _existing(_: Guarded) -> str:
    return "/api/v1/persistentvolumes/leftover"


for _user, _who in ((INSIDER, "somebody"), (PROVISIONER, "the provisioner"), (DEPLOYER, "a deployment")):
    _volumes.refused(
        "volume-handle", f"the node's files for whoever asks for a class's storage, by {_who}", _user, create(_unbound)
    )
_volumes.refused(
    "volume-handle",
    "one that lay there, now for whoever asks for a class's storage",
    INSIDER,
    merge(
        _existing,
        lambda guarded: {"spec": {"storageClassName": guarded.objects.storage_classes[0]["metadata"]["name"]}},
    ),
)
_volumes.refused(
    "volume-kept",
    "one that lay there, now for a claim of the class",
    INSIDER,
    merge(_existing, lambda guarded: {"spec": {"claimRef": {"namespace": guarded.namespace, "name": "home-x"}}}),
)
_volumes.passes(
    "volume-kept",
    "another label of one that lay there",
    INSIDER,
    merge(_existing, {"metadata": {"labels": {"x": "y"}}}),
)
_volumes.passes(
    "volume-by", "the node's files for nobody of ours", INSIDER, create(lambda guarded: _unbound(guarded, kind="other"))
)


def _storage_class(file_system: str = "{ours}", name: str = "attempt") -> Any:
    def made_of(guarded: Guarded) -> Object:
        parameters = {"provisioningMode": "efs-ap", "fileSystemId": file_system.format(ours=guarded.file_system)}
        return {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name},
            "provisioner": "efs.csi.aws.com",
            "parameters": {**parameters, "directoryPerms": "777", "uid": "0", "gid": "0"},
        }

    return create(made_of)


_classes = Table("storage-classes", ATTEMPTS)
_classes.refused("storage-class-by", "one on our file system, by somebody", INSIDER, _storage_class())
_classes.refused("storage-class-by", "one on our file system, by the service", SERVICE, _storage_class())
_classes.passes("storage-class-by", "one on our file system, by a deployment", DEPLOYER, _storage_class())
_classes.refused(
    "storage-class-by", "one in the place of a class's own", INSIDER, _storage_class(_FOREIGN, "efs-attempt")
)
_classes.passes("storage-class-by", "one elsewhere", INSIDER, _storage_class(_FOREIGN))
_classes.passes(
    "storage-class-by",
    "a label of an existing one",
    INSIDER,
    merge(lambda guarded: guarded.admin.path(guarded.objects.storage_classes[0]), {"metadata": {"labels": {"x": "y"}}}),
)
