"""Run a command, and kill it with everything it started as soon as the caller is gone.

`python tied_command.py COMMAND …` has the reading end of a pipe as its standard input. When the other end closes, on
purpose or because its owner was killed, the whole process group is killed. A parent-death signal would reach the
command only, and a compiler has children of its own.

It is started by path and without this package, so it imports the standard library only.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading


def main(command: list[str]) -> int:
    """Run the command and return its exit code, or 128 plus the number of the signal that ended it."""
    threading.Thread(target=_watch, daemon=True).start()
    code = subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode
    return 128 - code if code < 0 else code


def _watch() -> None:
    while os.read(0, 4096):
        pass
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    if os.getpgrp() != os.getpid():
        # Without a group of its own it would kill its caller too.
        os.setsid()
    # Python would otherwise wait at exit for the thread that waits for the pipe.
    os._exit(main(sys.argv[1:]))
