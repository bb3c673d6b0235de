"""Speaks to the workspace service over HTTP: one request a call, and a refusal in the service's own words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self
from urllib.parse import SplitResult, quote, urlsplit

import httpx2

from agentenv.cli.main import Refusal

Document = dict[str, Any]

_PATIENCE_SECONDS = 90.0
_PAGE = 100
_ANOTHER = "the service answered {}; is it the workspace service that is at that address?"
_LOOPBACK = {"127.0.0.1", "::1", "localhost"}


class Client:
    """The service at an address, as the bearer of a token."""

    def __init__(self, address: str, token: str, transport: httpx2.BaseTransport | None = None) -> None:
        parts = urlsplit(address)
        if parts.scheme not in {"http", "https"} or not parts.hostname or not _has_port(parts):
            raise Refusal(f"{address} is no address of a service, such as https://workspaces.example.com")
        if not token.isascii() or not token.isprintable():
            raise Refusal("the token has signs that no token has; it is one line of letters, digits and signs of ASCII")
        if parts.scheme == "http" and parts.hostname not in _LOOPBACK and not parts.hostname.endswith(".svc"):
            raise Refusal(f"{address} is in clear, and whoever reads a token on the way is its bearer; use https")
        self._http = httpx2.Client(
            base_url=address.rstrip("/"),
            headers={"Authorization": f"Bearer {token}", "User-Agent": "agentenv"},
            timeout=_PATIENCE_SECONDS,
            # A token is for this address and no other.
            follow_redirects=False,
            trust_env=parts.hostname not in _LOOPBACK,
            transport=transport,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def create(self, asked: Mapping[str, Any], wait: float) -> Document:
        """Ask for a workspace."""
        return self._ask("POST", "/v1/workspaces", {"wait": _seconds(wait)}, dict(asked))

    def get(self, name: str, wait: float = 0) -> Document:
        """A workspace as it is, or once it is on its way no more."""
        return self._ask("GET", _path(name), {"wait": _seconds(wait)} if wait else {})

    def list(self, chosen: Mapping[str, Any]) -> Iterator[Document]:
        """Workspaces, page by page."""
        after: str | None = None
        while True:
            more = {"after": after} if after else {}
            page = self._ask("GET", "/v1/workspaces", {**chosen, **more, "limit": str(_PAGE)})
            yield from page["items"]
            after = page.get("after")
            if not after:
                return

    def update(self, name: str, changes: Mapping[str, Any]) -> Document:
        """Change what is said of it."""
        return self._ask("PATCH", _path(name), {}, dict(changes))

    def suspend(self, name: str) -> Document:
        """Let it sleep."""
        return self._ask("POST", f"{_path(name)}/suspend")

    def resume(self, name: str, wait: float) -> Document:
        """Wake it."""
        return self._ask("POST", f"{_path(name)}/resume", {"wait": _seconds(wait)})

    def delete(self, name: str, *, destroy: bool) -> Document:
        """Take it away."""
        return self._ask("DELETE", _path(name), {"destroy": "true"} if destroy else {})

    def attach(self, name: str, holder: str, mode: str, seconds: int | None = None) -> Document:
        """Hold it, or say that one still does."""
        body: Document = {"mode": mode, **({"seconds": seconds} if seconds else {})}
        return self._ask("PUT", f"{_path(name)}/leases/{quote(holder, safe='')}", {}, body)

    def detach(self, name: str, holder: str) -> Document:
        """Let go of it."""
        return self._ask("DELETE", f"{_path(name)}/leases/{quote(holder, safe='')}")

    def events(self, name: str) -> list[Document]:
        """What happened to it."""
        return self._ask("GET", f"{_path(name)}/events")["items"]

    def _ask(
        self, method: str, path: str, query: Mapping[str, Any] | None = None, body: Document | None = None
    ) -> Document:
        try:
            answer = self._http.request(method, path, params=dict(query or {}), json=body)
        except httpx2.HTTPError as failure:
            raise Refusal(f"the service does not answer: {failure}") from failure
        if not answer.is_success:
            raise Refusal(told(answer))
        said = _document(answer)
        if said is None:
            raise Refusal(_ANOTHER.format(answer.status_code))
        return said


def told(answer: httpx2.Response) -> str:
    """A refusal as a person reads it: what is wrong, and what to do."""
    words = _document(answer)
    if words is None:
        return _ANOTHER.format(answer.status_code)
    parts = [str(words[key]) for key in ("title", "detail", "way_out") if words.get(key)]
    return "; ".join(parts) or f"the service answered {answer.status_code}"


def _has_port(parts: SplitResult) -> bool:
    """Whether what is after the colon is a port, or there is none."""
    try:
        return parts.port != 0
    except ValueError:
        return False


def _document(answer: httpx2.Response) -> Document | None:
    """What was answered, None where it is not in the service's form: a proxy's page, another program's."""
    try:
        said: Any = answer.json()
    except ValueError:
        return None
    return said if isinstance(said, dict) else None  # pyright: ignore[reportUnknownVariableType] - JSON's keys are text


def _path(name: str) -> str:
    return f"/v1/workspaces/{quote(name, safe='')}"


def _seconds(wait: float) -> str:
    return f"{min(max(wait, 0.0), 60.0):g}"
