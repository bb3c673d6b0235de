"""`python -m agentenv.rehearsal.controlplane`: a control plane by itself, to look at with kubectl until Ctrl-C.

Prints one JSON object once it is up: where it is, its kubeconfig, what it took. `--once` ends it right after.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading

from agentenv.local import cleanup_process, processes, run_folders
from agentenv.rehearsal.controlplane.plane import PROGRAMS, PlaneFailed, control_plane
from agentenv.rehearsal.tools import ensure
from agentenv.rehearsal.tools.errors import ToolError
from agentenv.rehearsal.tools.progress import Lines


def main() -> int:
    """Start a control plane, print its addresses, and stop it at the end."""
    parser = argparse.ArgumentParser(prog="python -m agentenv.rehearsal.controlplane", description=__doc__)
    parser.add_argument("--once", action="store_true", help="end as soon as it is up")
    options = parser.parse_args()
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    run_folders.sweep()
    run = run_folders.create()
    cleanup = cleanup_process.start(run.id, run.folder)
    try:
        toolbox = ensure(PROGRAMS, Lines(sys.stderr))
        with control_plane(toolbox, run.folder / "plane", {**os.environ, processes.MARK: run.id}) as plane:
            memory = {name: round(used) for name, used in plane.memory().items()}
            summary = {
                "server": plane.server,
                "kubeconfig": str(plane.kubeconfig()),
                "seconds": round(plane.seconds, 1),
                "memory_mb": {**memory, "all": sum(memory.values())},
            }
            sys.stdout.write(json.dumps(summary) + "\n")
            sys.stdout.flush()
            if not options.once:
                ended.wait()
    except (PlaneFailed, ToolError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    finally:
        processes.end(run.id)
        run.remove()
        cleanup_process.stop(cleanup, "done")
    return 0


if __name__ == "__main__":
    sys.exit(main())
