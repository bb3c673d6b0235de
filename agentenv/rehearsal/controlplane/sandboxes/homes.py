"""The folders that stand for EFS file systems, entered by access points as the simulated account has them.

A file system is a folder of the plane. What an access point says is done here: its root directory is created with its
owner on the first mount, and files belong to its user.
"""

from __future__ import annotations

import contextlib
import functools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from agentenv.local.sandboxes.bundle import CannotStart
from agentenv.rehearsal.controlplane.auth.account import Account
from agentenv.rehearsal.controlplane.auth.pod_credentials import NoCredentials, PodCredentials
from agentenv.rehearsal.controlplane.client import Client
from agentenv.rehearsal.controlplane.storage import efs_driver, efs_provisioning

Object = dict[str, Any]

_MODE = 0o755


@dataclass(frozen=True)
class Owner:
    """The user of an access point."""

    uid: int
    gid: int

    def give(self, path: Path) -> None:
        """Let a file belong to it, as far as this process may decide that."""
        if os.geteuid() == 0:
            os.chown(path, self.uid, self.gid)


@dataclass(frozen=True)
class Home:
    """The folder that a volume mounts, and who owns what is created in it."""

    folder: Path
    owner: Owner | None

    def below(self, path: str) -> Path:
        """Return a sub-path of the volume, created with the mode of the volume's root as a kubelet does."""
        folder = self.folder
        for part in Path(path).parts:
            if part in {"..", "/"} or folder.is_symlink():
                raise CannotStart(f"the sub-path {path} leads out of its volume")
            folder = folder / part
            if not folder.exists():
                folder.mkdir()
                folder.chmod(self.folder.stat().st_mode & 0o777)
                if self.owner is not None:
                    self.owner.give(folder)
        return folder


class Homes(Protocol):
    """The folders of homes, by their volume claims."""

    def home(self, namespace: str, claim: str) -> Home:
        """Return the folder of a PersistentVolumeClaim."""
        ...


class FileSystems:
    """The file systems of one plane."""

    def __init__(self, client: Client, folder: Path, account: Account | None) -> None:
        self._client = client
        self._folder = folder
        self._account = account

    @functools.cached_property
    def _efs(self) -> Any:
        return self._known_account.service("efs")

    @functools.cached_property
    def _node_credentials(self) -> PodCredentials:
        account = efs_driver.NODE_SERVICE_ACCOUNT
        return PodCredentials(self._client, self._known_account, efs_driver.NAMESPACE, account)

    @property
    def _known_account(self) -> Account:
        if self._account is None:
            raise CannotStart("there is no simulated account that has access points")
        return self._account

    def home(self, namespace: str, claim: str) -> Home:
        """Return the folder of a PersistentVolumeClaim."""
        path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim}"
        volume_name = ((self._client.find(path) or {}).get("spec") or {}).get("volumeName")
        volume = self._client.find(f"/api/v1/persistentvolumes/{volume_name}") if volume_name else None
        if volume is None:
            raise CannotStart(f'persistentvolumeclaim "{claim}" is not bound')
        handle = (volume["spec"].get("csi") or {}).get("volumeHandle", "")
        location = efs_provisioning.root_path(handle)
        if location is None:
            raise CannotStart(f"the volume {volume_name} is none of EFS, which is not simulated here")
        point = efs_provisioning.access_point(handle)
        self._check_mount(volume, location[0], point)
        if point is None:
            return self._enter(*location, None, _MODE)
        description = self._access_point(point)
        root = description["RootDirectory"]
        creation = root.get("CreationInfo") or {}
        user = description.get("PosixUser") or {"Uid": creation.get("OwnerUid", 0), "Gid": creation.get("OwnerGid", 0)}
        mode = int(creation.get("Permissions") or f"{_MODE:o}", 8)
        return self._enter(location[0], root["Path"], Owner(user["Uid"], user["Gid"]), mode)

    def _check_mount(self, volume: Object, system: str, point: str | None) -> None:
        """Raise if EFS refuses the mount to the driver's node pod, with the volume's mount options."""
        if self._account is None:
            return  # tests of a plane alone
        options = volume["spec"].get("mountOptions") or ()
        try:
            key = self._node_credentials.current()["AccessKeyId"] if "iam" in options else None
        except NoCredentials as error:
            raise CannotStart(f"mount failed: Unable to locate credentials: {error}") from error
        # An access point is mounted with TLS, whether or not the options have it
        reason = self._known_account.refused_mount(
            system, point, tls=point is not None or "tls" in options, access_key=key
        )
        if reason:
            self._node_credentials.forget()
            raise CannotStart(f"mount failed: {reason}")

    def _enter(self, system: str, path: str, owner: Owner | None, mode: int) -> Home:
        folder = self._folder / system / path.strip("/")
        if not folder.is_dir():
            folder.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):  # another pod mounts it for the first time too
                folder.mkdir()
                folder.chmod(mode)
                if owner is not None:
                    owner.give(folder)
        return Home(folder, owner)

    def _access_point(self, point: str) -> Object:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return self._efs.describe_access_points(AccessPointId=point)["AccessPoints"][0]
        except (BotoCoreError, ClientError) as error:
            raise CannotStart(f"mount failed: the access point {point}: {error}") from error
