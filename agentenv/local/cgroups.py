"""Limits of processors by cgroups, where this user may create them.

A process enters its cgroup by itself before it becomes the program, so that nothing it starts is left outside. An empty
cgroup holds nothing, but it outlives a killed run: whoever ends a run's processes deletes its cgroups too.
"""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

_MOUNT = Path("/sys/fs/cgroup")
_PREFIX = "agentenv"
_PERIOD, _LEAST = 100_000, 1_000  # microseconds
_TRY_SECONDS = 10.0
_EMPTY_SECONDS, _POLL_SECONDS = 5.0, 0.05
_numbers = itertools.count()


@dataclass(frozen=True)
class Cgroup:
    """One cgroup, whose processes share a limit."""

    folder: Path

    def command(self, command: list[str]) -> list[str]:
        """Return the command that runs another one in this cgroup."""
        return ["/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.folder / "cgroup.procs"), *command]

    def limit(self, cpus: Decimal | None) -> None:
        """Limit the processors to this many, or not at all."""
        quota = None if cpus is None else max(int(cpus * _PERIOD), _LEAST)
        if (self.folder / "cpu.max").exists():
            _write(self.folder / "cpu.max", f"{'max' if quota is None else quota} {_PERIOD}")
        else:
            _write(self.folder / "cpu.cfs_period_us", str(_PERIOD))
            _write(self.folder / "cpu.cfs_quota_us", str(-1 if quota is None else quota))

    def remove(self) -> None:
        """Delete the cgroup once its last process has ended; one that lives on keeps it."""
        deadline = time.monotonic() + _EMPTY_SECONDS
        while self.folder.exists():
            with contextlib.suppress(OSError):
                self.folder.rmdir()
                return
            if time.monotonic() > deadline:
                return
            time.sleep(_POLL_SECONDS)


@dataclass(frozen=True)
class Cgroups:
    """The folder of a hierarchy with the controller of processors, for the cgroups of one run."""

    parent: Path
    run: str

    @contextlib.contextmanager
    def create(self, cpus: Decimal | None) -> Iterator[Cgroup]:
        """Create a cgroup with a limit, and delete it at the end."""
        cgroup = Cgroup(self.parent / f"{_PREFIX}-{self.run}-{next(_numbers)}")
        cgroup.folder.mkdir()
        try:
            cgroup.limit(cpus)
            yield cgroup
        finally:
            cgroup.remove()


def detect(run: str, mount: Path = _MOUNT, own: Path = Path("/proc/self/cgroup")) -> tuple[Cgroups | None, str]:
    """Return where cgroups can be created, or None and why not, after running a program in one."""
    reason = "this machine has no controller of processors"
    for parent in _parents(mount, own):
        cgroups = Cgroups(parent, run)
        try:
            with cgroups.create(Decimal(1)) as cgroup:
                command = cgroup.command(["true"])
                subprocess.run(command, check=True, capture_output=True, timeout=_TRY_SECONDS)
        except (OSError, subprocess.SubprocessError) as error:
            reason = str(error)
        else:
            return cgroups, ""
    return None, reason


def remove(run: str, mount: Path = _MOUNT, own: Path = Path("/proc/self/cgroup")) -> None:
    """Delete the cgroups of a run whose processes have ended."""
    for parent in _parents(mount, own):
        for folder in parent.glob(f"{_PREFIX}-{run}-*"):
            Cgroup(folder).remove()


def _parents(mount: Path, own: Path) -> Iterator[Path]:
    """Yield the folders in which a cgroup of this process may be created: version 2, then 1."""
    try:
        rows = [line.split(":", 2) for line in own.read_text(encoding="utf-8").splitlines()]
    except OSError:
        return
    for _, controllers, path in rows:
        if controllers == "" and (mount / "cgroup.controllers").exists():
            folder = mount / path.strip("/")
            # Below the own one, or beside it: one with processes has no children with controllers, but for the root
            for parent in (folder, folder.parent) if folder != mount else (folder,):
                with contextlib.suppress(OSError):
                    _write(parent / "cgroup.subtree_control", "+cpu")
                    yield parent
        elif "cpu" in controllers.split(","):
            yield mount / controllers / path.strip("/")


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="ascii")
