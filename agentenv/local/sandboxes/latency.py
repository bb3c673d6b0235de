"""Run a sandbox whose home has the latency of a network file system: the runtime's command under `latencyfs`."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from agentenv.local.sandboxes.bundle import Bundle, Mount, Runtime


@dataclass(frozen=True)
class WithLatency:
    """A runtime that delays the operations on network mounts by so many milliseconds."""

    runtime: Runtime
    latencyfs: Path
    milliseconds: float

    @property
    def name(self) -> str:
        """Return the name that the summary shows."""
        return f"{self.runtime.name}, with {self.milliseconds:g} ms of latency on homes"

    @property
    def own_network(self) -> bool:
        """Return whether a sandbox is entered by its Unix socket."""
        return self.runtime.own_network

    @property
    def not_simulated(self) -> tuple[str, ...]:
        """Return what of a sandbox is not simulated."""
        return self.runtime.not_simulated

    def command(self, bundle: Bundle) -> list[str]:
        """Return the command that mounts the folders and runs the bundle on them, in a mount namespace of its own."""
        slow: list[str] = []
        mounts: list[Mount] = []
        for number, mount in enumerate(bundle.mounts):
            if mount.network:
                target = bundle.folder / f"network-{number}"
                target.mkdir()
                slow.append(f"{mount.source}={target}")
                mounts.append(replace(mount, source=target))
            else:
                mounts.append(mount)
        command = self.runtime.command(replace(bundle, mounts=tuple(mounts)))
        return [str(self.latencyfs), f"--delay={self.milliseconds}ms", *slow, "--", *command] if slow else command

    def terminate(self, bundle: Bundle, process: subprocess.Popen[bytes]) -> None:
        """Send SIGTERM to the sandbox's first process."""
        self.runtime.terminate(bundle, process)
