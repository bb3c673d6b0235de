"""The context of a request, and the handlers of operations that receive it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud import responses
from agentenv.rehearsal.cloud.moto_backend import operation_of, wsgi_environ

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agentenv.rehearsal.cloud.moto_backend import MotoBackend
    from agentenv.rehearsal.cloud.requests import Call
    from agentenv.rehearsal.cloud.responses import Response
    from agentenv.rehearsal.cloud.store import Record, Store


@dataclass
class RequestContext:
    """One call, with everything needed to answer it."""

    call: Call
    account: str
    moto: MotoBackend
    store: Store

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the call's validated parameters."""
        return self.call.parameters

    @property
    def region(self) -> str:
        """Return the call's region."""
        return self.call.region

    def records(self, kind: str, *, is_global: bool = False) -> dict[str, Record]:
        """Return the stored records of a kind; `is_global` for services without regions."""
        return self.store.records(kind, self.account, "aws" if is_global else self.region)

    def backend(self, service: str) -> Any:
        """Return moto's state of a service, in the call's account and region."""
        return self.moto.backend(service, self.account, self.region)

    def forward(self, changed: dict[str, Any] | None = None) -> Response:
        """Return moto's response to the call; `changed` replaces the parameters."""
        call = self.call
        if changed is None and call.protocol != "smithy-rpc-v2-cbor":
            return self.moto.respond(wsgi_environ(call.request, call.body), call)
        return responses.result(call, self.result(self.parameters if changed is None else changed))

    def result(self, parameters: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return moto's result of the call, so that the handler can change it."""
        values = self.parameters if parameters is None else parameters
        return self.moto.result(self.call.operation, values, self.region, self.call.key)

    def invoke(self, service: str, operation: str, **parameters: Any) -> dict[str, Any]:
        """Return moto's result of another operation."""
        return self.moto.result(operation_of(service, operation), parameters, self.region, self.call.key)


@dataclass(frozen=True)
class OperationHandler:
    """One operation that moto lacks or gets wrong.

    `handler` returns the result by the names of the operation's model, or a complete Response (moto's, forwarded).
    `stored_only` marks operations that only store their input: nothing is simulated behind them.
    """

    service: str
    operation: str
    handler: Callable[[RequestContext], Mapping[str, Any] | Response]
    stored_only: bool = False
