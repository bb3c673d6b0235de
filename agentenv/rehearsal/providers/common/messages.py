"""Messages to the user during an operation, through the engine's log."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import grpc
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc


class EngineLog:
    """The engine's log. Without an engine, messages are dropped."""

    def __init__(self, address: str) -> None:
        self._engine: Any = engine_pb2_grpc.EngineStub(grpc.insecure_channel(address)) if address else None
        self._logged: set[str] = set()
        self._lock = threading.Lock()

    def warn(self, urn: str, text: str) -> None:
        self._log(engine_pb2.WARNING, urn, text)

    def warn_once(self, text: str) -> None:
        """Log a warning that concerns no single resource, once."""
        with self._lock:
            if text in self._logged:
                return
            self._logged.add(text)
        self._log(engine_pb2.WARNING, "", text)

    def status(self, urn: str, text: str) -> None:
        """Show the progress of a resource in its line of the display, without keeping it."""
        self._log(engine_pb2.INFO, urn, text, ephemeral=True)

    def _log(self, severity: Any, urn: str, text: str, *, ephemeral: bool = False) -> None:
        if self._engine is None:
            return
        request = engine_pb2.LogRequest(severity=severity, message=text, urn=urn, ephemeral=ephemeral)
        with contextlib.suppress(grpc.RpcError):  # an engine that has stopped must not fail the operation
            self._engine.Log(request, timeout=5)
