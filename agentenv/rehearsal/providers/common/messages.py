"""Words to the user while an operation runs, by way of the engine."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import grpc
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc


class Speaker:
    """The engine's log. Where there is no engine, nothing is said."""

    def __init__(self, address: str) -> None:
        self._engine: Any = engine_pb2_grpc.EngineStub(grpc.insecure_channel(address)) if address else None
        self._said: set[str] = set()
        self._lock = threading.Lock()

    def warn(self, urn: str, text: str) -> None:
        self._say(engine_pb2.WARNING, urn, text)

    def warn_once(self, text: str) -> None:
        """A warning about no resource in particular, however often it applies."""
        with self._lock:
            if text in self._said:
                return
            self._said.add(text)
        self._say(engine_pb2.WARNING, "", text)

    def status(self, urn: str, text: str) -> None:
        """How far a resource is: shown in its line while it runs, and not kept."""
        self._say(engine_pb2.INFO, urn, text, passing=True)

    def _say(self, severity: Any, urn: str, text: str, *, passing: bool = False) -> None:
        if self._engine is None:
            return
        request = engine_pb2.LogRequest(severity=severity, message=text, urn=urn, ephemeral=passing)
        with contextlib.suppress(grpc.RpcError):  # an engine that no longer listens must not fail the operation
            self._engine.Log(request, timeout=5)
