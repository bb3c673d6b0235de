"""The service as a process: `python -m agentenv.service --settings FILE …`.

The API and its health endpoints are on one port, metrics on another that only Prometheus reaches. The elected replica
runs the loops in a thread. On SIGTERM it stops leading, finishes open requests, and exits.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING

import uvicorn
from prometheus_client import start_http_server

from agentenv.service.configuration import Configuration, ConfigurationError, parse_configuration
from agentenv.service.telemetry import logs, traces
from agentenv.service.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from agentenv.core.workspaces.workspace import Workspace

_LOG = logging.getLogger("service")
# A request for a cold workspace may wait for a node; Kubernetes gives the pod this long and a little more.
GRACE_SECONDS = 25
_LOOPS_END_SECONDS = 20.0
EXIT_INVALID = 2
EXIT_FAILED = 1


def main(arguments: list[str]) -> int:
    """Run until SIGTERM, and return the exit code."""
    try:
        configuration = parse_configuration(arguments)
    except ConfigurationError as failure:
        logs.set_up("info")
        _LOG.critical("%s", failure)
        return EXIT_INVALID
    logs.set_up(configuration.settings.service.log_level)
    if configuration.ignored:
        facts = {"keys": list(configuration.ignored)}
        _LOG.warning("unknown settings are ignored", extra={"facts": facts})
    metrics = Metrics()
    end_traces = traces.set_up(configuration.traces, configuration.replica)
    metrics_server, _ = start_http_server(configuration.metrics_port, configuration.host, metrics.registry)
    try:
        _LOG.info("starting", extra={"facts": _startup_facts(configuration)})
        broken = asyncio.run(serve(configuration, metrics))
    finally:
        metrics_server.shutdown()
        end_traces()
    _LOG.info("ended")
    return EXIT_FAILED if broken else 0


async def serve(configuration: Configuration, metrics: Metrics) -> bool:
    """Serve the API, and run the loops while elected; return whether loops or watches failed."""
    from agentenv.service.http.app import create_app
    from agentenv.service.http.connection_limits import LimitedProtocol
    from agentenv.service.kube.snapshot import WorkspaceSnapshot

    snapshot = WorkspaceSnapshot()
    server: uvicorn.Server | None = None

    def stop_serving() -> None:
        # A replica that can no longer lead, or no longer sees the cluster, is replaced by a fresh one.
        if server is not None:
            server.should_exit = True

    with loops(configuration, metrics, stop_serving, snapshot.workspaces) as broken:

        def on_watches_ended() -> None:
            _LOG.error("the watches of the cluster ended; the process exits")
            broken.set()
            stop_serving()

        server = uvicorn.Server(
            uvicorn.Config(
                create_app(configuration, metrics, snapshot, on_watches_ended),
                host=configuration.host,
                port=configuration.port,
                http=LimitedProtocol,
                ws="none",
                log_config=None,
                access_log=False,
                # Anybody can send X-Forwarded-For, so the peer's address is the source.
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=GRACE_SECONDS,
            )
        )
        await server.serve()
    return broken.is_set()


@contextlib.contextmanager
def loops(
    configuration: Configuration,
    metrics: Metrics,
    on_failure: Callable[[], None],
    workspace_snapshot: Callable[[], Sequence[Workspace] | None],
) -> Generator[threading.Event]:
    """Run the loops in a thread that ends first; if they fail, call `on_failure` and set the event.

    `workspace_snapshot` returns the workspaces that the API's watches know of.
    """
    broken, stop = threading.Event(), threading.Event()
    if not configuration.loops:
        yield broken
        return
    from agentenv.service.loops.runner import run_loops

    async def run_until_stopped() -> None:
        stopping = asyncio.Event()
        waiting = asyncio.create_task(asyncio.to_thread(stop.wait))
        waiting.add_done_callback(lambda _: stopping.set())
        await run_loops(configuration, metrics, stopping, workspace_snapshot)

    def run_guarded() -> None:
        try:
            asyncio.run(run_until_stopped())
        except Exception:  # noqa: BLE001 - any failure is logged and ends the process
            _LOG.exception("the loops failed")
        if not stop.is_set():
            broken.set()
            on_failure()

    thread = threading.Thread(target=run_guarded, name="loops", daemon=True)
    thread.start()
    try:
        yield broken
    finally:
        stop.set()
        thread.join(_LOOPS_END_SECONDS)


def _startup_facts(configuration: Configuration) -> dict[str, object]:
    return {
        "replica": configuration.replica,
        "environment": configuration.settings.environment,
        "cluster": configuration.cluster_name,
        "classes": [sandbox_class.name for sandbox_class in configuration.settings.sandbox_classes],
        "port": configuration.port,
        "metrics": configuration.metrics_port,
        "traces": bool(configuration.traces),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
