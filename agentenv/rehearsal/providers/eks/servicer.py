"""The gRPC service of the provider, for components only."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

import grpc
from google.protobuf import empty_pb2
from pulumi.errors import RunError
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from agentenv.rehearsal.providers.eks.construct import ComponentBuilder
from agentenv.rehearsal.providers.eks.inputs import UnsupportedInputs

_TRACE: Final = ":\n  File "  # where the SDK appends a traceback to an error message


class Servicer(provider_pb2_grpc.ResourceProviderServicer):
    """The service of one plugin process. Other methods return UNIMPLEMENTED."""

    def __init__(self, version: str, versions: Mapping[str, str], engine: str = "") -> None:
        self._version, self._versions, self._engine = version, versions, engine
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Cancel all requests: the run was cancelled, or the engine has ended."""
        self._stopping.set()

    def Handshake(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - the protocol's name and arguments
        self._engine = request.engine_address or self._engine
        return provider_pb2.ProviderHandshakeResponse(accept_secrets=True, accept_resources=True, accept_outputs=True)

    def Attach(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        self._engine = request.address or self._engine
        return empty_pb2.Empty()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        return plugin_pb2.PluginInfo(version=self._version)

    def GetSchema(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        # Programs have their types from the SDK. Only tools read the schema, and they get the name of the package.
        return provider_pb2.GetSchemaResponse(schema=json.dumps({"name": "eks", "version": self._version}))

    def CheckConfig(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        failures = [
            provider_pb2.CheckFailure(property=name, reason="the stand-in eks provider has no settings")
            for name in sorted(request.news.fields)
            if name != "version"  # which the engine adds
        ]
        return provider_pb2.CheckResponse(inputs=request.news, failures=failures)

    def DiffConfig(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE)

    def Configure(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        return provider_pb2.ConfigureResponse(
            acceptSecrets=True, supportsPreview=True, acceptResources=True, acceptOutputs=True
        )

    def Cancel(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        self.stop()
        return empty_pb2.Empty()

    def Construct(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        return self._run(context, f"building {request.type} {request.name}", lambda: self._builder().construct(request))

    def Call(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        return self._run(context, f"calling {request.tok}", lambda: self._builder().call(request))

    def _builder(self) -> ComponentBuilder:
        return ComponentBuilder(self._version, self._versions, self._engine, self._stopping)

    def _run(self, context: Any, subject: str, handler: Callable[[], Any]) -> Any:
        """Run a request. An error becomes one message, without a traceback."""
        try:
            return handler()
        except UnsupportedInputs as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except RunError as error:
            context.abort(grpc.StatusCode.UNKNOWN, f"{subject}: {error}")
        except Exception as error:  # noqa: BLE001 - any error must reach the user as a message
            message = str(error).split(_TRACE, maxsplit=1)[0]
            context.abort(grpc.StatusCode.UNKNOWN, f"{subject}: {message or type(error).__name__}")
