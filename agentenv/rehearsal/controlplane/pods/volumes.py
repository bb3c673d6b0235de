"""The files that a resident's pod mounts, laid where its program looks for them.

A program that reads `/etc/…` cannot be told another place. So it is started in a mount namespace of its own, in which
the folder above is overlaid: it sees the mounted files, and the machine sees nothing. Where the kernel does not allow
that, the program starts without them and the log says so.
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


def gather(client: Client, pod: Object, folder: Path) -> dict[Path, Path]:
    """Write what the pod's ConfigMaps and Secrets hold: the path in the container, and the folder with the files."""
    shutil.rmtree(folder, ignore_errors=True)
    sources = {row["name"]: row for row in pod["spec"].get("volumes") or ()}
    namespace = pod["metadata"]["namespace"]
    mounted: dict[Path, Path] = {}
    for mount in pod["spec"]["containers"][0].get("volumeMounts") or ():
        files = _files(client, namespace, sources.get(mount["name"], {}))
        if not files:
            continue
        place = folder / mount["name"]
        place.mkdir(parents=True)
        for name, content in files.items():
            (place / name).write_bytes(content)
        mounted[Path(mount["mountPath"])] = place
    return mounted


def mounted(arguments: Sequence[str], wanted: Mapping[Path, Path], folder: Path) -> list[str]:
    """The command line that starts the program with those files in their places."""
    command = list(arguments)
    for number, (target, source) in enumerate(wanted.items()):
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
        tried = [*_UNSHARE, "sh", "-c", _OVERLAY, "overlay", *layers, "true"]
        if not _works(tried):
            _LOG.warning("%s is not mounted: this machine allows no overlay in a namespace", target)
            continue
        command = [*_UNSHARE, "sh", "-c", _OVERLAY, "overlay", *layers, *command]
    return command


def moved(text: str, wanted: Mapping[Path, Path]) -> str:
    """An argument that names a mounted file, naming it where it lies: for programs that can be told."""
    for target, source in wanted.items():
        text = text.replace(f"{target}/", f"{source}/")
    return text


def _works(command: Sequence[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=10).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _files(client: Client, namespace: str, volume: Object) -> dict[str, bytes]:
    if "configMap" in volume:
        name = volume["configMap"]["name"]
        found = client.find(f"/api/v1/namespaces/{namespace}/configmaps/{name}")
        return {key: value.encode() for key, value in ((found or {}).get("data") or {}).items()}
    if "secret" in volume:
        found = client.find(f"/api/v1/namespaces/{namespace}/secrets/{volume['secret']['secretName']}")
        return {key: base64.b64decode(value) for key, value in ((found or {}).get("data") or {}).items()}
    return {}
