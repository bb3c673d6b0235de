"""Envoy's external authorization over gRPC: the wire of the authorizer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from typing import Any

# Its handlers of forks would print a line for each program that the process starts. It reads this when it is imported.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
import grpc

from agentenv.service.gateway.entry import Allow, Decision, Deny, EntryRequest, refusal
from agentenv.service.gateway.messages import APPEND, OVERWRITE, SERVICE, CheckRequest, CheckResponse
from agentenv.service.http.problems import Problem

_LOG = logging.getLogger(__name__)
_PERMISSION_DENIED = 7
_END_SECONDS = 5.0
_OPTIONS = (
    ("grpc.max_receive_message_length", 1 << 20),
    ("grpc.so_reuseport", 0),
    # Envoy's PINGs keep its connections open while no request comes.
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
)

Check = Callable[[EntryRequest], Awaitable[Decision]]


@contextlib.asynccontextmanager
async def serving(check: Check, address: str) -> AsyncGenerator[int]:
    """Serve the authorization of requests at an address while the context is open; yield the port."""

    async def answer(message: Any, _context: Any) -> Any:
        request = entry_request(message)
        try:
            return response_of(await check(request))
        except asyncio.CancelledError:
            raise
        except Exception:  # noqa: BLE001 - whatever is wrong here, nothing is routed
            _LOG.exception("a request could not be decided about")
            why = "an unexpected error; the service's log has it"
            return response_of(refusal(Problem("unavailable", why, "retry", retry_after=5), request))

    handler = grpc.unary_unary_rpc_method_handler(
        answer, request_deserializer=CheckRequest.FromString, response_serializer=CheckResponse.SerializeToString
    )
    server = grpc.aio.server(options=_OPTIONS)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"Check": handler}),))
    port = server.add_insecure_port(address)
    await server.start()
    try:
        yield port
    finally:
        await server.stop(_END_SECONDS)


def entry_request(message: Any) -> EntryRequest:
    """Return the request that a message describes."""
    http = message.attributes.request.http
    return EntryRequest(
        method=http.method,
        host=http.host,
        target=http.path,
        headers=dict(http.headers),
        source=message.attributes.source.address.socket_address.address,
    )


def response_of(decision: Decision) -> Any:
    """Return the message of a decision."""
    response = CheckResponse()
    if isinstance(decision, Allow):
        _add(response.ok_response.headers, decision.headers.items())
        response.ok_response.headers_to_remove.extend(decision.remove)
        _add(response.ok_response.response_headers_to_add, decision.response_headers)
        return response
    _deny(response, decision)
    return response


def _deny(response: Any, decision: Deny) -> None:
    response.status.code = _PERMISSION_DENIED
    response.denied_response.status.code = decision.status
    response.denied_response.body = decision.body
    _add(response.denied_response.headers, decision.headers)


def _add(options: Any, headers: Iterable[tuple[str, str]]) -> None:
    for name, value in headers:
        action = APPEND if name == "set-cookie" else OVERWRITE
        option = options.add(append_action=action)
        option.header.key, option.header.value = name, value
