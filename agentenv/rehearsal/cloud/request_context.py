"""What a row gets to work with, and what a row is."""

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
    """One call on the table, with everything that may be needed to answer it."""

    call: Call
    account: str
    moto: MotoBackend
    store: Store

    @property
    def parameters(self) -> dict[str, Any]:
        """The call's parameters, checked."""
        return self.call.parameters

    @property
    def region(self) -> str:
        """The region that the call is for."""
        return self.call.region

    def records(self, kind: str, *, is_global: bool = False) -> dict[str, Record]:
        """What rows keep of a kind; `everywhere` for services that have no regions."""
        return self.store.records(kind, self.account, "aws" if is_global else self.region)

    def backend(self, service: str) -> Any:
        """Moto's state for a service, in the call's account and region."""
        return self.moto.backend(service, self.account, self.region)

    def forward(self, changed: dict[str, Any] | None = None) -> Response:
        """Moto's answer to the call; `changed` are parameters to put in place of those that came."""
        call = self.call
        if changed is None and call.protocol != "smithy-rpc-v2-cbor":
            return self.moto.respond(wsgi_environ(call.request, call.body), call)
        return responses.result(call, self.result(self.parameters if changed is None else changed))

    def result(self, parameters: dict[str, Any] | None = None) -> dict[str, Any]:
        """Moto's result for the call, to be changed before it is answered."""
        said = self.parameters if parameters is None else parameters
        return self.moto.result(self.call.operation, said, self.region, self.call.key)

    def ask(self, service: str, operation: str, **parameters: Any) -> dict[str, Any]:
        """Moto's result for another operation."""
        return self.moto.result(operation_of(service, operation), parameters, self.region, self.call.key)


@dataclass(frozen=True)
class Row:
    """One operation that moto lacks or gets wrong.

    `answer` returns the result by the names of the operation's model, or a whole Answer (moto's, passed on).
    `kept` says that the operation only remembers what it is told: nothing is simulated behind it.
    """

    service: str
    operation: str
    handler: Callable[[RequestContext], Mapping[str, Any] | Response]
    stored_only: bool = False
