"""The process that outlives a killed rehearsal and cleans up after it.

It runs in a session of its own, so that Ctrl-C and a closed terminal do not reach it. It reads a pipe whose other end
only the rehearsal holds. If the pipe ends without a message, the rehearsal died: its processes are ended and its
folder is deleted. A message (`kept` or `done`) ends this process without any cleanup.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from agentenv.local import processes

_MESSAGES = frozenset({"kept", "done"})


def start(run: str, folder: Path) -> subprocess.Popen[bytes]:
    """Start the cleanup process of a run."""
    return subprocess.Popen(
        [sys.executable, "-m", "agentenv.local.cleanup_process", run, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def stop(process: subprocess.Popen[bytes], message: str) -> None:
    """Stop the cleanup process; without a message it would clean up."""
    if message not in _MESSAGES:
        raise ValueError(f"the cleanup process knows {sorted(_MESSAGES)}, not {message!r}")
    process.communicate(message.encode() + b"\n", timeout=10)


def watch(run: str, folder: Path) -> None:
    """Wait for a message or for the end of the pipe."""
    if sys.stdin.readline().strip() in _MESSAGES:
        return
    processes.end(run)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    watch(sys.argv[1], Path(sys.argv[2]))
