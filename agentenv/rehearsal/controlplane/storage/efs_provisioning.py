"""What the EFS CSI driver makes of a claim: a class's parameters in, an access point's settings and a volume out.

Pure, so that it can be laid beside the driver's documents (3.4.1, with the provisioner beside it). Refusals are in the
driver's words as far as they are known. Not simulated: file systems of other accounts, zones of One Zone file systems,
file systems named by a ConfigMap or Secret, S3 Files, snapshots and clones. Handles are written without the leading
`efs:` of driver 3; it reads both.
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
_TRUTHS = {text: value for value, texts in ((True, "1 t T true TRUE True"), (False, "0 f F false FALSE False"))
           for text in texts.split()}  # fmt: skip
_MODES = {"ReadOnlyMany": "MULTI_NODE_READER_ONLY", "ReadWriteOncePod": "SINGLE_NODE_SINGLE_WRITER"}
_NOT_SIMULATED = ("enforceZoneAffinity", "fileSystemIdConfigRef", "fileSystemIdSecretRef", "az")


class Refusal(Exception):
    """What the driver says no with: its code, and its words."""

    def __init__(self, code: str, words: str) -> None:
        super().__init__(f"rpc error: code = {code} desc = {words}")


@dataclass(frozen=True)
class Wish:
    """The parameters of a StorageClass, read."""

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
    def of(cls, parameters: Mapping[str, str]) -> Wish:
        """Read them; Refusal where the driver would not take them."""
        reuse = _truth(parameters, "reuseAccessPoint", usual=False)
        tagged = _truth(parameters, "enableTagging", usual=True)
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
            # Whatever is no word for false means true, a misspelled one too
            unique=_TRUTHS.get(parameters.get("ensureUniqueDirectory", "true"), True),
            reuse=reuse,
            tagged=tagged,
        )

    def directory(self, claim: Object, name: str, unique: Callable[[], str]) -> str:
        """The access point's root; Refusal where EFS could not have it."""
        below = name
        if self.pattern is not None:
            about = claim["metadata"]
            known = {".PVC.name": about["name"], ".PVC.namespace": about["namespace"], ".PV.name": name}
            below = self.pattern
            for word, value in known.items():
                below = below.replace(f"${{{word}}}", value)
            if "${" in below or "}" in below:
                allowed = " ".join(sorted(known))
                text = f'Path specified "{self.pattern}" contains invalid elements. Can only contain [{allowed}]'
                raise _invalid(text)
            if self.unique:
                below = f"{below}-{unique()}"
        path = posixpath.normpath(f"/{'/'.join(part for part in (self.base, below) if part)}").replace("//", "/")
        if len(path) > 100:
            raise _invalid(f"Proposed path '{path}' exceeds file system limit of 100 characters")
        if path.count("/") > 5:
            raise _invalid(f"Proposed path '{path}' file system limit of 4 subdirectories")
        return path

    def token(self, claim: Object, name: str) -> str:
        """What makes asking twice harmless; shared between clusters where an access point is to be used again."""
        return hashlib.sha256(claim["metadata"]["name"].encode()).hexdigest() if self.reuse else name

    def owner(self, taken: Iterable[int]) -> tuple[int, int]:
        """User and group, of which those that are not said are the first group that no access point has."""
        if self.uid is not None and self.gid is not None:
            return self.uid, self.gid
        used = set(taken)
        free = next((one for one in self.gids[: ACCESS_POINTS + 1] if one not in used), None)
        if free is None:
            text = f"Failed to locate a free GID for given file system: {self.file_system}."
            raise Refusal("Internal", f"{text} Please create a new storage class with a new file-system")
        return free if self.uid is None else self.uid, free if self.gid is None else self.gid

    def refuse_other(self, point: Object) -> None:
        """Say no to an access point that is there already, and is another than this class would make."""
        user = point.get("PosixUser") or {}
        root = point["RootDirectory"]["Path"].removeprefix("/")
        wrong = ""
        if not root.startswith(self.base.removeprefix("/")):
            wrong = "has different base path than what's specified in storage class"
        for name, wanted in (("Gid", self.gid), ("Uid", self.uid)):
            if wanted is not None and user.get(name) != wanted:
                wrong = wrong or f"its {name.upper()} is incorrect"
            elif wanted is None and user.get(name) not in self.gids:
                wrong = wrong or f"its {name.upper()} is outside the specified range"
        if wrong:
            raise Refusal("AlreadyExists", f"Invalid existing access point: Access point found but {wrong}")


def refuse_claim(claim: Object, storage_class: Object) -> None:
    """Say no to a claim of a kind that EFS has no volumes for."""
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
    """The volume that the provisioner writes: the claim's own from the start, for the controller manager to bind."""
    about, spec = claim["metadata"], claim["spec"]
    policy = storage_class.get("reclaimPolicy") or "Delete"
    wanted = ("provisioner-deletion-secret-name", "provisioner-deletion-secret-namespace")
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": name,
            "annotations": {PROVISIONED_BY: DRIVER, **{f"volume.kubernetes.io/{word}": "" for word in wanted}},
            "finalizers": [FINALIZER] if policy == "Delete" else [],
        },
        "spec": {
            "accessModes": spec["accessModes"],
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": about["namespace"],
                "name": about["name"],
                "uid": about["uid"],
                "resourceVersion": about["resourceVersion"],
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
    """The access point that a handle leads to; None where it leads to none."""
    found = _HANDLE.fullmatch(handle)
    return found["point"] if found else None


def _invalid(words: str) -> Refusal:
    return Refusal("InvalidArgument", words)


def _truth(parameters: Mapping[str, str], name: str, *, usual: bool) -> bool:
    if name not in parameters:
        return usual
    if parameters[name] not in _TRUTHS:
        raise _invalid(f"Invalid value for {name} parameter")
    return _TRUTHS[parameters[name]]


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
