"""A proxy between the engine and a policy pack until the pack can be started.

The engine sends a pack its stack and configuration after it has connected, but the packs' SDK reads them from its
environment at start. So the engine gets this server's port first, and its request starts the pack. From then on every
call is forwarded as bytes.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from agentenv.rehearsal.tools.python_host.protocol import CHANNEL_OPTIONS, analyzer_pb2

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_SERVICE = "/pulumirpc.Analyzer/"
_CONFIGURE = f"{_SERVICE}ConfigureStack"


class PackNotStarted(Exception):
    """The pack ended before it served."""


class PolicyProxy(grpc.GenericRpcHandler):
    """Serves the engine in place of the pack until the pack runs."""

    def __init__(self) -> None:
        self._server = grpc.aio.server(options=CHANNEL_OPTIONS)
        self._channel: grpc.aio.Channel | None = None
        loop = asyncio.get_running_loop()
        self._stack: asyncio.Future[bytes | None] = loop.create_future()
        self._pack: asyncio.Future[grpc.aio.Channel] = loop.create_future()

    async def start(self) -> int:
        """Serve, and return the port for the engine."""
        self._server.add_generic_rpc_handlers((self,))
        port = self._server.add_insecure_port("127.0.0.1:0")
        await self._server.start()
        return port

    async def environment(self) -> dict[str, str]:
        """Wait for the engine's request, and return the pack's environment variables."""
        request = await self._stack
        if request is None:
            return {}
        stack = analyzer_pb2.AnalyzerStackConfigureRequest.FromString(request)
        variables = {
            "PULUMI_ORGANIZATION": stack.organization,
            "PULUMI_PROJECT": stack.project,
            "PULUMI_STACK": stack.stack,
            "PULUMI_DRY_RUN": "true" if stack.dry_run else "false",
            "PULUMI_CONFIG": json.dumps(dict(stack.config)) if stack.config else "",
        }
        return {name: value for name, value in variables.items() if value}

    async def attach(self, port: int) -> None:
        """Forward every call to the pack at that port, after sending it the engine's configuration."""
        self._channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=CHANNEL_OPTIONS)
        request = self._stack.result()
        if request is not None:
            try:
                await self._channel.unary_unary(_CONFIGURE)(request, wait_for_ready=True)
            except grpc.aio.AioRpcError as error:
                # Packs on an older SDK read it from their environment only.
                if error.code() != grpc.StatusCode.UNIMPLEMENTED:
                    raise
        self._pack.set_result(self._channel)

    def fail(self, reason: str) -> None:
        """End every waiting and future call with the reason."""
        if not self._pack.done():
            self._pack.set_exception(PackNotStarted(reason))
            # Retrieved here, so that asyncio does not warn about an unretrieved exception.
            self._pack.exception()

    async def stop(self) -> None:
        """Stop serving."""
        self.fail("it is being shut down")
        if not self._stack.done():
            self._stack.set_result(None)
        await self._server.stop(grace=None)
        if self._channel is not None:
            await self._channel.close()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        """Return the handler of a call."""
        method = str(getattr(handler_call_details, "method", ""))
        if not method.startswith(_SERVICE):
            return None
        handlers: dict[str, Callable[[bytes, Any], Awaitable[bytes]]] = {
            f"{_SERVICE}Handshake": self._handshake,
            _CONFIGURE: self._configure,
        }

        async def forward(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
            return await self._forward(method, request, context)

        return grpc.unary_unary_rpc_method_handler(handlers.get(method, forward))

    async def _handshake(self, _request: bytes, _context: grpc.aio.ServicerContext) -> bytes:
        return analyzer_pb2.AnalyzerHandshakeResponse().SerializeToString()

    async def _configure(self, request: bytes, _context: grpc.aio.ServicerContext) -> bytes:
        if not self._stack.done():
            self._stack.set_result(request)
        return analyzer_pb2.AnalyzerStackConfigureResponse().SerializeToString()

    async def _forward(self, method: str, request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        # Some operations of the engine (publishing a pack) have no stack: then this call comes first.
        if not self._stack.done():
            self._stack.set_result(None)
        try:
            channel = await asyncio.shield(self._pack)
            return await channel.unary_unary(method)(request)
        except PackNotStarted as reason:
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"the policy pack did not start: {reason}")
        except grpc.aio.AioRpcError as error:
            await context.abort(error.code(), error.details() or "", tuple(error.trailing_metadata() or ()))
        raise AssertionError("abort raises")
