"""Run the init containers of a sandbox on this machine: they prepare its volumes, and are part of the class's template.

They see their mounts under other paths, and run as the pod's user where this process may decide that. One without a
mount has nothing to prepare: the network gate waits for a policy, and there is no network here.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from agentenv.local.sandboxes.bundle import CannotStart, replace_paths
from agentenv.rehearsal.controlplane.sandboxes.homes import Owner
from agentenv.rehearsal.controlplane.sandboxes.mounts import PodVolumes

Object = dict[str, Any]

_SECONDS = 60.0
_PATH = "/usr/local/bin:/usr/bin:/bin"


def run(pod: Object, pod_volumes: PodVolumes, workspaced: Path, root: Path, user: Owner) -> None:
    """Run them in order; CannotStart with the output of one that fails. `root` is the root folder of the image."""
    for init in pod["spec"].get("initContainers") or ():
        command = [*(init.get("command") or ()), *(init.get("args") or ())]
        mounts = pod_volumes.mounts(init)
        if not mounts or not command:
            continue
        folders = {Path(mount.target): mount.source for mount in mounts}
        is_workspaced = Path(command[0]).name == "workspaced"
        if is_workspaced and command[1] == "install" and Path(command[2]) in folders:
            _link(workspaced, folders[Path(command[2])] / "workspaced")
            continue
        with contextlib.ExitStack() as opened:
            # The user may enter these folders, and not the ones above them: they are reached by open descriptors
            paths = {target: _descriptor(source, opened) for target, source in folders.items()}
            arguments = [replace_paths(text, {t: Path(f"/proc/self/fd/{fd}") for t, fd in paths.items()})
                         for text in command[1:]]  # fmt: skip
            descriptors = list(paths.values())
            program = command[0]
            if is_workspaced:
                descriptors.append(file := _descriptor(workspaced, opened))
                program = f"/proc/self/fd/{file}"
            if is_workspaced and arguments[:1] == ["passwd"]:
                descriptors.append(image := _descriptor(root, opened))
                arguments[1:1] = [f"--from=/proc/self/fd/{image}/etc/passwd", f"--uid={user.uid}", f"--gid={user.gid}"]
            _run(init["name"], [program, *arguments], descriptors, user)


def _run(name: str, command: list[str], descriptors: list[int], user: Owner) -> None:
    identity: Object = {"user": user.uid, "group": user.gid, "extra_groups": []} if os.geteuid() == 0 else {}
    try:
        result = subprocess.run(
            command,
            env={"PATH": _PATH},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            pass_fds=descriptors,
            timeout=_SECONDS,
            check=False,
            **identity,
        )
    except subprocess.TimeoutExpired as error:
        raise CannotStart(f"the init container {name} did not end within {_SECONDS:.0f} s") from error
    if result.returncode != 0:
        output = (result.stderr or result.stdout).strip()[-500:]
        raise CannotStart(f"the init container {name} ended with {result.returncode}: {output}")


def _descriptor(path: Path, opened: contextlib.ExitStack) -> int:
    descriptor = os.open(path, os.O_RDONLY)
    opened.callback(os.close, descriptor)
    return descriptor


def _link(program: Path, target: Path) -> None:
    """Put the program at a path, as the same file where both are on one file system: its memory is then shared."""
    target.unlink(missing_ok=True)
    try:
        os.link(program, target)
    except OSError:
        shutil.copy2(program, target)
