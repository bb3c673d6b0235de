"""The service as a process: `python -m agentenv.service --settings FILE …` serves the API; `--loops` runs the loops.

The API, or the loops' probes, are on one port, and metrics on another that only Prometheus reaches. The loops are a
process of their own and never delay a request. On SIGTERM it stops leading or finishes open requests, and exits.
"""

from __future__ import annotations

import asyncio
import logging
import sys

from prometheus_client import start_http_server

from agentenv.service.configuration import Configuration, ConfigurationError, parse_configuration
from agentenv.service.telemetry import logs, traces
from agentenv.service.telemetry.metrics import Metrics

_LOG = logging.getLogger("service")
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
        failed = asyncio.run((serve_loops if configuration.loops else serve)(configuration, metrics))
    finally:
        metrics_server.shutdown()
        end_traces()
    _LOG.info("ended")
    return EXIT_FAILED if failed else 0


async def serve(configuration: Configuration, metrics: Metrics) -> bool:
    """Serve the API until SIGTERM; return whether the watches of the cluster failed."""
    from agentenv.service.http.app import create_app
    from agentenv.service.http.server import http_server

    failed = False

    def on_watches_ended() -> None:
        nonlocal failed
        failed = True
        _LOG.error("the watches of the cluster ended; the process exits")
        # A replica that no longer sees the cluster is replaced by a fresh one.
        server.should_exit = True

    server = http_server(create_app(configuration, metrics, on_watches_ended), configuration.host, configuration.port)
    await server.serve()
    return failed


async def serve_loops(configuration: Configuration, metrics: Metrics) -> bool:
    """Run the loops while elected, until SIGTERM, and serve their probes; return whether loops or watches failed."""
    from agentenv.service.http.server import http_server
    from agentenv.service.loops.runner import LoopsProcess

    process = LoopsProcess(configuration, metrics)
    server = http_server(process.probes(), configuration.host, configuration.port)
    loops = asyncio.create_task(process.run(), name="loops")

    loops.add_done_callback(lambda _: setattr(server, "should_exit", True))
    await server.serve()
    process.stop.set()
    await asyncio.wait([loops], timeout=_LOOPS_END_SECONDS)
    return process.failed


def _startup_facts(configuration: Configuration) -> dict[str, object]:
    return {
        "replica": configuration.replica,
        "loops": configuration.loops,
        "environment": configuration.settings.environment,
        "cluster": configuration.cluster_name,
        "classes": [sandbox_class.name for sandbox_class in configuration.settings.sandbox_classes],
        "port": configuration.port,
        "metrics": configuration.metrics_port,
        "traces": bool(configuration.traces),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
