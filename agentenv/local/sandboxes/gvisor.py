"""Run a sandbox under gVisor: `runsc run` on an OCI bundle, without cgroups.

A sandbox with an interface has gVisor's own network stack on it, else a loopback alone.

`runsc` stays in the foreground, and the kernel of the sandbox dies with it however it ends. It carries the run's mark,
which its own children do not. It passes no signals on, so the first process gets them by `runsc kill`.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentenv.local.sandboxes.bundle import Bundle, Mount

Object = dict[str, Any]

_KILL_SECONDS = 10.0
_NAMESPACES = ("pid", "network", "ipc", "uts", "mount")
_FILE_SYSTEMS = (
    {"destination": "/proc", "type": "proc", "source": "proc"},
    {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
    {"destination": "/dev/pts", "type": "devpts", "source": "devpts"},
    {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": ["size=64m"]},  # noqa: S108 - of the sandbox
    {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["ro"]},
)


@dataclass(frozen=True)
class GVisor:
    """The runtime of the tiers `standard` and, on nodes without virtual machines, all others."""

    runsc: Path
    name: str = "gvisor"
    own_network: bool = True
    not_simulated: tuple[str, ...] = ()

    def command(self, bundle: Bundle) -> list[str]:
        """Return the command line of `runsc run`, after writing the bundle's `config.json`."""
        (bundle.folder / "config.json").write_text(json.dumps(specification(bundle)), encoding="utf-8")
        network = bundle.network.command() if bundle.network else []
        return [
            *_as_user(bundle),
            *network,
            *self._runsc(bundle),
            "--platform=systrap",
            f"--network={'sandbox' if network else 'none'}",
            "--host-uds=create",
            "--overlay2=none",
            "run",
            f"--bundle={bundle.folder}",
            bundle.id,
        ]

    def terminate(self, bundle: Bundle, process: subprocess.Popen[bytes]) -> None:
        """Send SIGTERM by `runsc kill`; a sandbox that has not started yet, or has ended, is killed."""
        command = [*_as_user(bundle), *self._runsc(bundle), "kill", bundle.id, "TERM"]
        try:
            subprocess.run(command, env={}, check=True, capture_output=True, timeout=_KILL_SECONDS)
        except (OSError, subprocess.SubprocessError):
            process.kill()

    def _runsc(self, bundle: Bundle) -> list[str]:
        return [str(self.runsc), f"--root={bundle.folder / 'state'}", "--ignore-cgroups"]


def _as_user(bundle: Bundle) -> list[str]:
    """Return the command that gives this user the sandbox's id; `--rootless` knows one user, root."""
    if os.geteuid() == 0:
        return []
    return ["unshare", "--user", f"--map-user={bundle.uid}", f"--map-group={bundle.gid}", "--keep-caps"]


def specification(bundle: Bundle) -> Object:
    """Return the OCI specification of a bundle: no capability, no way to gain one."""
    return {
        "ociVersion": "1.0.0",
        "root": {"path": str(bundle.root), "readonly": bundle.read_only_root},
        "hostname": bundle.hostname,
        "process": {
            "user": {"uid": bundle.uid, "gid": bundle.gid, "additionalGids": list(bundle.groups)},
            "args": list(bundle.arguments),
            "env": [f"{name}={value}" for name, value in bundle.environment.items()],
            "cwd": bundle.cwd,
            "capabilities": {kind: [] for kind in ("bounding", "effective", "permitted", "inheritable", "ambient")},
            "noNewPrivileges": True,
            "rlimits": [{"type": "RLIMIT_NOFILE", "soft": 1048576, "hard": 1048576}],
        },
        "mounts": [
            *(row for row in _FILE_SYSTEMS if row["destination"] not in {mount.target for mount in bundle.mounts}),
            *map(_mounted, bundle.mounts),
        ],
        "linux": {"namespaces": [_namespace(kind, bundle) for kind in _NAMESPACES]},
    }


def _namespace(kind: str, bundle: Bundle) -> Object:
    # Its own process's: podnetwork has created it
    shared = kind == "network" and bundle.network is not None
    return {"type": kind, "path": "/proc/self/ns/net"} if shared else {"type": kind}


def _mounted(mount: Mount) -> Object:
    if mount.memory:
        options = ["nosuid", "nodev", "mode=1777", f"size={mount.memory}"]
        return {"destination": mount.target, "type": "tmpfs", "source": "tmpfs", "options": options}
    options = ["rbind", "ro" if mount.read_only else "rw"]
    return {"destination": mount.target, "type": "bind", "source": str(mount.source), "options": options}
