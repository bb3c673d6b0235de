"""Runs a command and ends it, with everything that it started, as soon as whoever asked for it is gone.

`python leash.py COMMAND …` holds the reading end of a pipe as its standard input. When the other end closes, by intent
or because its owner was killed, the whole process group dies. A signal at the parent's death would reach the command
only, and a compiler has children of its own.

Started by path and without our packages, so it imports the standard library only.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading


def main(command: list[str]) -> int:
    """Run the command; its exit code is ours, and 128 more than the signal's number if a signal ended it."""
    threading.Thread(target=_watch, daemon=True).start()
    code = subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode
    return 128 - code if code < 0 else code


def _watch() -> None:
    while os.read(0, 4096):
        pass
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    if os.getpgrp() != os.getpid():
        # Without a group of its own it would take its caller along.
        os.setsid()
    # Python would otherwise wait at exit for the thread that waits for the pipe.
    os._exit(main(sys.argv[1:]))
