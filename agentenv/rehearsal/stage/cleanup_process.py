"""The process that outlives a killed rehearsal and clears up after it.

It sits in a session of its own, so that Ctrl-C and a closed terminal do not reach it, and reads a pipe that only the
rehearsal holds. The end of that pipe without a word means that the rehearsal died: then its processes are ended and
its folder is removed. A word (`kept` or `done`) sends the warden home.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from agentenv.rehearsal.stage import processes

_WORDS = frozenset({"kept", "done"})


def hire(run: str, folder: Path) -> subprocess.Popen[bytes]:
    """Start the warden of a run."""
    return subprocess.Popen(
        [sys.executable, "-m", "agentenv.rehearsal.stage.cleanup_process", run, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def dismiss(warden: subprocess.Popen[bytes], word: str) -> None:
    """Send a warden home; it must be told why, or it takes the end of the pipe for a death."""
    if word not in _WORDS:
        raise ValueError(f"a warden knows {sorted(_WORDS)}, not {word!r}")
    warden.communicate(word.encode() + b"\n", timeout=10)


def watch(run: str, folder: Path) -> None:
    """Wait for a word or for the end of the pipe."""
    if sys.stdin.readline().strip() in _WORDS:
        return
    processes.end(run)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    watch(sys.argv[1], Path(sys.argv[2]))
