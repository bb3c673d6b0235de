"""The clients of the workspace service: they send the requests of `api.py`, and raise a refusal as an `ApiError`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, Self, TypedDict, TypeVar, cast
from urllib.parse import SplitResult, urlsplit

import httpx2

from agentenv.client.api import Api, AsyncApi
from agentenv.client.events import EventDecoder, Message
from agentenv.client.sandbox import AsyncSandbox, Sandbox

if TYPE_CHECKING:
    # The service imports this package, and the generator of that module imports the service.
    from agentenv.client.api import Caller, Gateway, Problem

Document = dict[str, Any]
Item = TypeVar("Item")

# Requests wait up to 60 s at the service.
_TIMEOUT_SECONDS = 90.0
_WORKSPACED_PORT = 49983
# Before a stream of events that ended is continued
_AGAIN_SECONDS = 1.0
_LOOPBACK = {"127.0.0.1", "::1", "localhost"}


class ClientError(Exception):
    """A request failed: the address or the token is invalid, or no service answers."""


class ApiError(ClientError):
    """The service refused a request."""

    def __init__(self, status: int, problem: Problem) -> None:
        parts = [str(problem[key]) for key in ("title", "detail", "way_out") if problem.get(key)]
        super().__init__("; ".join(parts) or f"the service responded with status {status}")
        self.status = status
        self.problem = problem

    @property
    def kind(self) -> str:
        """Return the kind of the problem, such as `not-found`."""
        return str(self.problem.get("type", "")).rpartition(":")[2]


class Client(Api):
    """A client for the service at an address, with a token of the environment's issuer or an API key."""

    def __init__(self, address: str, token: str, transport: httpx2.BaseTransport | None = None) -> None:
        self._http = httpx2.Client(**_options(address, token), transport=transport)
        self.address, self.token = address.rstrip("/"), token
        self._transport = transport
        self._opened: list[httpx2.Client] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections, those to sandboxes included."""
        for http in (self._http, *self._opened):
            http.close()

    def sandbox(self, id_: str) -> Sandbox:
        """Return a client of the processes and files of a workspace, which the gateway resumes if it is suspended."""
        address, headers = self.entrance(id_)
        http = httpx2.Client(**_options(address, self.token, headers), transport=self._transport)
        self._opened.append(http)
        return Sandbox(http)

    def entrance(self, id_: str) -> tuple[str, dict[str, str]]:
        """Return the gateway's address for the sandbox of a workspace, and the headers that admit to it."""
        return _entrance(self.get_caller(), id_, self.token)

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any],
        body: Any = None,
        headers: Mapping[str, Any] | None = None,
    ) -> Any:
        """Send a request and return the document of its response; raise a `ClientError` where it fails."""
        try:
            response = self._http.request(method, path, params=_query(query), json=body, headers=_headers(headers))
        except httpx2.HTTPError as error:
            raise _unreachable(error) from error
        return _result(response)

    def follow_events(
        self, *, after: str | None = None, workspace: str | None = None, everybody: bool = False
    ) -> Iterator[Message]:
        """Yield what happens to the caller's workspaces, for ever: a stream that ends is continued."""
        decoder = EventDecoder(after)
        while True:
            query = {"after": decoder.cursor, "workspace": workspace, "everybody": everybody or None}
            try:
                with self._http.stream("GET", "/v1/events", params=_query(query)) as response:
                    if not _is_event_stream(response):
                        response.read()
                        raise _no_stream(response)
                    for data in response.iter_bytes():
                        yield from decoder.feed(data)
            except httpx2.TransportError:
                if decoder.cursor is None:
                    raise
            time.sleep(_AGAIN_SECONDS)


class AsyncClient(AsyncApi):
    """The same as `Client`, for asynchronous programs."""

    def __init__(self, address: str, token: str, transport: httpx2.AsyncBaseTransport | None = None) -> None:
        self._http = httpx2.AsyncClient(**_options(address, token), transport=transport)
        self._token, self._transport = token, transport
        self._opened: list[httpx2.AsyncClient] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections, those to sandboxes included."""
        for http in (self._http, *self._opened):
            await http.aclose()

    async def sandbox(self, id_: str) -> AsyncSandbox:
        """Return a client of the processes and files of a workspace, which the gateway resumes if it is suspended."""
        address, headers = _entrance(await self.get_caller(), id_, self._token)
        http = httpx2.AsyncClient(**_options(address, self._token, headers), transport=self._transport)
        self._opened.append(http)
        return AsyncSandbox(http)

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any],
        body: Any = None,
        headers: Mapping[str, Any] | None = None,
    ) -> Any:
        """Send a request and return the document of its response; raise a `ClientError` where it fails."""
        try:
            response = await self._http.request(
                method, path, params=_query(query), json=body, headers=_headers(headers)
            )
        except httpx2.HTTPError as error:
            raise _unreachable(error) from error
        return _result(response)

    async def follow_events(
        self, *, after: str | None = None, workspace: str | None = None, everybody: bool = False
    ) -> AsyncIterator[Message]:
        """Yield what happens to the caller's workspaces, for ever: a stream that ends is continued."""
        decoder = EventDecoder(after)
        while True:
            query = {"after": decoder.cursor, "workspace": workspace, "everybody": everybody or None}
            try:
                async with self._http.stream("GET", "/v1/events", params=_query(query)) as response:
                    if not _is_event_stream(response):
                        await response.aread()
                        raise _no_stream(response)
                    async for data in response.aiter_bytes():
                        for message in decoder.feed(data):
                            yield message
            except httpx2.TransportError:
                if decoder.cursor is None:
                    raise
            await asyncio.sleep(_AGAIN_SECONDS)


class _Page(TypedDict, Generic[Item]):
    """A page of a list."""

    items: list[Item]
    after: str | None


def every(page: Callable[[str | None], _Page[Item]]) -> Iterator[Item]:
    """Yield the items of all pages; `page` returns the page after an item."""
    after: str | None = None
    while True:
        found = page(after)
        yield from found["items"]
        after = found["after"]
        if not after:
            return


def _options(address: str, token: str, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the options of the HTTP client; raise a `ClientError` where they would expose the token."""
    parts = urlsplit(address)
    if parts.scheme not in {"http", "https"} or not parts.hostname or not _has_port(parts):
        raise ClientError(f"{address} is not a service address, such as https://workspaces.example.com")
    if not token.isascii() or not token.isprintable():
        raise ClientError("the token contains invalid characters; a token is one line of printable ASCII")
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK and not parts.hostname.endswith(".svc"):
        raise ClientError(f"{address} is not encrypted, and would expose the token; use https")
    return {
        "base_url": address.rstrip("/"),
        "headers": {"Authorization": f"Bearer {token}", "User-Agent": "agentenv", **(headers or {})},
        "timeout": _TIMEOUT_SECONDS,
        # The token must not be sent to another address.
        "follow_redirects": False,
        "trust_env": parts.hostname not in _LOOPBACK,
    }


def gateway_of(caller: Caller) -> Gateway:
    """Return where a caller reaches workspaces; raise a `ClientError` where the environment has no gateway."""
    gateway = caller.get("gateway")
    if gateway is None:
        raise ClientError("this environment has no gateway, so its workspaces cannot be entered")
    return gateway


def _entrance(caller: Caller, id_: str, token: str) -> tuple[str, dict[str, str]]:
    headers = {"E2b-Sandbox-Id": id_, "E2b-Sandbox-Port": str(_WORKSPACED_PORT), "Authorization": f"Bearer {token}"}
    return gateway_of(caller)["sandboxes"], headers


def _query(query: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: str(value).lower() if isinstance(value, bool) else value
        for key, value in query.items()
        if value is not None
    }


def _headers(headers: Mapping[str, Any] | None) -> dict[str, str]:
    return {key: str(value) for key, value in (headers or {}).items() if value is not None}


def _unreachable(error: httpx2.HTTPError) -> ClientError:
    return ClientError(f"the request to the service failed: {error}")


def _is_event_stream(response: httpx2.Response) -> bool:
    return response.headers.get("content-type", "").startswith("text/event-stream")


def _no_stream(response: httpx2.Response) -> ClientError:
    """Return why there is no stream of events; raise an `ApiError` for a refusal."""
    _result(response)
    return ClientError("the response is not a stream of events; check the address")


def _result(response: httpx2.Response) -> Any:
    """Return the document of a response, None of one without content; raise an `ApiError` for a refusal."""
    if response.status_code == int(httpx2.codes.NO_CONTENT):
        return None
    document = _document(response)
    if document is None:
        raise ClientError(
            f"the response with status {response.status_code} is not from the workspace service; check the address"
        )
    if not response.is_success:
        raise ApiError(response.status_code, cast("Problem", document))
    return document


def _has_port(parts: SplitResult) -> bool:
    """Return whether the port of an address is valid or absent."""
    try:
        return parts.port != 0
    except ValueError:
        return False


def _document(response: httpx2.Response) -> Document | None:
    """Return the JSON object of a response, None if it has another form: the page of a proxy, another service."""
    try:
        document: Any = response.json()
    except ValueError:
        return None
    return document if isinstance(document, dict) else None  # pyright: ignore[reportUnknownVariableType] - keys are str
