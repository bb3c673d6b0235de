"""The EFS CSI driver's controller, stood in for: volumes for the claims of its classes, as long as its add-on is there.

It makes real access points through the simulated AWS API, with the keys that the driver's service account gets, so a
role that lacks a right is found out. Whether a claim is to have a volume, and that it is bound to it, is for the real
controller manager and scheduler to say. Simplified: one thing at a time, nothing is mounted, and so no directory is
ever deleted (`deleteAccessPointRootDir`); failures are tried again after half a minute at most.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from typing import Any

from agentenv.rehearsal.controlplane.auth.account import Account
from agentenv.rehearsal.controlplane.auth.pod_credentials import ROLE, NoKeys, PodKeys
from agentenv.rehearsal.controlplane.client import ApiError, Client
from agentenv.rehearsal.controlplane.events import Recorder
from agentenv.rehearsal.controlplane.storage.efs_provisioning import (
    DRIVER,
    FINALIZER,
    PROVISIONED_BY,
    TAG,
    Refusal,
    Wish,
    access_point,
    refuse_claim,
    volume,
)
from agentenv.rehearsal.controlplane.work_queue import Work

Object = dict[str, Any]
Key = tuple[str, str]  # of a claim or a volume: the path of its kind, and its uid

ADDON = "aws-efs-csi-driver"
SPACE, SERVICE_ACCOUNT = "kube-system", "efs-csi-controller-sa"
USER = f"system:serviceaccount:{SPACE}:{SERVICE_ACCOUNT}"
_CLAIMS, _VOLUMES = "/api/v1/persistentvolumeclaims", "/api/v1/persistentvolumes"
_PROVISIONER = ("volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner")
_NODE = "volume.kubernetes.io/selected-node"
_LOG = logging.getLogger(__name__)
_MEMORY_SECONDS = 1.0


class EfsDriver:
    """The driver of one cluster."""

    def __init__(self, client: Client, own: Client, account: Account) -> None:
        self._client = client
        self._own = own  # speaks as the driver: whoever guards volumes has to see who makes them
        self._account = account
        self._keys = PodKeys(client, account, SPACE, SERVICE_ACCOUNT)
        self._events = Recorder(client, f"{DRIVER}_rehearsal")
        self._work: Work[Key] = Work()
        self._there: dict[Key, Object] = {}
        self._addon: Object | None = None
        self._asked = 0.0

    def attend(self, ended: threading.Event) -> None:
        """Look at claims and volumes until told to end."""
        for path in (_CLAIMS, _VOLUMES):
            threading.Thread(target=self._listen, args=(path, ended), name=f"efs {path}", daemon=True).start()
        while not ended.is_set():
            key = self._work.take(_MEMORY_SECONDS)
            if key is not None:
                self._look(key)
            elif self._addon is not None:
                self._look_after_itself()

    def _listen(self, path: str, ended: threading.Event) -> None:
        for kind, thing in self._client.watch(path, ended):
            key = (path, thing["metadata"]["uid"])
            if kind == "DELETED":
                self._there.pop(key, None)
            elif _concerns(thing):
                self._there[key] = thing
                self._work.put(key)

    def _look(self, key: Key) -> None:
        thing = self._there.get(key)
        if thing is None:
            self._work.done(key)
            return
        try:
            if not self._is_up():
                self._work.put(key, _MEMORY_SECONDS)
                return
            (self._claim if key[0] == _CLAIMS else self._volume)(thing)
            self._work.done(key)
        except Exception as error:  # noqa: BLE001 - one bad object must not leave every later one waiting
            if not isinstance(error, Refusal):
                _LOG.warning("%s %s: %s: %s", DRIVER, thing["metadata"]["name"], type(error).__name__, error)
            self._work.again(key)

    def _look_after_itself(self) -> None:
        """Go with the add-on, also when nothing else calls for it."""
        try:
            self._is_up()
        except Exception as error:  # noqa: BLE001 - the account may be gone, and we are about to go too
            _LOG.info("%s cannot tell whether it is installed: %s", DRIVER, error)

    def _is_up(self) -> bool:
        """Whether the add-on is there; what EKS installs with it comes and goes with it."""
        if time.monotonic() - self._asked > _MEMORY_SECONDS:
            found = self._account.addon(ADDON)
            if found is not None and (self._addon is None or found["modifiedAt"] != self._addon["modifiedAt"]):
                self._keys.forget()
                for thing in _installed(found):
                    self._client.apply(thing, "eks")
            elif found is None and self._addon is not None:
                for thing in _installed(self._addon):
                    self._client.delete(self._client.path(thing))
            self._addon = found
            self._asked = time.monotonic()
        return self._addon is not None

    def _claim(self, claim: Object) -> None:
        about = claim["metadata"]
        if claim["spec"].get("volumeName") or "deletionTimestamp" in about:
            return
        name = f"pvc-{about['uid']}"
        storage_class = self._client.find(f"/apis/storage.k8s.io/v1/storageclasses/{claim['spec']['storageClassName']}")
        if storage_class is None:
            raise ApiError(404, "NotFound", f"its class {claim['spec']['storageClassName']} is not there")
        waits = storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"
        if storage_class["provisioner"] != DRIVER or (waits and not about["annotations"].get(_NODE)):
            return
        if self._client.find(f"{_VOLUMES}/{name}") is not None:
            return
        words = f'External provisioner is provisioning volume for claim "{about["namespace"]}/{about["name"]}"'
        self._events.tell(claim, "Provisioning", words)
        try:
            handle = self._provisioned(claim, storage_class, name)
        except Refusal as refusal:
            words = f'failed to provision volume with StorageClass "{storage_class["metadata"]["name"]}": {refusal}'
            self._events.tell(claim, "ProvisioningFailed", words, warning=True)
            raise
        self._own.create(volume(claim, storage_class, name, handle))
        self._events.tell(claim, "ProvisioningSucceeded", f"Successfully provisioned volume {name}")

    def _provisioned(self, claim: Object, storage_class: Object, name: str) -> str:
        """The handle of a volume with an access point of its own, or with one that is used again."""
        refuse_claim(claim, storage_class)
        wish = Wish.of(storage_class.get("parameters") or {})
        point = self._find(wish, wish.token(claim, name)) if wish.reuse else None
        if point is None:
            taken: list[int] = []
            if wish.uid is None or wish.gid is None:
                points = self._points(wish, "Failed to fetch Access Points or Describe File System")
                taken = [one["PosixUser"]["Gid"] for one in points if one.get("PosixUser")]
            uid, gid = wish.owner(taken)
            owner = {"OwnerUid": uid, "OwnerGid": gid, "Permissions": wish.permissions}
            asked: Object = {
                "ClientToken": wish.token(claim, name),
                "FileSystemId": wish.file_system,
                "PosixUser": {"Uid": uid, "Gid": gid},
                "RootDirectory": {
                    "Path": wish.directory(claim, name, lambda: str(uuid.uuid4())),
                    "CreationInfo": owner,
                },
            }
            if wish.tagged:
                asked["Tags"] = [{"Key": TAG, "Value": "true"}]
            what = f"Failed to create Access point in File System {wish.file_system} : Failed to create access point"
            point = self._efs("create_access_point", what, **asked)
        return f"{wish.file_system}::{point['AccessPointId']}"

    def _find(self, wish: Wish, token: str) -> Object | None:
        points = self._points(wish, "failed to find access point")
        found = next((one for one in points if one["ClientToken"] == token), None)
        if found is not None:
            wish.refuse_other(found)
        return found

    def _points(self, wish: Wish, what: str) -> list[Object]:
        found: list[Object] = []
        more: dict[str, str] = {}
        while True:
            asked = {"FileSystemId": wish.file_system, "MaxResults": 1000, **more}
            told = self._efs("describe_access_points", what, **asked)
            found += told["AccessPoints"]
            if not told.get("NextToken"):
                return found
            more = {"NextToken": told["NextToken"]}

    def _efs(self, operation: str, what: str, **asked: Any) -> Any:
        """One call to EFS as the driver's service account; Refusal in the driver's words if it fails."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return getattr(self._keys.service("efs"), operation)(**asked)
        except NoKeys as error:
            raise Refusal("Internal", f"{what}: failed to refresh cached credentials, {error}") from error
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code == "FileSystemNotFound" and operation == "describe_access_points":
                raise Refusal("InvalidArgument", "File System does not exist: Resource was not found") from error
            if code in {"AccessDeniedException", "ExpiredTokenException"}:
                self._keys.forget()
                text = "Access Denied. Please ensure you have the right AWS permissions"
                raise Refusal("Unauthenticated", f"{text}: {error.response['Error']['Message']}") from error
            raise Refusal("Internal", f"{what}: {code}: {error.response['Error']['Message']}") from error
        except BotoCoreError as error:
            raise Refusal("Internal", f"{what}: {error}") from error

    def _volume(self, thing: Object) -> None:
        """Keep what is to be deleted until its access point is; then delete both."""
        about, spec, path = thing["metadata"], thing["spec"], f"{_VOLUMES}/{thing['metadata']['name']}"
        phase, finalizers = (thing.get("status") or {}).get("phase"), about.get("finalizers") or []
        leaving, deletes = "deletionTimestamp" in about, spec.get("persistentVolumeReclaimPolicy") == "Delete"
        if FINALIZER in finalizers and not deletes:
            self._without_finalizer(path)
        elif FINALIZER not in finalizers and deletes and phase == "Bound" and not leaving:
            # Where it has changed, the watch tells so, and we come again
            self._has_finalizers(path, thing, [*finalizers, FINALIZER])
        if phase != "Released" or not deletes or (leaving and FINALIZER not in finalizers):
            return
        if point := access_point(spec["csi"]["volumeHandle"]):
            try:
                self._delete(point, spec["csi"]["volumeHandle"])
            except Refusal as refusal:
                self._events.tell(thing, "VolumeFailedDelete", str(refusal), warning=True)
                raise
        self._own.delete(path)
        self._without_finalizer(path)

    def _delete(self, point: str, handle: str) -> None:
        try:
            self._efs("delete_access_point", f"Failed to Delete volume {handle}", AccessPointId=point)
        except Refusal as refusal:
            if "AccessPointNotFound" not in str(refusal):
                raise

    def _without_finalizer(self, path: str) -> None:
        while (found := self._client.find(path)) is not None:
            rest = [one for one in found["metadata"].get("finalizers") or [] if one != FINALIZER]
            if self._has_finalizers(path, found, rest):
                return

    def _has_finalizers(self, path: str, thing: Object, finalizers: list[str]) -> bool:
        """Write them; false if the volume has changed meanwhile, so that nobody else's finalizer gets lost."""
        change = {"finalizers": finalizers, "resourceVersion": thing["metadata"]["resourceVersion"]}
        try:
            self._own.merge(path, {"metadata": change})
        except ApiError as error:
            if error.status not in {404, 409}:
                raise
            return error.status == 404
        return True


def _concerns(thing: Object) -> bool:
    """Whether a claim or a volume is the driver's."""
    marks = thing["metadata"].get("annotations") or {}
    if thing["kind"] == "PersistentVolumeClaim":
        return any(marks.get(name) == DRIVER for name in _PROVISIONER)
    by = marks.get(PROVISIONED_BY, (thing["spec"].get("csi") or {}).get("driver"))
    return by == DRIVER and "csi" in thing["spec"]


def _installed(addon: Object) -> list[Object]:
    """What EKS puts into the cluster with the add-on, as far as anybody here looks at it."""
    about: Object = {"name": SERVICE_ACCOUNT, "namespace": SPACE}
    if role := addon.get("serviceAccountRoleArn"):
        about["annotations"] = {ROLE: role}
    rbac, role = "rbac.authorization.k8s.io", "efs-csi-external-provisioner-role"
    may = ["get", "list", "watch", "create", "patch", "delete"]
    subject = {"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": SPACE}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": about},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": role},
            "rules": [{"apiGroups": [""], "resources": ["persistentvolumes"], "verbs": may}],
        },
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "efs-csi-provisioner-binding"},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": role},
            "subjects": [subject],
        },
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": DRIVER},
            "spec": {"attachRequired": False},
        },
    ]
