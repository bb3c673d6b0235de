"""The simulated AWS as a process of its own: moto keeps one state in a process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.fast.core.gateway.running import TIMEOUT


@contextmanager
def running_cloud(*options: str) -> Iterator[str]:
    """Yield the address of a simulated AWS in which no other test creates anything."""
    command = [sys.executable, "-m", "agentenv.rehearsal.cloud", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
            assert process.wait(TIMEOUT) == 0
