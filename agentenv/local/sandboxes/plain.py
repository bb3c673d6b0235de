"""Run a sandbox as plain processes of this machine, where neither gVisor nor namespaces are allowed.

Nothing keeps it from anything: mounts are replaced by the paths of their folders, and it listens on the pod's address
itself. Its processes carry the run's mark, by which those that outlive workspaced are found.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from agentenv.local.sandboxes.bundle import Bundle, replace_paths


@dataclass(frozen=True)
class PlainProcesses:
    """The runtime of last resort."""

    name: str = "processes"
    own_network: bool = False
    not_simulated: tuple[str, ...] = ("isolation of any kind: they run as this user's processes",)

    def command(self, bundle: Bundle) -> list[str]:
        """Return workspaced's own command line, with its environment."""
        # Of the root folder's mounts only those of volumes: a program finds its libraries where they are
        folders = {Path(mount.target): mount.source for mount in bundle.mounts if mount.source != Path(mount.target)}
        inner_first = dict(sorted(folders.items(), key=lambda row: -len(str(row[0]))))
        arguments = [replace_paths(text, inner_first) for text in bundle.arguments]
        variables = {name: replace_paths(value, inner_first) for name, value in bundle.environment.items()}
        return ["env", *(f"{name}={value}" for name, value in variables.items()), *arguments]

    def terminate(self, bundle: Bundle, process: subprocess.Popen[bytes]) -> None:  # noqa: ARG002 - the protocol's
        """Send SIGTERM to workspaced."""
        process.terminate()
