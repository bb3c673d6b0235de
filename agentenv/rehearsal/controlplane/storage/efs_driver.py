"""The simulated controller of the EFS CSI driver: volumes for the claims of its classes while its add-on is active.

It creates access points through the simulated AWS API, with the credentials of the driver's service account, so a
missing permission is detected. The real controller manager and scheduler decide whether a claim gets a volume and
bind it. Simplified: one object at a time, nothing is mounted, so no directory is ever deleted
(`deleteAccessPointRootDir`); failures are retried after half a minute at most.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from typing import Any

from agentenv.rehearsal.controlplane.auth.account import Account
from agentenv.rehearsal.controlplane.auth.pod_credentials import ROLE, NoCredentials, PodCredentials
from agentenv.rehearsal.controlplane.client import ApiError, Client
from agentenv.rehearsal.controlplane.events import Recorder
from agentenv.rehearsal.controlplane.storage.efs_provisioning import (
    DRIVER,
    FINALIZER,
    PROVISIONED_BY,
    TAG,
    Parameters,
    ProvisioningError,
    access_point,
    check_claim,
    volume,
)
from agentenv.rehearsal.controlplane.work_queue import WorkQueue

Object = dict[str, Any]
Key = tuple[str, str]  # the path of the kind (claim or volume) and the uid

ADDON = "aws-efs-csi-driver"
NAMESPACE, SERVICE_ACCOUNT, NODE_SERVICE_ACCOUNT = "kube-system", "efs-csi-controller-sa", "efs-csi-node-sa"
USER = f"system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}"
_CLAIMS, _VOLUMES = "/api/v1/persistentvolumeclaims", "/api/v1/persistentvolumes"
_PROVISIONER = ("volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner")
_NODE = "volume.kubernetes.io/selected-node"
_LOG = logging.getLogger(__name__)
_CHECK_SECONDS = 1.0


class EfsDriver:
    """The driver of one cluster."""

    def __init__(self, client: Client, own: Client, account: Account) -> None:
        self._client = client
        self._own = own  # authenticates as the driver, so that admission policies see who creates volumes
        self._account = account
        self._credentials = PodCredentials(client, account, NAMESPACE, SERVICE_ACCOUNT)
        self._events = Recorder(client, f"{DRIVER}_rehearsal")
        self._queue: WorkQueue[Key] = WorkQueue()
        self._objects: dict[Key, Object] = {}
        self._addon: Object | None = None
        self._checked_at = 0.0

    def run(self, ended: threading.Event) -> None:
        """Reconcile claims and volumes until told to end."""
        for path in (_CLAIMS, _VOLUMES):
            threading.Thread(target=self._watch, args=(path, ended), name=f"efs {path}", daemon=True).start()
        while not ended.is_set():
            key = self._queue.get(_CHECK_SECONDS)
            if key is not None:
                self._reconcile(key)
            elif self._addon is not None:
                self._check_addon()

    def _watch(self, path: str, ended: threading.Event) -> None:
        for kind, resource in self._client.watch(path, ended):
            key = (path, resource["metadata"]["uid"])
            if kind == "DELETED":
                self._objects.pop(key, None)
            elif _is_managed(resource):
                self._objects[key] = resource
                self._queue.add(key)

    def _reconcile(self, key: Key) -> None:
        resource = self._objects.get(key)
        if resource is None:
            self._queue.forget(key)
            return
        try:
            if not self._is_active():
                self._queue.add(key, _CHECK_SECONDS)
                return
            (self._reconcile_claim if key[0] == _CLAIMS else self._reconcile_volume)(resource)
            self._queue.forget(key)
        except Exception as error:  # noqa: BLE001 - one bad object must not leave every later one waiting
            if not isinstance(error, ProvisioningError):
                _LOG.warning("%s %s: %s: %s", DRIVER, resource["metadata"]["name"], type(error).__name__, error)
            self._queue.retry(key)

    def _check_addon(self) -> None:
        """Check the add-on, also when there is no other work."""
        try:
            self._is_active()
        except Exception as error:  # noqa: BLE001 - the account may be gone, and we are about to go too
            _LOG.info("%s cannot tell whether it is installed: %s", DRIVER, error)

    def _is_active(self) -> bool:
        """Return whether the add-on is active; what EKS installs with it is created and deleted with it."""
        if time.monotonic() - self._checked_at > _CHECK_SECONDS:
            addon = self._account.addon(ADDON)
            if addon is not None and (self._addon is None or addon["modifiedAt"] != self._addon["modifiedAt"]):
                self._credentials.forget()
                for resource in _addon_objects(addon):
                    self._client.apply(resource, "eks")
            elif addon is None and self._addon is not None:
                for resource in _addon_objects(self._addon):
                    self._client.delete(self._client.path(resource))
            self._addon = addon
            self._checked_at = time.monotonic()
        return self._addon is not None

    def _reconcile_claim(self, claim: Object) -> None:
        metadata = claim["metadata"]
        if claim["spec"].get("volumeName") or "deletionTimestamp" in metadata:
            return
        name = f"pvc-{metadata['uid']}"
        storage_class = self._client.find(f"/apis/storage.k8s.io/v1/storageclasses/{claim['spec']['storageClassName']}")
        if storage_class is None:
            raise ApiError(404, "NotFound", f"the StorageClass {claim['spec']['storageClassName']} does not exist")
        waits = storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"
        if storage_class["provisioner"] != DRIVER or (waits and not metadata["annotations"].get(_NODE)):
            return
        if self._client.find(f"{_VOLUMES}/{name}") is not None:
            return
        message = f'External provisioner is provisioning volume for claim "{metadata["namespace"]}/{metadata["name"]}"'
        self._events.record(claim, "Provisioning", message)
        try:
            handle = self._provision(claim, storage_class, name)
        except ProvisioningError as refusal:
            message = f'failed to provision volume with StorageClass "{storage_class["metadata"]["name"]}": {refusal}'
            self._events.record(claim, "ProvisioningFailed", message, warning=True)
            raise
        self._own.create(volume(claim, storage_class, name, handle))
        self._events.record(claim, "ProvisioningSucceeded", f"Successfully provisioned volume {name}")

    def _provision(self, claim: Object, storage_class: Object, name: str) -> str:
        """Return the handle of a volume with a new access point, or with a reused one."""
        check_claim(claim, storage_class)
        parameters = Parameters.parse(storage_class.get("parameters") or {})
        point = self._find(parameters, parameters.token(claim, name)) if parameters.reuse else None
        if point is None:
            used_gids: list[int] = []
            if parameters.uid is None or parameters.gid is None:
                points = self._points(parameters, "Failed to fetch Access Points or Describe File System")
                used_gids = [existing["PosixUser"]["Gid"] for existing in points if existing.get("PosixUser")]
            uid, gid = parameters.owner(used_gids)
            owner = {"OwnerUid": uid, "OwnerGid": gid, "Permissions": parameters.permissions}
            request: Object = {
                "ClientToken": parameters.token(claim, name),
                "FileSystemId": parameters.file_system,
                "PosixUser": {"Uid": uid, "Gid": gid},
                "RootDirectory": {
                    "Path": parameters.directory(claim, name, lambda: str(uuid.uuid4())),
                    "CreationInfo": owner,
                },
            }
            if parameters.tagged:
                request["Tags"] = [{"Key": TAG, "Value": "true"}]
            what = (
                f"Failed to create Access point in File System {parameters.file_system} : Failed to create access point"
            )
            point = self._efs("create_access_point", what, **request)
        return f"{parameters.file_system}::{point['AccessPointId']}"

    def _find(self, parameters: Parameters, token: str) -> Object | None:
        points = self._points(parameters, "failed to find access point")
        point = next((candidate for candidate in points if candidate["ClientToken"] == token), None)
        if point is not None:
            parameters.check_existing(point)
        return point

    def _points(self, parameters: Parameters, what: str) -> list[Object]:
        points: list[Object] = []
        next_page: dict[str, str] = {}
        while True:
            request = {"FileSystemId": parameters.file_system, "MaxResults": 1000, **next_page}
            response = self._efs("describe_access_points", what, **request)
            points += response["AccessPoints"]
            if not response.get("NextToken"):
                return points
            next_page = {"NextToken": response["NextToken"]}

    def _efs(self, operation: str, what: str, **parameters: Any) -> Any:
        """Call EFS as the driver's service account; Refusal with the driver's message if it fails."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return getattr(self._credentials.service("efs"), operation)(**parameters)
        except NoCredentials as error:
            raise ProvisioningError("Internal", f"{what}: failed to refresh cached credentials, {error}") from error
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code == "FileSystemNotFound" and operation == "describe_access_points":
                raise ProvisioningError(
                    "InvalidArgument", "File System does not exist: Resource was not found"
                ) from error
            if code in {"AccessDeniedException", "ExpiredTokenException"}:
                self._credentials.forget()
                text = "Access Denied. Please ensure you have the right AWS permissions"
                raise ProvisioningError("Unauthenticated", f"{text}: {error.response['Error']['Message']}") from error
            raise ProvisioningError("Internal", f"{what}: {code}: {error.response['Error']['Message']}") from error
        except BotoCoreError as error:
            raise ProvisioningError("Internal", f"{what}: {error}") from error

    def _reconcile_volume(self, resource: Object) -> None:
        """Keep a deleted volume until its access point is deleted; then delete both."""
        metadata, spec, path = resource["metadata"], resource["spec"], f"{_VOLUMES}/{resource['metadata']['name']}"
        phase, finalizers = (resource.get("status") or {}).get("phase"), metadata.get("finalizers") or []
        deleting, deletes = "deletionTimestamp" in metadata, spec.get("persistentVolumeReclaimPolicy") == "Delete"
        if FINALIZER in finalizers and not deletes:
            self._remove_finalizer(path)
        elif FINALIZER not in finalizers and deletes and phase == "Bound" and not deleting:
            # If it has changed, the watch delivers it again
            self._set_finalizers(path, resource, [*finalizers, FINALIZER])
        if phase != "Released" or not deletes or (deleting and FINALIZER not in finalizers):
            return
        if point := access_point(spec["csi"]["volumeHandle"]):
            try:
                self._delete(point, spec["csi"]["volumeHandle"])
            except ProvisioningError as refusal:
                self._events.record(resource, "VolumeFailedDelete", str(refusal), warning=True)
                raise
        self._own.delete(path)
        self._remove_finalizer(path)

    def _delete(self, point: str, handle: str) -> None:
        try:
            self._efs("delete_access_point", f"Failed to Delete volume {handle}", AccessPointId=point)
        except ProvisioningError as refusal:
            if "AccessPointNotFound" not in str(refusal):
                raise

    def _remove_finalizer(self, path: str) -> None:
        while (existing := self._client.find(path)) is not None:
            rest = [finalizer for finalizer in existing["metadata"].get("finalizers") or [] if finalizer != FINALIZER]
            if self._set_finalizers(path, existing, rest):
                return

    def _set_finalizers(self, path: str, resource: Object, finalizers: list[str]) -> bool:
        """Write the finalizers; return False if the volume has changed meanwhile, so that no other's finalizer gets
        lost.
        """
        change = {"finalizers": finalizers, "resourceVersion": resource["metadata"]["resourceVersion"]}
        try:
            self._own.merge(path, {"metadata": change})
        except ApiError as error:
            if error.status not in {404, 409}:
                raise
            return error.status == 404
        return True


def _is_managed(resource: Object) -> bool:
    """Return whether a claim or a volume belongs to the driver."""
    annotations = resource["metadata"].get("annotations") or {}
    if resource["kind"] == "PersistentVolumeClaim":
        return any(annotations.get(name) == DRIVER for name in _PROVISIONER)
    by = annotations.get(PROVISIONED_BY, (resource["spec"].get("csi") or {}).get("driver"))
    return by == DRIVER and "csi" in resource["spec"]


def _addon_objects(addon: Object) -> list[Object]:
    """Return the objects that EKS installs with the add-on, as far as the rehearsal needs them."""
    metadata: Object = {"name": SERVICE_ACCOUNT, "namespace": NAMESPACE}
    if role := addon.get("serviceAccountRoleArn"):
        metadata["annotations"] = {ROLE: role}
    rbac, role = "rbac.authorization.k8s.io", "efs-csi-external-provisioner-role"
    verbs = ["get", "list", "watch", "create", "patch", "delete"]
    subject = {"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": NAMESPACE}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": NODE_SERVICE_ACCOUNT, "namespace": NAMESPACE},
        },
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": role},
            "rules": [{"apiGroups": [""], "resources": ["persistentvolumes"], "verbs": verbs}],
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
