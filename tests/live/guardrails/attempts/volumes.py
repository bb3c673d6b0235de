"""Attempts to get at somebody's files through volumes."""

from __future__ import annotations

from typing import Any

from model import seats
from tests.live.guardrails.attempts.attempt import Attempt, Table, changed, create, merge, patch, put
from tests.live.guardrails.stage import (
    CONTROLLER,
    DEPLOYER,
    INSIDER,
    POINT,
    PROVISIONER,
    SERVICE,
    Guarded,
    Object,
    seat,
    swarm,
    volume,
    volume_claim,
)

ATTEMPTS: list[Attempt] = []
_FOREIGN = "fs-0fedcba9876543210"
_DISK = {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-0123456789abcdef0"}


def _home(made: Guarded) -> str:
    return f"/api/v1/persistentvolumes/{made.volume}"


def _handle(text: str) -> Any:
    def change(made: Guarded) -> Object:
        return changed(volume, put("spec.csi.volumeHandle", text.format(ours=made.file_system)))(made)

    return create(change)


def _files(made: Guarded) -> Object:
    found = volume(made)
    found["spec"].pop("csi")
    found["spec"]["nfs"] = {"server": f"{made.file_system}.efs.us-east-1.amazonaws.com", "path": "/"}
    return found


def _of_node(made: Guarded) -> Object:
    found = volume(made)
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
    "another way of mounting one that stands",
    DEPLOYER,
    merge(_home, {"spec": {"mountOptions": ["accesspoint=fsap-00000000000000000"]}}),
)
_volumes.passes("volume-handle volume-by volume-kept", "by the provisioner", PROVISIONER, create(volume))
_volumes.passes("volume-handle volume-by volume-kept", "by a deployment", DEPLOYER, create(volume))
_volumes.passes("volume-handle volume-by volume-kept", "by the service", SERVICE, create(volume))
_volumes.passes(
    "volume-handle volume-by",
    "a declared workspace's, by a deployment",
    DEPLOYER,
    create(lambda made: seats.volume(seat(), f"{made.file_system}::{POINT}")),
)
_volumes.refused("volume-by", "as it should be, by somebody", INSIDER, create(volume))
_volumes.refused("volume-by", "as it should be, by the controller", CONTROLLER, create(volume))
_volumes.passes(
    "volume-by volume-handle",
    "a disk of somebody else's",
    INSIDER,
    create(changed(volume, lambda thing: [put("spec.csi", _DISK)(thing), put("spec.claimRef", None)(thing)])),
)
_volumes.refused(
    "volume-kept",
    "one that is no longer kept",
    INSIDER,
    merge(_home, {"spec": {"persistentVolumeReclaimPolicy": "Recycle"}}),
)
_volumes.refused(
    "volume-kept", "somebody else's", INSIDER, merge(_home, {"spec": {"claimRef": {"name": "home-somebody"}}})
)
_volumes.refused(
    "volume-kept", "anybody's, by a JSON patch", PROVISIONER, patch(_home, {"op": "remove", "path": "/spec/claimRef"})
)
_volumes.passes(
    "volume-kept",
    "one that is kept from now on",
    SERVICE,
    merge(_home, {"spec": {"persistentVolumeReclaimPolicy": "Retain"}}),
)
_volumes.passes(
    "volume-kept",
    "a finalizer",
    PROVISIONER,
    merge(_home, {"metadata": {"annotations": {"x": "y"}, "finalizers": ["kubernetes.io/pv-protection"]}}),
)
_volumes.passes(
    "volume-kept", "a status", INSIDER, merge(lambda made: _home(made) + "/status", {"status": {"message": "well"}})
)


def _trap(made: Guarded, name: str = "attempt", kind: str = "") -> Object:
    """A volume that waits for whoever asks for its class."""
    found = _of_node(made)
    found["spec"].pop("claimRef")
    found["metadata"]["name"] = name
    found["spec"]["storageClassName"] = kind or made.objects.storage_classes[0]["metadata"]["name"]
    return found


def _lying(_: Guarded) -> str:
    return "/api/v1/persistentvolumes/leftover"


for _user, _who in ((INSIDER, "somebody"), (PROVISIONER, "the provisioner"), (DEPLOYER, "a deployment")):
    _volumes.refused(
        "volume-handle", f"the node's files for whoever asks for a class's storage, by {_who}", _user, create(_trap)
    )
_volumes.refused(
    "volume-handle",
    "one that lay there, now for whoever asks for a class's storage",
    INSIDER,
    merge(_lying, lambda made: {"spec": {"storageClassName": made.objects.storage_classes[0]["metadata"]["name"]}}),
)
_volumes.refused(
    "volume-kept",
    "one that lay there, now for a claim of the class",
    INSIDER,
    merge(_lying, lambda made: {"spec": {"claimRef": {"namespace": made.space, "name": "home-x"}}}),
)
_volumes.passes(
    "volume-kept", "another label of one that lay there", INSIDER, merge(_lying, {"metadata": {"labels": {"x": "y"}}})
)
_volumes.passes(
    "volume-by", "the node's files for nobody of ours", INSIDER, create(lambda made: _trap(made, kind="other"))
)


def _storage_class(system: str = "{ours}") -> Any:
    def made_of(made: Guarded) -> Object:
        parameters = {"provisioningMode": "efs-ap", "fileSystemId": system.format(ours=made.file_system)}
        return {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "attempt"},
            "provisioner": "efs.csi.aws.com",
            "parameters": {**parameters, "directoryPerms": "777", "uid": "0", "gid": "0"},
        }

    return create(made_of)


_classes = Table("storage-classes", ATTEMPTS)
_classes.refused("storage-class-by", "one on our file system, by somebody", INSIDER, _storage_class())
_classes.refused("storage-class-by", "one on our file system, by the service", SERVICE, _storage_class())
_classes.passes("storage-class-by", "one on our file system, by a deployment", DEPLOYER, _storage_class())
_classes.passes("storage-class-by", "one elsewhere", INSIDER, _storage_class(_FOREIGN))
_classes.passes(
    "storage-class-by",
    "a label of one that stands",
    INSIDER,
    merge(lambda made: made.admin.path(made.objects.storage_classes[0]), {"metadata": {"labels": {"x": "y"}}}),
)

_claims = Table("volume-claims", ATTEMPTS)
_claims.refused(
    "volume-claim-class",
    "another class of storage",
    CONTROLLER,
    create(lambda made: volume_claim(made, storageClassName="fast")),
)
_claims.refused(
    "volume-claim-class",
    "the cluster's default",
    DEPLOYER,
    create(changed(volume_claim, put("spec.storageClassName", None))),
)
_claims.refused(
    "volume-claim-class",
    "no class and no volume, which takes any",
    DEPLOYER,
    create(lambda made: volume_claim(made, storageClassName="")),
)
_claims.refused(
    "volume-claim-class",
    "a volume by its labels",
    DEPLOYER,
    create(lambda made: volume_claim(made, selector={"matchLabels": {"x": "y"}})),
)
_claims.refused(
    "volume-claim-class",
    "a copy of another",
    CONTROLLER,
    create(
        lambda made: volume_claim(made, dataSource={"kind": "PersistentVolumeClaim", "name": f"home-{made.sandbox}"})
    ),
)
_claims.passes("volume-claim-class", "the class's", CONTROLLER, create(volume_claim))
_claims.passes(
    "volume-claim-class",
    "a declared workspace's",
    DEPLOYER,
    create(lambda made: volume_claim(made, storageClassName="", volumeName="seat-x")),
)

_claims.passes("volume-claim-class", "what a task shares", SERVICE, create(lambda made: swarm(made).volume))

_writers = Table("volume-claim-writers", ATTEMPTS)
_writers.refused("volume-claim-by", "one by somebody", INSIDER, create(volume_claim))
_writers.passes("volume-claim-by volume-claim-choice", "one by the controller", CONTROLLER, create(volume_claim))
_writers.passes("volume-claim-by volume-claim-choice", "one by the service", SERVICE, create(volume_claim))
_writers.refused(
    "volume-claim-choice",
    "a volume by name, by the controller",
    CONTROLLER,
    create(lambda made: volume_claim(made, volumeName=made.volume)),
)
_writers.refused(
    "volume-claim-choice",
    "a volume by name for one that waits",
    INSIDER,
    merge(
        lambda made: made.core("persistentvolumeclaims", "waiting", made.open_space),
        {"spec": {"volumeName": "seat-somebody"}},
    ),
)
_writers.passes(
    "volume-claim-choice",
    "a volume by name for one that waits, by the binder",
    "system:serviceaccount:kube-system:persistent-volume-binder",
    merge(
        lambda made: made.core("persistentvolumeclaims", "waiting", made.open_space),
        {"spec": {"volumeName": "seat-somebody"}},
    ),
)
_writers.passes(
    "volume-claim-by volume-claim-choice",
    "a declared workspace's by a deployment",
    DEPLOYER,
    create(lambda made: volume_claim(made, storageClassName="", volumeName="seat-x")),
)
_writers.passes(
    "volume-claim-choice",
    "an annotation",
    INSIDER,
    merge(
        lambda made: made.core("persistentvolumeclaims", f"home-{made.sandbox}"),
        {"metadata": {"annotations": {"x": "y"}}},
    ),
)
