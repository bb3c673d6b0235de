"""Attempts to delete pods outside of classes as the workspace service, which may replace pods that Fargate missed."""

from __future__ import annotations

from collections.abc import Callable

from tests.live.guardrails.attempts.attempt import Attempt, Request, Table
from tests.live.guardrails.guarded import DEPLOYER, INSIDER, MISSED, SERVICE, Guarded

ATTEMPTS: list[Attempt] = []


def _delete(name: str) -> Callable[[Guarded], Request]:
    return lambda _: Request("DELETE", f"/api/v1/namespaces/{MISSED}/pods/{name}")


_table = Table("platform-pods", ATTEMPTS)
_table.passes("platform-pod-waits", "a pod that no scheduler has placed", SERVICE, _delete("missed"))
for _name, _what in (
    ("placed", "a pod on a node"),
    ("marked", "a pod that waits for Fargate"),
    ("alone", "a pod that nobody creates again"),
):
    _table.refused("platform-pod-waits", _what, SERVICE, _delete(_name))
    _table.passes("platform-pod-waits", f"{_what}, by a deployer", DEPLOYER, _delete(_name))
_table.passes("platform-pod-waits", "a pod on a node, by somebody with the permission", INSIDER, _delete("placed"))
_table.refused(
    "platform-pod-waits",
    "all pods of a namespace",
    SERVICE,
    lambda _: Request("DELETE", f"/api/v1/namespaces/{MISSED}/pods"),
)
