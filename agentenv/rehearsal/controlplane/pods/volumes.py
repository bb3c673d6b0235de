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

from agentenv.local.sandboxes.bundle import CannotStart
from agentenv.rehearsal.controlplane.client import PodApi
from agentenv.rehearsal.controlplane.pods import container

Object = dict[str, Any]

TOKEN_SECONDS = 3600
_LOG = logging.getLogger(__name__)
_UNSHARE = ("unshare", "--map-root-user", "--mount")
# $1 the folder that is overlaid, $2 what lies over it, $3 overlayfs's own workplace; then the program
_OVERLAY = 'mount -t overlay overlay -o "lowerdir=$1,upperdir=$2,workdir=$3" "$1" && shift 3 && exec "$@"'


def write_files(client: PodApi, pod: Object, folder: Path) -> dict[Path, Path]:
    """Write the pod's ConfigMaps, Secrets and projections to files; return the folder of each mount path."""
    shutil.rmtree(folder, ignore_errors=True)
    sources = {row["name"]: row for row in pod["spec"].get("volumes") or ()}
    mounts: dict[Path, Path] = {}
    for mount in pod["spec"]["containers"][0].get("volumeMounts") or ():
        files = contents(client, pod, sources.get(mount["name"], {}))
        if not files:
            continue
        target = folder / mount["name"]
        write_contents(files, target)
        mounts[Path(mount["mountPath"])] = target
    return mounts


def write_contents(files: Mapping[str, bytes], folder: Path) -> None:
    """Write files that differ, each in one step: a program may be reading them."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file() and path.read_bytes() == content:
            continue
        temporary = path.with_name(f".{path.name}.new")
        temporary.write_bytes(content)
        temporary.replace(path)


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


def _succeeds(command: Sequence[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=10).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def contents(client: PodApi, pod: Object, volume: Object, address: str = "") -> dict[str, bytes] | None:
    """Return the files of a volume that the kubelet writes; None for a volume of another kind."""
    for kind in ("configMap", "secret", "downwardAPI"):
        if kind in volume:
            return _source(client, pod, kind, volume[kind], address)
    if "projected" not in volume:
        return None
    files: dict[str, bytes] = {}
    for source in volume["projected"].get("sources") or ():
        for kind, row in source.items():
            files |= _source(client, pod, kind, row, address)
    return files


def _source(client: PodApi, pod: Object, kind: str, source: Object, address: str) -> dict[str, bytes]:
    if kind == "serviceAccountToken":
        audiences = [source["audience"]] if source.get("audience") else []
        token = request_token(client, pod, *audiences, seconds=source.get("expirationSeconds", TOKEN_SECONDS))
        return {source["path"]: token.encode()}
    if kind == "downwardAPI":
        return {
            item["path"]: container.field(pod, item["fieldRef"]["fieldPath"], address).encode()
            for item in source.get("items") or ()
        }
    if kind not in {"configMap", "secret"}:
        raise CannotStart(f"a projection of {kind} is not simulated here")
    name = source.get("name") or source.get("secretName")
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/{kind.lower()}s/{name}"
    document = client.find(path)
    if document is None:
        if source.get("optional"):
            return {}
        raise CannotStart(f'{kind.lower()} "{name}" not found')
    data = {key: value.encode() for key, value in (document.get("data") or {}).items()}
    if kind == "secret":
        data = {key: base64.b64decode(value) for key, value in data.items()}
    data |= {key: base64.b64decode(value) for key, value in (document.get("binaryData") or {}).items()}
    if not (items := source.get("items")):
        return data
    return {item["path"]: data[item["key"]] for item in items if item["key"] in data or not source.get("optional")}


def request_token(client: PodApi, pod: Object, *audiences: str, seconds: int = TOKEN_SECONDS) -> str:
    """Return a new token of the pod's service account, bound to the pod."""
    metadata = pod["metadata"]
    bound = {"kind": "Pod", "apiVersion": "v1", "name": metadata["name"], "uid": metadata["uid"]}
    spec: Object = {"expirationSeconds": seconds, "boundObjectRef": bound}
    if audiences:
        spec["audiences"] = list(audiences)
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    account = pod["spec"].get("serviceAccountName") or "default"
    path = f"/api/v1/namespaces/{metadata['namespace']}/serviceaccounts/{account}/token"
    return client.request("POST", path, body)["status"]["token"]
