"""The EFS CSI driver's provisioning rules: from a StorageClass's parameters to an access point and a volume.

Pure, so that it can be compared with the driver's documentation (3.4.1, with the provisioner beside it). Errors use
the driver's messages as far as they are known. Not simulated: file systems of other accounts, zones of One Zone file
systems, file systems named by a ConfigMap or Secret, S3 Files, snapshots and clones. Handles are written without the
leading `efs:` of driver 3; it reads both.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]

DRIVER = "efs.csi.aws.com"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
FINALIZER = "external-provisioner.volume.kubernetes.io/finalizer"
TAG = "efs.csi.aws.com/cluster"
ACCESS_POINTS = 10_000  # of one file system
_GIDS = range(50_000, 50_000 + ACCESS_POINTS + 1)
_HANDLE = re.compile(
    r"(?:efs:)?(?P<system>fs-[0-9a-f]{8,40})(?::(?P<path>[^:]*)(?::(?P<point>fsap-[0-9a-f]{8,40})?)?)?"
)
_BOOLEANS = {text: value for value, texts in ((True, "1 t T true TRUE True"), (False, "0 f F false FALSE False"))
           for text in texts.split()}  # fmt: skip
_MODES = {"ReadOnlyMany": "MULTI_NODE_READER_ONLY", "ReadWriteOncePod": "SINGLE_NODE_SINGLE_WRITER"}
_NOT_SIMULATED = ("enforceZoneAffinity", "fileSystemIdConfigRef", "fileSystemIdSecretRef", "az")


class ProvisioningError(Exception):
    """An error of the driver: its code and message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"rpc error: code = {code} desc = {message}")


@dataclass(frozen=True)
class Parameters:
    """The parameters of a StorageClass, parsed."""

    file_system: str
    permissions: str
    uid: int | None
    gid: int | None
    gids: range
    base: str
    pattern: str | None
    unique: bool
    reuse: bool
    tagged: bool

    @classmethod
    def parse(cls, parameters: Mapping[str, str]) -> Parameters:
        """Parse the parameters; ProvisioningError where the driver would refuse them."""
        reuse = _boolean(parameters, "reuseAccessPoint", default=False)
        tagged = _boolean(parameters, "enableTagging", default=True)
        for name in _NOT_SIMULATED:
            if parameters.get(name, "false") not in {"", "false"}:
                raise _invalid(f"{name} is not simulated by the rehearsal")
        system = parameters.get("fileSystemId", "").strip()
        if not system:
            names = "fileSystemId, fileSystemIdConfigRef, or fileSystemIdSecretRef"
            raise _invalid(f"Failed to resolve filesystem Id one of {names} must be specified")
        mode = parameters.get("provisioningMode")
        if mode is None:
            raise _invalid("Missing provisioningMode parameter")
        if mode != "efs-ap":
            only = "Only Access point provisioning 'efs-ap' or 's3files-ap' are supported"
            text = "s3files-ap is not simulated by the rehearsal"
            raise _invalid(text if mode == "s3files-ap" else f"Provisioning mode {mode} is not supported. {only}")
        return cls(
            file_system=system,
            permissions=parameters.get("directoryPerms", ""),
            uid=_number(parameters, "uid"),
            gid=_number(parameters, "gid"),
            gids=_range(parameters),
            base=parameters.get("basePath", ""),
            pattern=parameters.get("subPathPattern"),
            # Every value that does not mean false counts as true, misspelled ones too
            unique=_BOOLEANS.get(parameters.get("ensureUniqueDirectory", "true"), True),
            reuse=reuse,
            tagged=tagged,
        )

    def directory(self, claim: Object, name: str, unique: Callable[[], str]) -> str:
        """Return the access point's root directory; ProvisioningError where EFS would refuse it."""
        subdirectory = name
        if self.pattern is not None:
            metadata = claim["metadata"]
            variables = {".PVC.name": metadata["name"], ".PVC.namespace": metadata["namespace"], ".PV.name": name}
            subdirectory = self.pattern
            for word, value in variables.items():
                subdirectory = subdirectory.replace(f"${{{word}}}", value)
            if "${" in subdirectory or "}" in subdirectory:
                allowed = " ".join(sorted(variables))
                text = f'Path specified "{self.pattern}" contains invalid elements. Can only contain [{allowed}]'
                raise _invalid(text)
            if self.unique:
                subdirectory = f"{subdirectory}-{unique()}"
        path = posixpath.normpath(f"/{'/'.join(part for part in (self.base, subdirectory) if part)}").replace("//", "/")
        if len(path) > 100:
            raise _invalid(f"Proposed path '{path}' exceeds file system limit of 100 characters")
        if path.count("/") > 5:
            raise _invalid(f"Proposed path '{path}' file system limit of 4 subdirectories")
        return path

    def token(self, claim: Object, name: str) -> str:
        """Return the idempotency token; shared between clusters where access points are reused."""
        return hashlib.sha256(claim["metadata"]["name"].encode()).hexdigest() if self.reuse else name

    def owner(self, used_gids: Iterable[int]) -> tuple[int, int]:
        """Return user and group ids; those not set are the first group id that no access point uses."""
        if self.uid is not None and self.gid is not None:
            return self.uid, self.gid
        used = set(used_gids)
        free = next((gid for gid in self.gids[: ACCESS_POINTS + 1] if gid not in used), None)
        if free is None:
            text = f"Failed to locate a free GID for given file system: {self.file_system}."
            raise ProvisioningError("Internal", f"{text} Please create a new storage class with a new file-system")
        return free if self.uid is None else self.uid, free if self.gid is None else self.gid

    def check_existing(self, point: Object) -> None:
        """Raise if an existing access point differs from what this class would create."""
        user = point.get("PosixUser") or {}
        root = point["RootDirectory"]["Path"].removeprefix("/")
        wrong = ""
        if not root.startswith(self.base.removeprefix("/")):
            wrong = "has different base path than what's specified in storage class"
        for name, expected in (("Gid", self.gid), ("Uid", self.uid)):
            if expected is not None and user.get(name) != expected:
                wrong = wrong or f"its {name.upper()} is incorrect"
            elif expected is None and user.get(name) not in self.gids:
                wrong = wrong or f"its {name.upper()} is outside the specified range"
        if wrong:
            raise ProvisioningError("AlreadyExists", f"Invalid existing access point: Access point found but {wrong}")


def check_claim(claim: Object, storage_class: Object) -> None:
    """Raise for a claim that EFS cannot provide a volume for."""
    spec = claim["spec"]
    if spec.get("volumeMode") == "Block":
        raise _invalid(f"{DRIVER} does not support block volume provisioning")
    if spec.get("dataSource") or spec.get("dataSourceRef"):
        raise _invalid(f"{DRIVER} has neither snapshots nor clones")
    wrong = [_MODES[mode] for mode in spec.get("accessModes", []) if mode in _MODES]
    if wrong:
        raise _invalid(f"Volume capabilities not supported: invalid access mode: {','.join(wrong)}")
    if "crossaccount" in (storage_class.get("mountOptions") or []):
        raise _invalid("Volume capabilities not supported: mount option 'crossaccount' cannot be set manually.")
    kind = (storage_class.get("parameters") or {}).get("csi.storage.k8s.io/fstype", "")
    if kind not in {"", "efs", "s3files"}:
        raise _invalid(f"Volume fstype not supported: invalid fstype: {kind}")


def volume(claim: Object, storage_class: Object, name: str, handle: str) -> Object:
    """Return the volume that the provisioner creates: reserved for the claim, for the controller manager to bind."""
    metadata, spec = claim["metadata"], claim["spec"]
    policy = storage_class.get("reclaimPolicy") or "Delete"
    annotations = ("provisioner-deletion-secret-name", "provisioner-deletion-secret-namespace")
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": name,
            "annotations": {PROVISIONED_BY: DRIVER, **{f"volume.kubernetes.io/{word}": "" for word in annotations}},
            "finalizers": [FINALIZER] if policy == "Delete" else [],
        },
        "spec": {
            "accessModes": spec["accessModes"],
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
            },
            "csi": {
                "driver": DRIVER,
                "volumeHandle": handle,
                "volumeAttributes": {"storage.kubernetes.io/csiProvisionerIdentity": f"rehearsal-{DRIVER}"},
            },
            "mountOptions": storage_class.get("mountOptions") or [],
            "persistentVolumeReclaimPolicy": policy,
            "storageClassName": storage_class["metadata"]["name"],
            "volumeMode": "Filesystem",
        },
    }


def access_point(handle: str) -> str | None:
    """Return the access point of a handle, or None."""
    match = _HANDLE.fullmatch(handle)
    return match["point"] if match else None


def root_path(handle: str) -> tuple[str, str] | None:
    """Return the file system of a handle, and the path in it that the handle names."""
    match = _HANDLE.fullmatch(handle)
    return None if match is None else (match["system"], match["path"] or "/")


def _invalid(message: str) -> ProvisioningError:
    return ProvisioningError("InvalidArgument", message)


def _boolean(parameters: Mapping[str, str], name: str, *, default: bool) -> bool:
    if name not in parameters:
        return default
    if parameters[name] not in _BOOLEANS:
        raise _invalid(f"Invalid value for {name} parameter")
    return _BOOLEANS[parameters[name]]


def _number(parameters: Mapping[str, str], name: str, least: int = 0) -> int | None:
    if name not in parameters:
        return None
    try:
        value = int(parameters[name])
    except ValueError:
        raise _invalid(f"Failed to parse invalid {name}: '{parameters[name]}' is no number") from None
    if value < least:
        raise _invalid(f"{name} must be greater {'or equal than 0' if least == 0 else 'than 0'}")
    return value


def _range(parameters: Mapping[str, str]) -> range:
    first, last = (_number(parameters, name, 1) for name in ("gidRangeStart", "gidRangeEnd"))
    if first is None and last is None:
        return _GIDS
    if first is None or last is None:
        raise _invalid(f"Missing {'gidRangeStart' if first is None else 'gidRangeEnd'} parameter")
    if last <= first:
        raise _invalid("gidRangeEnd must be greater than gidRangeStart")
    return range(first, last + 1)
