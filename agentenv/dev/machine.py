"""Sandboxes on this machine: the runtime, workspaced, and the cleanup after the process ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentenv.dev.sandboxes import Sandboxes
from agentenv.local import cleanup_process, processes, run_folders
from agentenv.local.sandboxes import detect
from agentenv.local.sandboxes.bundle import CannotStart, Runtime
from agentenv.rehearsal.tools import Toolbox, ensure
from agentenv.rehearsal.tools.catalog import recipe
from agentenv.rehearsal.tools.toolbox import find

if TYPE_CHECKING:
    from agentenv.rehearsal.tools.progress import Progress

_WORKSPACED, _RUNSC = "workspaced", "runsc"


@dataclass(frozen=True)
class Machine:
    """The programs and folders of this machine that sandboxes need."""

    run: run_folders.Run
    workspaced: Path
    runtime: Runtime
    passed_over: tuple[str, ...]  # why a stronger runtime is not used

    def sandboxes(self, homes: Path, keys: str) -> Sandboxes:
        """Return sandboxes with homes in a folder, which admit tokens of the public keys."""
        return Sandboxes(self.run.folder, homes, runtime=self.runtime, workspaced=self.workspaced, keys=keys)


@contextmanager
def machine(progress: Progress, *, gvisor: bool = False) -> Iterator[Machine]:
    """Choose how sandboxes run, and end every process of them at the end, also after `kill -9` of this one.

    `gvisor` builds gVisor where the machine does not have it.
    """
    toolbox = ensure([_WORKSPACED], progress, [_RUNSC] if gvisor else [])
    runsc = _tool(toolbox, _RUNSC) or find(recipe(_RUNSC)).path
    run_folders.sweep()
    run = run_folders.create()
    cleanup = cleanup_process.start(run.id, run.folder)
    os.environ[processes.MARK] = run.id
    try:
        runtime, passed_over = detect.choose(toolbox.path(_WORKSPACED), runsc, run.folder)
        if runtime is None:
            raise CannotStart(f"no sandbox can run on this machine: {'; '.join(passed_over)}")
        yield Machine(run, toolbox.path(_WORKSPACED), runtime, passed_over)
    finally:
        del os.environ[processes.MARK]
        processes.end(run.id)
        run.remove()
        cleanup_process.stop(cleanup, "done")


def _tool(toolbox: Toolbox, name: str) -> Path | None:
    tool = toolbox.tools.get(name)
    return tool.path if tool else None
