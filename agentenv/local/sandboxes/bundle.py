"""The bundle of a sandbox for every runtime: its command, user, root folder and mounts."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

# Where the folder with the relay's socket is mounted, and the socket in it.
SOCKET_FOLDER, SOCKET = "/.relay", "workspaced"


class CannotStart(Exception):
    """The reason why a sandbox, or the program of a pod, cannot be started."""


@dataclass(frozen=True)
class Mount:
    """A folder or file of this machine at a path of the sandbox."""

    source: Path
    target: str
    read_only: bool = False
    network: bool = False  # whether it stands for a network file system
    memory: int = 0  # the size of a file system in memory, in place of the source


@dataclass(frozen=True)
class Network:
    """The interface of a sandbox: who carries its connections, and where connections to it are taken."""

    program: Path  # podnetwork, which the runtime's command is started by
    address: str
    relay: Path
    inbound: Path

    def command(self) -> list[str]:
        """Return the command before the one of the runtime."""
        sockets = [f"--relay={self.relay}", f"--inbound={self.inbound}"]
        return [str(self.program), f"--address={self.address}", *sockets, "--"]


@dataclass(frozen=True)
class Bundle:
    """One start of a sandbox."""

    id: str
    folder: Path  # a new folder, for the runtime's own files too
    root: Path
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    mounts: tuple[Mount, ...]
    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    cwd: str = "/"
    hostname: str = "sandbox"
    read_only_root: bool = True
    network: Network | None = None  # without one it has a loopback alone

    @property
    def socket(self) -> Path:
        """Return the path at which the sandbox listens."""
        return self.folder / "socket" / SOCKET


class Runtime(Protocol):
    """Starts bundles as processes; a process that is killed leaves nothing of its sandbox behind."""

    @property
    def name(self) -> str:
        """Return the name that the summary shows."""
        ...

    @property
    def own_network(self) -> bool:
        """Return whether a sandbox is entered by its Unix socket; else it listens on the pod's address itself."""
        ...

    @property
    def not_simulated(self) -> tuple[str, ...]:
        """Return what of a sandbox is not simulated."""
        ...

    def command(self, bundle: Bundle) -> list[str]:
        """Return the command that runs the bundle, after writing what it needs into the bundle's folder."""
        ...

    def terminate(self, bundle: Bundle, process: subprocess.Popen[bytes]) -> None:
        """Send SIGTERM to the sandbox's first process."""
        ...


def replace_paths(text: str, folders: Mapping[Path, Path]) -> str:
    """Return an argument with mounted paths replaced by the actual ones, for programs that take paths."""
    for target, source in folders.items():
        text = str(source) if text == str(target) else text.replace(f"{target}/", f"{source}/")
    return text
