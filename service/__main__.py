"""The service as a process: `python -m service --settings FILE …`.

The API and its health are on one port, metrics on another, which nobody but Prometheus comes to. The loops run in a
thread of the replica that leads. Told to end, it stops to lead, answers what it has begun, and goes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
from collections.abc import Iterator
from typing import Any

import uvicorn
from prometheus_client import start_http_server

from service.configuration import Configuration, ConfigurationError, configured
from service.telemetry import logs, traces
from service.telemetry.metrics import Metrics

_LOG = logging.getLogger("service")
# A request for a cold workspace may wait for a node; Kubernetes gives the pod this long and a little more.
GRACE_SECONDS = 25
_LOOPS_END_SECONDS = 20.0
WRONG = 2


def main(arguments: list[str]) -> int:
    """Run until told to end."""
    try:
        configuration = configured(arguments)
    except ConfigurationError as failure:
        logs.set_up("info")
        _LOG.critical("%s", failure)
        return WRONG
    logs.set_up(configuration.settings.service.log_level)
    metrics = Metrics()
    end_traces = traces.set_up(configuration.traces, configuration.replica)
    exposed, _ = start_http_server(configuration.metrics_port, configuration.host, metrics.registry)
    try:
        _LOG.info("starting", extra={"facts": _told(configuration)})
        asyncio.run(serve(configuration, metrics))
    finally:
        exposed.shutdown()
        end_traces()
    _LOG.info("ended")
    return 0


async def serve(configuration: Configuration, metrics: Metrics) -> None:
    """Answer until told to end, and lead when it is our turn."""
    make_app = _app()

    with loops(configuration, metrics):
        server = uvicorn.Server(
            uvicorn.Config(
                make_app(configuration, metrics),
                host=configuration.host,
                port=configuration.port,
                log_config=None,
                access_log=False,
                # Whoever stands in front may say anything about whom a request is from; nobody is believed.
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=GRACE_SECONDS,
            )
        )
        await server.serve()


@contextlib.contextmanager
def loops(configuration: Configuration, metrics: Metrics) -> Iterator[None]:
    """The loops beside the API, in a thread that ends first."""
    if not configuration.loops:
        yield
        return
    try:
        from service.loops import run
    except ImportError:
        yield
        return

    stop = threading.Event()
    thread = threading.Thread(target=run, args=(configuration, metrics, stop), name="loops", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(_LOOPS_END_SECONDS)


def _app() -> Any:
    try:
        from service.app import make_app
    except ModuleNotFoundError:
        from fastapi import FastAPI

        def make_app(configuration: Configuration, metrics: Metrics) -> Any:
            app = FastAPI()
            app.get("/healthz")(lambda: {})
            app.get("/readyz")(lambda: {})
            return app

    return make_app


def _told(configuration: Configuration) -> dict[str, object]:
    return {
        "replica": configuration.replica,
        "environment": configuration.settings.environment,
        "cluster": configuration.cluster_name,
        "classes": [one.name for one in configuration.settings.sandbox_classes],
        "port": configuration.port,
        "metrics": configuration.metrics_port,
        "traces": bool(configuration.traces),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
