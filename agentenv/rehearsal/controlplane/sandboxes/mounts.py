"""The volumes of a sandbox's pod, as folders of this machine.

What a kubelet writes (ConfigMaps, Secrets, the downward API, tokens) is written here, and written again while the pod
runs, so that a rotated key arrives. Volumes of kinds that are not simulated are refused rather than left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentenv.core.values.quantities import Quantity
from agentenv.local.sandboxes.bundle import CannotStart, Mount
from agentenv.rehearsal.controlplane.client import PodApi
from agentenv.rehearsal.controlplane.pods import volumes
from agentenv.rehearsal.controlplane.sandboxes.homes import Home, Homes

Object = dict[str, Any]


class PodVolumes:
    """The volumes of one pod."""

    def __init__(self, client: PodApi, pod: Object, folder: Path, file_systems: Homes, address: str) -> None:
        self._client = client
        self._pod = pod
        self._folder = folder
        self._file_systems = file_systems
        self._address = address
        self._homes: dict[str, Home] = {}
        self._claims: set[str] = set()  # the volumes of a file system
        self._memory: dict[str, int] = {}  # the sizes of volumes in memory

    def create(self) -> None:
        """Create every volume; one that exists keeps its content, as over a container's restart."""
        for volume in self._pod["spec"].get("volumes") or ():
            name = volume["name"]
            folder = self._folder / name
            if "persistentVolumeClaim" in volume:
                claim = volume["persistentVolumeClaim"]["claimName"]
                self._homes[name] = self._file_systems.home(self._pod["metadata"]["namespace"], claim)
                self._claims.add(name)
            elif "emptyDir" in volume:
                folder.mkdir(parents=True, exist_ok=True)
                folder.chmod(0o777)
                self._homes[name] = Home(folder, None)
                if volume["emptyDir"].get("medium") == "Memory":
                    self._memory[name] = int(Quantity.parse(str(volume["emptyDir"]["sizeLimit"])).value)
            elif (files := volumes.contents(self._client, self._pod, volume, self._address)) is not None:
                folder.mkdir(parents=True, exist_ok=True)
                volumes.write_contents(files, folder)
                self._homes[name] = Home(folder, None)
            else:
                kinds = ", ".join(kind for kind in volume if kind != "name")
                raise CannotStart(f"the volume {name} is of kind {kinds}, which is not simulated here")

    def refresh(self) -> None:
        """Write again what the API server has of ConfigMaps, Secrets, fields and tokens."""
        for volume in self._pod["spec"].get("volumes") or ():
            if (files := volumes.contents(self._client, self._pod, volume, self._address)) is not None:
                volumes.write_contents(files, self._folder / volume["name"])

    def mounts(self, container: Object) -> tuple[Mount, ...]:
        """Return the mounts of a container, outer paths first."""
        rows = sorted(container.get("volumeMounts") or (), key=lambda row: row["mountPath"].count("/"))
        return tuple(
            Mount(
                self._source(row),
                row["mountPath"].rstrip("/"),
                read_only=bool(row.get("readOnly")),
                network=row["name"] in self._claims,
                memory=self._memory.get(row["name"], 0),
            )
            for row in rows
        )

    def folder(self, name: str) -> Path:
        """Return the folder of a volume."""
        return self._homes[name].folder

    def _source(self, mount: Object) -> Path:
        home = self._homes.get(mount["name"])
        if home is None:
            raise CannotStart(f"there is no volume {mount['name']} for {mount['mountPath']}")
        path = mount.get("subPath")
        if not path:
            return home.folder
        existing = home.folder / path
        source = existing if existing.is_file() else home.below(path)
        if not source.resolve().is_relative_to(home.folder.resolve()):
            raise CannotStart(f"the sub-path {path} leads out of its volume")
        return source
