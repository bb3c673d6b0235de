"""`python -m agentenv.rehearsal.cloud`: run the endpoint as a process of its own until it is told to end."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from pathlib import Path


def announce(ready_file: Path, url: str) -> None:
    """Write the address in one step, so that readers never see half of it."""
    unfinished = ready_file.with_name(f".{ready_file.name}.{os.getpid()}")
    unfinished.write_text(json.dumps({"url": url, "pid": os.getpid()}) + "\n", encoding="utf-8")
    unfinished.replace(ready_file)


def arguments() -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(prog="python -m agentenv.rehearsal.cloud", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 takes a free one (default)")
    parser.add_argument("--ready-file", type=Path, help="written with the address and process id once it answers")
    parser.add_argument("--log", type=Path, help="file for errors and operations that nobody knew; default none")
    parser.add_argument("--balancers", action="store_true", help="network load balancers pass connections on")
    return parser.parse_args()


def main() -> int:
    """Serve until SIGTERM or SIGINT; return 1 if the port is not available."""
    options = arguments()
    ended = threading.Event()
    # Before the slow imports, so that an early signal ends us as quietly as a late one.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())

    from agentenv.rehearsal.cloud.server import Cloud

    try:
        cloud = Cloud.start(port=options.port, log=options.log, balancers=options.balancers)
    except OSError as error:
        sys.stderr.write(
            f"The cloud cannot listen on 127.0.0.1:{options.port}: {error.strerror or error}. "
            "Choose another port, or 0 for a free one.\n"
        )
        return 1
    with cloud:
        if options.ready_file:
            announce(options.ready_file, cloud.url)
        else:
            sys.stdout.write(f"{cloud.url}\n")
            sys.stdout.flush()
        ended.wait()
        if options.ready_file:
            options.ready_file.unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
