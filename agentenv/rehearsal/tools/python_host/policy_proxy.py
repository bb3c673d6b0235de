"""Stands between the engine and a policy pack until the pack can be started.

The engine tells a pack its stack and configuration after it has connected to it, but the packs' SDK wants them in its
environment when it starts. So the engine is given this server's port first; what it says of the stack starts the pack;
from then on every call is passed on as the bytes it came in.
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
    """The pack ended before it could be spoken to."""


class PolicyProxy(grpc.GenericRpcHandler):
    """Answers the engine in the pack's place until there is a pack."""

    def __init__(self) -> None:
        self._server = grpc.aio.server(options=CHANNEL_OPTIONS)
        self._channel: grpc.aio.Channel | None = None
        loop = asyncio.get_running_loop()
        self._stack: asyncio.Future[bytes | None] = loop.create_future()
        self._pack: asyncio.Future[grpc.aio.Channel] = loop.create_future()

    async def start(self) -> int:
        """Serve, and return the port that the engine is to be told."""
        self._server.add_generic_rpc_handlers((self,))
        port = self._server.add_insecure_port("127.0.0.1:0")
        await self._server.start()
        return port

    async def environment(self) -> dict[str, str]:
        """Wait for the engine to speak, and return what the pack has to find in its environment."""
        said = await self._stack
        if said is None:
            return {}
        stack = analyzer_pb2.AnalyzerStackConfigureRequest.FromString(said)
        found = {
            "PULUMI_ORGANIZATION": stack.organization,
            "PULUMI_PROJECT": stack.project,
            "PULUMI_STACK": stack.stack,
            "PULUMI_DRY_RUN": "true" if stack.dry_run else "false",
            "PULUMI_CONFIG": json.dumps(dict(stack.config)) if stack.config else "",
        }
        return {name: value for name, value in found.items() if value}

    async def attach(self, port: int) -> None:
        """Pass everything on to the pack that listens at that port, and tell it first what the engine told us."""
        self._channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=CHANNEL_OPTIONS)
        said = self._stack.result()
        if said is not None:
            try:
                await self._channel.unary_unary(_CONFIGURE)(said, wait_for_ready=True)
            except grpc.aio.AioRpcError as error:
                # Packs built on an older SDK have it from their environment alone.
                if error.code() != grpc.StatusCode.UNIMPLEMENTED:
                    raise
        self._pack.set_result(self._channel)

    def fail(self, reason: str) -> None:
        """Let every call that waits for the pack, or will, end with the reason."""
        if not self._pack.done():
            self._pack.set_exception(PackNotStarted(reason))
            # Read here, so that nobody complains if no call ever waits for it.
            self._pack.exception()

    async def stop(self) -> None:
        """Leave."""
        self.fail("it is being shut down")
        if not self._stack.done():
            self._stack.set_result(None)
        await self._server.stop(grace=None)
        if self._channel is not None:
            await self._channel.close()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        """Choose who answers a call."""
        method = str(getattr(handler_call_details, "method", ""))
        if not method.startswith(_SERVICE):
            return None
        answers: dict[str, Callable[[bytes, Any], Awaitable[bytes]]] = {
            f"{_SERVICE}Handshake": self._handshake,
            _CONFIGURE: self._configure,
        }

        async def forward(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
            return await self._forward(method, request, context)

        return grpc.unary_unary_rpc_method_handler(answers.get(method, forward))

    async def _handshake(self, _request: bytes, _context: grpc.aio.ServicerContext) -> bytes:
        return analyzer_pb2.AnalyzerHandshakeResponse().SerializeToString()

    async def _configure(self, request: bytes, _context: grpc.aio.ServicerContext) -> bytes:
        if not self._stack.done():
            self._stack.set_result(request)
        return analyzer_pb2.AnalyzerStackConfigureResponse().SerializeToString()

    async def _forward(self, method: str, request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        # Some operations of the engine (publishing a pack) concern no stack: then it asks without having told.
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
