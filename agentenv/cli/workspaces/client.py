"""The HTTP client of the workspace service. A problem of the service becomes a `CommandError`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self
from urllib.parse import SplitResult, quote, urlsplit

import httpx2

from agentenv.cli.main import CommandError

Document = dict[str, Any]

_TIMEOUT_SECONDS = 90.0
_PAGE = 100
_UNEXPECTED = "the response with status {} is not from the workspace service; check the address"
_LOOPBACK = {"127.0.0.1", "::1", "localhost"}


class Client:
    """A client for the service at an address, with a bearer token."""

    def __init__(self, address: str, token: str, transport: httpx2.BaseTransport | None = None) -> None:
        parts = urlsplit(address)
        if parts.scheme not in {"http", "https"} or not parts.hostname or not _has_port(parts):
            raise CommandError(f"{address} is not a service address, such as https://workspaces.example.com")
        if not token.isascii() or not token.isprintable():
            raise CommandError("the token contains invalid characters; a token is one line of printable ASCII")
        if parts.scheme == "http" and parts.hostname not in _LOOPBACK and not parts.hostname.endswith(".svc"):
            raise CommandError(f"{address} is not encrypted, and would expose the token; use https")
        self._http = httpx2.Client(
            base_url=address.rstrip("/"),
            headers={"Authorization": f"Bearer {token}", "User-Agent": "agentenv"},
            timeout=_TIMEOUT_SECONDS,
            # The token must not be sent to another address.
            follow_redirects=False,
            trust_env=parts.hostname not in _LOOPBACK,
            transport=transport,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def create(self, request: Mapping[str, Any], wait: float) -> Document:
        """Create a workspace, and wait until it is running."""
        return self._request("POST", "/v1/workspaces", {"wait": _seconds(wait)}, dict(request))

    def get(self, name: str, wait: float = 0) -> Document:
        """Return a workspace, after waiting for it to settle."""
        return self._request("GET", _path(name), {"wait": _seconds(wait)} if wait else {})

    def list(self, query: Mapping[str, Any]) -> Iterator[Document]:
        """Yield workspaces, page by page."""
        after: str | None = None
        while True:
            more = {"after": after} if after else {}
            page = self._request("GET", "/v1/workspaces", {**query, **more, "limit": str(_PAGE)})
            yield from page["items"]
            after = page.get("after")
            if not after:
                return

    def update(self, name: str, changes: Mapping[str, Any]) -> Document:
        """Update a workspace."""
        return self._request("PATCH", _path(name), {}, dict(changes))

    def suspend(self, name: str) -> Document:
        """Suspend a workspace."""
        return self._request("POST", f"{_path(name)}/suspend")

    def resume(self, name: str, wait: float) -> Document:
        """Resume a workspace, and wait until it is running."""
        return self._request("POST", f"{_path(name)}/resume", {"wait": _seconds(wait)})

    def delete(self, name: str, *, destroy: bool) -> Document:
        """Delete a workspace, and with `destroy` its data."""
        return self._request("DELETE", _path(name), {"destroy": "true"} if destroy else {})

    def attach(self, name: str, holder: str, mode: str, seconds: int | None = None) -> Document:
        """Create or renew a lease on a workspace."""
        body: Document = {"mode": mode, **({"seconds": seconds} if seconds else {})}
        return self._request("PUT", f"{_path(name)}/leases/{quote(holder, safe='')}", {}, body)

    def detach(self, name: str, holder: str) -> Document:
        """Delete a lease."""
        return self._request("DELETE", f"{_path(name)}/leases/{quote(holder, safe='')}")

    def events(self, name: str) -> list[Document]:
        """Return the events of a workspace."""
        return self._request("GET", f"{_path(name)}/events")["items"]

    def _request(
        self, method: str, path: str, query: Mapping[str, Any] | None = None, body: Document | None = None
    ) -> Document:
        try:
            response = self._http.request(method, path, params=dict(query or {}), json=body)
        except httpx2.HTTPError as error:
            raise CommandError(f"the request to the service failed: {error}") from error
        if not response.is_success:
            raise CommandError(problem_text(response))
        document = _document(response)
        if document is None:
            raise CommandError(_UNEXPECTED.format(response.status_code))
        return document


def problem_text(response: httpx2.Response) -> str:
    """Return the title, detail and fix of a problem response."""
    problem = _document(response)
    if problem is None:
        return _UNEXPECTED.format(response.status_code)
    parts = [str(problem[key]) for key in ("title", "detail", "way_out") if problem.get(key)]
    return "; ".join(parts) or f"the service responded with status {response.status_code}"


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


def _path(name: str) -> str:
    return f"/v1/workspaces/{quote(name, safe='')}"


def _seconds(wait: float) -> str:
    return f"{min(max(wait, 0.0), 60.0):g}"
