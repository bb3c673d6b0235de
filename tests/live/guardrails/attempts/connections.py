"""Attempts to connect to a running sandbox."""

from __future__ import annotations

from typing import Any

from tests.live.guardrails.attempts.attempt import Attempt, Request, Table, pod_path
from tests.live.guardrails.guarded import CONTROLLER, DEPLOYER, INSIDER, NODE, SERVICE, Guarded

ATTEMPTS: list[Attempt] = []


_connections = Table("doors", ATTEMPTS)
for _way in ("exec?command=true&container=sandbox", "attach?container=sandbox", "portforward?ports=80", "proxy/"):

    def _into(guarded: Guarded, way: str = _way) -> Request:
        return Request("GET", f"{pod_path(guarded)}/{way}", dry=False)

    _word = _way.partition("?")[0].strip("/")
    _connections.refused("pod-entered", f"{_word} by somebody who may edit everything", INSIDER, _into)
    _connections.refused("pod-entered", f"{_word} by the controller", CONTROLLER, _into)
    _connections.refused("pod-entered", f"{_word} by the service", SERVICE, _into)
    _connections.passes("pod-entered", f"{_word} by a deployer", DEPLOYER, _into, reaches_node=True)
_connections.refused(
    "pod-entered",
    "a Service's pods by somebody",
    INSIDER,
    lambda guarded: Request(
        "GET", guarded.core("services", "leftover", guarded.open_namespace) + ":80/proxy/", dry=False
    ),
)


def _by_node(path: str) -> Any:
    return lambda _: Request("GET", f"/api/v1/nodes/{NODE}/proxy/{path}", dry=False)


for _way in ("exec", "attach", "portForward"):
    _connections.refused("pod-entered", f"{_way} by its node", INSIDER, _by_node(f"{_way}/sandbox-guarded/any/sandbox"))
_connections.refused(
    "pod-entered", "exec by its node, by the service", SERVICE, _by_node("exec/sandbox-guarded/any/sandbox")
)
_connections.passes(
    "pod-entered", "exec by its node, by a deployer", DEPLOYER, _by_node("exec/a/b/c"), reaches_node=True
)
_connections.passes("pod-entered", "what a node measures", INSIDER, _by_node("metrics/cadvisor"), reaches_node=True)
