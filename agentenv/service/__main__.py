"""The service as a process: `python -m agentenv.service --settings FILE …`.

The API and its health are on one port, metrics on another, which nobody but Prometheus comes to. The loops run in a
thread of the replica that leads. Told to end, it stops to lead, answers what it has begun, and goes.
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
WRONG = 2
BROKEN = 1


def main(arguments: list[str]) -> int:
    """Run until told to end."""
    try:
        configuration = parse_configuration(arguments)
    except ConfigurationError as failure:
        logs.set_up("info")
        _LOG.critical("%s", failure)
        return WRONG
    logs.set_up(configuration.settings.service.log_level)
    if configuration.ignored:
        facts = {"keys": list(configuration.ignored)}
        _LOG.warning("settings that this version does not know are ignored", extra={"facts": facts})
    metrics = Metrics()
    end_traces = traces.set_up(configuration.traces, configuration.replica)
    exposed, _ = start_http_server(configuration.metrics_port, configuration.host, metrics.registry)
    try:
        _LOG.info("starting", extra={"facts": _startup_facts(configuration)})
        broken = asyncio.run(serve(configuration, metrics))
    finally:
        exposed.shutdown()
        end_traces()
    _LOG.info("ended")
    return BROKEN if broken else 0


async def serve(configuration: Configuration, metrics: Metrics) -> bool:
    """Answer until told to end, and lead when it is our turn; says whether it ended because loops or watches did."""
    from agentenv.service.http.app import create_app
    from agentenv.service.kube.snapshot import WorkspaceSnapshot

    sight = WorkspaceSnapshot()
    server: uvicorn.Server | None = None

    def ended() -> None:
        # A replica that cannot lead any more, or does not see the cluster, is worth less than a fresh one.
        if server is not None:
            server.should_exit = True

    with loops(configuration, metrics, ended, sight.workspaces) as broken:

        def blind() -> None:
            _LOG.error("the watches of the cluster ended, and the process ends with them")
            broken.set()
            ended()

        server = uvicorn.Server(
            uvicorn.Config(
                create_app(configuration, metrics, sight, blind),
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
    return broken.is_set()


@contextlib.contextmanager
def loops(
    configuration: Configuration,
    metrics: Metrics,
    ended: Callable[[], None],
    told_of: Callable[[], Sequence[Workspace] | None],
) -> Generator[threading.Event]:
    """The loops beside the API, in a thread that ends first; should they break, `ended` is called and the event set.

    `told_of` is what they look for work in, while the API knows of it.
    """
    broken, stop = threading.Event(), threading.Event()
    if not configuration.loops:
        yield broken
        return
    from agentenv.service.loops import run

    def guarded() -> None:
        try:
            run(configuration, metrics, stop, told_of)
        except Exception:  # noqa: BLE001 - whatever it is, it is told, and the process ends
            _LOG.exception("the loops broke")
        if not stop.is_set():
            broken.set()
            ended()

    thread = threading.Thread(target=guarded, name="loops", daemon=True)
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
        "classes": [one.name for one in configuration.settings.sandbox_classes],
        "port": configuration.port,
        "metrics": configuration.metrics_port,
        "traces": bool(configuration.traces),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
