"""Connect to the API server by aiohttp, which costs a replica half of the CPU time that httpx takes.

lightkube's configuration has the server's address, its certificate authority and the user's credentials, and renews
tokens. Requests, responses and errors have httpx's types, as lightkube's other clients have. So callers handle one kind
only.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Mapping
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass
from weakref import WeakSet

import aiohttp
import httpx2
from lightkube.config.client_adapter import user_auth, verify_cluster
from lightkube.config.models import User

# As many connections as a burst needs. Idle ones are reused, to save the next burst the TLS handshakes. They are closed
# before API servers close them (after 90 s).
MAX_CONNECTIONS, IDLE_SECONDS = 128, 60.0
TIMEOUT = httpx2.Timeout(10.0)
LONGEST_HEADER = 65_536
_AUTHORIZATION = "Authorization"


class Connection:
    """A connection to one API server by a lightkube configuration."""

    def __init__(self, config: Any) -> None:
        self._config = config
        self._server = str(config.cluster.server).rstrip("/")
        # A context without a user is anonymous.
        self._user: Any = config.user or User()
        self._auth: Any = user_auth(self._user)
        self._session: aiohttp.ClientSession | None = None
        self._responses: WeakSet[aiohttp.ClientResponse] = WeakSet()

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        """Send a request, and return the whole response."""
        with _translated_errors():
            response = await self._send(method, path, TIMEOUT, params=params, data=content, headers=headers)
            async with response:
                return _response(response, content=await response.read())

    @contextlib.asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: httpx2.Timeout = TIMEOUT,
    ) -> AsyncGenerator[httpx2.Response]:
        """Send a request, and yield a response whose body is read in parts."""
        with _translated_errors():
            response = await self._send(method, path, timeout, params=params, headers=headers)
        async with response:
            yield _response(response, stream=_Stream(response))

    async def aclose(self) -> None:
        """Close the session and all open responses."""
        # Close responses first: closing the session does not wake their readers, which would wait for ever.
        for response in list(self._responses):
            response.close()
        if self._session is not None:
            await self._session.close()

    async def _send(
        self, method: str, path: str, timeout: httpx2.Timeout, *, headers: Mapping[str, str] | None, **options: Any
    ) -> aiohttp.ClientResponse:
        """Send a request and return the response, its body unread; renew credentials that are no longer valid."""
        base_headers = dict(headers or {})
        if self._auth is None:
            return await self._start(method, path, timeout, headers=base_headers, **options)
        flow = self._auth.async_auth_flow(httpx2.Request(method, self._server))
        try:
            authorized = await anext(flow)
            while True:
                signed = {**base_headers, _AUTHORIZATION: authorized.headers[_AUTHORIZATION]}
                response = await self._start(method, path, timeout, headers=signed, **options)
                try:
                    authorized = await flow.asend(httpx2.Response(response.status))
                except StopAsyncIteration:
                    return response
                except BaseException:
                    response.close()
                    raise
                response.release()
        finally:
            await flow.aclose()

    async def _start(self, method: str, path: str, timeout: httpx2.Timeout, **options: Any) -> aiohttp.ClientResponse:
        client_timeout = aiohttp.ClientTimeout(total=None, connect=timeout.connect, sock_read=timeout.read)
        send = self._open_session().request
        # aiohttp has no timeout of its own for a server that stops reading the request.
        async with asyncio.timeout(_total_timeout(timeout)):
            response = await send(
                method, f"{self._server}{path}", timeout=client_timeout, allow_redirects=False, **options
            )
        self._responses.add(response)
        return response

    def _open_session(self) -> aiohttp.ClientSession:
        # A session needs a running event loop, which does not exist in `__init__`.
        if self._session is None:
            tls = verify_cluster(self._config.cluster, self._user, self._config.abs_file)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=MAX_CONNECTIONS, keepalive_timeout=IDLE_SECONDS, ssl=tls),
                cookie_jar=aiohttp.DummyCookieJar(),
                # Warnings of admission policies are headers, and may be long.
                max_line_size=LONGEST_HEADER,
                max_field_size=LONGEST_HEADER,
                # Not by `trust_env`, which starts a thread for the proxy and one for .netrc at each request. That
                # doubles the cost of a request, and credentials in a .netrc would replace those of the kubeconfig.
                proxy=_proxy(self._server),
            )
        return self._session


class _Stream(httpx2.AsyncByteStream):
    """The rest of a response's body."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._answer = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _translated_errors():
            async for chunk in self._answer.content.iter_any():
                yield chunk


def _response(response: aiohttp.ClientResponse, **body: Any) -> httpx2.Response:
    # The body is already decoded, so headers about its encoding are dropped. The others stay bytes, as warnings of an
    # admission policy may be in any language.
    headers = [(name, value) for name, value in response.raw_headers if name.lower() not in _ENCODING_HEADERS]
    return httpx2.Response(response.status, headers=headers, **body)


_ENCODING_HEADERS = frozenset({b"content-encoding", b"content-length", b"transfer-encoding"})


def _total_timeout(timeout: httpx2.Timeout) -> float | None:
    """Return the number of seconds within which a response has to start."""
    if timeout.connect is None or timeout.write is None or timeout.read is None:
        return None
    return timeout.connect + timeout.write + timeout.read


def _proxy(server: str) -> str | None:
    """Return the proxy for a server by the environment variables, or None."""
    address = urlsplit(server)
    if proxy_bypass(address.hostname or ""):
        return None
    proxies = getproxies()
    proxy = proxies.get(address.scheme) or proxies.get("all")
    return f"http://{proxy}" if proxy and "://" not in proxy else proxy


@contextlib.contextmanager
def _translated_errors() -> Generator[None]:
    try:
        yield
    except aiohttp.ConnectionTimeoutError as failure:
        raise httpx2.ConnectTimeout(str(failure)) from failure
    except TimeoutError as failure:
        raise httpx2.ReadTimeout(str(failure)) from failure
    except aiohttp.ClientConnectorError as failure:
        raise httpx2.ConnectError(str(failure)) from failure
    except (aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError, aiohttp.ClientResponseError) as failure:
        raise httpx2.RemoteProtocolError(str(failure)) from failure
    except (aiohttp.ClientError, OSError) as failure:
        raise httpx2.ReadError(str(failure)) from failure
