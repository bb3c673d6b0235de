"""The files that a pod mounts, made visible to its process.

A program that reads `/etc/…` cannot be given another path. So it is started in a mount namespace of its own with an
overlay over the parent folder: only the process sees the files. Where the kernel does not allow that, the program
starts without them, with a warning in the log.
"""

from __future__ import annotations

import base64
import logging
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentenv.rehearsal.controlplane.client import Client

Object = dict[str, Any]

_LOG = logging.getLogger(__name__)
_UNSHARE = ("unshare", "--map-root-user", "--mount")
# $1 the folder that is overlaid, $2 what lies over it, $3 overlayfs's own workplace; then the program
_OVERLAY = 'mount -t overlay overlay -o "lowerdir=$1,upperdir=$2,workdir=$3" "$1" && shift 3 && exec "$@"'


def write_files(client: Client, pod: Object, folder: Path) -> dict[Path, Path]:
    """Write the pod's ConfigMaps and Secrets to files; return the folder of each mount path."""
    shutil.rmtree(folder, ignore_errors=True)
    sources = {row["name"]: row for row in pod["spec"].get("volumes") or ()}
    namespace = pod["metadata"]["namespace"]
    mounts: dict[Path, Path] = {}
    for mount in pod["spec"]["containers"][0].get("volumeMounts") or ():
        files = _files(client, namespace, sources.get(mount["name"], {}))
        if not files:
            continue
        target = folder / mount["name"]
        target.mkdir(parents=True)
        for name, content in files.items():
            (target / name).write_bytes(content)
        mounts[Path(mount["mountPath"])] = target
    return mounts


def command_with_mounts(arguments: Sequence[str], folders: Mapping[Path, Path], folder: Path) -> list[str]:
    """Return the command line that starts the program with those files mounted."""
    command = list(arguments)
    for number, (target, source) in enumerate(folders.items()):
        existing = target
        while not existing.is_dir():
            existing = existing.parent
        if existing == Path("/"):
            _LOG.warning("%s cannot be mounted: the rehearsal does not overlay the root folder", target)
            continue
        upper, work = folder / f"upper-{number}", folder / f"work-{number}"
        for place in (upper, work):
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
        shutil.copytree(source, upper / target.relative_to(existing), dirs_exist_ok=True)
        layers = [str(existing), str(upper), str(work)]
        probe = [*_UNSHARE, "sh", "-c", _OVERLAY, "overlay", *layers, "true"]
        if not _succeeds(probe):
            _LOG.warning("%s is not mounted: this machine allows no overlay in a namespace", target)
            continue
        command = [*_UNSHARE, "sh", "-c", _OVERLAY, "overlay", *layers, *command]
    return command


def replace_paths(text: str, folders: Mapping[Path, Path]) -> str:
    """Return an argument with mounted paths replaced by the actual ones, for programs that take paths."""
    for target, source in folders.items():
        text = text.replace(f"{target}/", f"{source}/")
    return text


def _succeeds(command: Sequence[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=10).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _files(client: Client, namespace: str, volume: Object) -> dict[str, bytes]:
    if "configMap" in volume:
        name = volume["configMap"]["name"]
        document = client.find(f"/api/v1/namespaces/{namespace}/configmaps/{name}")
        return {key: value.encode() for key, value in ((document or {}).get("data") or {}).items()}
    if "secret" in volume:
        document = client.find(f"/api/v1/namespaces/{namespace}/secrets/{volume['secret']['secretName']}")
        return {key: base64.b64decode(value) for key, value in ((document or {}).get("data") or {}).items()}
    return {}
