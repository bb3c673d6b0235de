"""The engine's gRPC calls, answered for components only."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

import grpc
from google.protobuf import empty_pb2
from pulumi.errors import RunError
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from agentenv.rehearsal.providers.eks.construct import Desk
from agentenv.rehearsal.providers.eks.inputs import Refused

_TRACE: Final = ":\n  File "  # where the SDK hangs a traceback on an error's words


class Servicer(provider_pb2_grpc.ResourceProviderServicer):
    """One plugin process. What it has none of, the protocol itself answers: not implemented."""

    def __init__(self, version: str, versions: Mapping[str, str], engine: str = "") -> None:
        self._version, self._versions, self._engine = version, versions, engine
        self._leaving = threading.Event()

    def leave(self) -> None:
        """Stop building: the run was cancelled, or the engine is gone."""
        self._leaving.set()

    def Handshake(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - the protocol's name and arguments
        self._engine = request.engine_address or self._engine
        return provider_pb2.ProviderHandshakeResponse(accept_secrets=True, accept_resources=True, accept_outputs=True)

    def Attach(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        self._engine = request.address or self._engine
        return empty_pb2.Empty()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        return plugin_pb2.PluginInfo(version=self._version)

    def GetSchema(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        # Programs bring their types with the SDK; a schema is only asked for by tools, which get the package's name.
        return provider_pb2.GetSchemaResponse(schema=json.dumps({"name": "eks", "version": self._version}))

    def CheckConfig(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        failures = [
            provider_pb2.CheckFailure(property=name, reason="the stand-in eks provider has no settings")
            for name in sorted(request.news.fields)
            if name != "version"  # which the engine itself adds
        ]
        return provider_pb2.CheckResponse(inputs=request.news, failures=failures)

    def DiffConfig(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE)

    def Configure(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        return provider_pb2.ConfigureResponse(
            acceptSecrets=True, supportsPreview=True, acceptResources=True, acceptOutputs=True
        )

    def Cancel(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        self.leave()
        return empty_pb2.Empty()

    def Construct(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        return self._run(context, f"building {request.type} {request.name}", lambda: self._desk().construct(request))

    def Call(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        return self._run(context, f"calling {request.tok}", lambda: self._desk().call(request))

    def _desk(self) -> Desk:
        return Desk(self._version, self._versions, self._engine, self._leaving)

    def _run(self, context: Any, where: str, work: Callable[[], Any]) -> Any:
        """Do the work; what goes wrong leaves as one sentence, and no traceback."""
        try:
            return work()
        except Refused as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except RunError as error:
            context.abort(grpc.StatusCode.UNKNOWN, f"{where}: {error}")
        except Exception as error:  # noqa: BLE001 - the last stop: whatever it was must reach the person as a sentence
            words = str(error).split(_TRACE, maxsplit=1)[0]
            context.abort(grpc.StatusCode.UNKNOWN, f"{where}: {words or type(error).__name__}")
