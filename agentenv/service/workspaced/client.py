"""A client of workspaced in one pod: its status, and the end of a session."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol, cast
from urllib.parse import quote

import httpx2

from agentenv.core.classes.pods.daemon import WORKSPACED
from agentenv.core.values.object_fields import Document, number, rows, section, text

CONTROL = "control"
TOKEN_HEADER = "X-Workspace-Token"  # noqa: S105 - its name
_TIMEOUT = httpx2.Timeout(3.0)
_MAX_BYTES = 1 << 20
_LONGEST_SECONDS = 100 * 366 * 86_400.0


class WorkspacedError(Exception):
    """workspaced refused a request, or did not answer."""


@dataclass(frozen=True)
class PodAddress:
    """Where the workspaced of a pod is reached."""

    uid: str
    address: str
    port: int

    @property
    def url(self) -> str:
        """Return the base of its URLs."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"http://{host}:{self.port}"


@dataclass(frozen=True)
class Status:
    """What workspaced knows of the use of its sandbox."""

    idle_seconds: float
    busy: bool


def address_of(pod: Document) -> PodAddress | None:
    """Return the address of the workspaced of a pod; None for a pod without one, or without an address yet."""
    ports = [port for container in rows(section(pod, "spec"), "containers") for port in rows(container, "ports")]
    uid, address = text(section(pod, "metadata"), "uid"), text(section(pod, "status"), "podIP")
    port = next((number(port, "containerPort") for port in ports if text(port, "name") == WORKSPACED), 0)
    return PodAddress(uid, address, port) if port and uid and address else None


class Signer(Protocol):
    """Signs tokens for pods."""

    async def sign(self, *, pod_uid: str, scope: str, claim_uid: str = "", session: str = "") -> str:
        """Return a token for a pod."""
        ...


class WorkspacedClient:
    """Speaks to the workspaced of any pod, as the service."""

    def __init__(self, signer: Signer, client: httpx2.AsyncClient | None = None) -> None:
        self._signer = signer
        # Sandboxes are in the cluster: whatever proxy this process has is not for them.
        self._client = client or httpx2.AsyncClient(timeout=_TIMEOUT, trust_env=False, follow_redirects=False)

    async def close(self) -> None:
        """Close its connections."""
        await self._client.aclose()

    async def status(self, pod: PodAddress) -> Status:
        """Return how long nothing has happened in a sandbox, and whether a job asks to be left running."""
        document = await self._request("GET", pod, "/status")
        idle, busy = document.get("idle_seconds"), document.get("busy")
        if not isinstance(busy, bool) or not isinstance(idle, int | float) or isinstance(idle, bool):
            raise WorkspacedError("its status cannot be read")
        if not 0 <= idle <= _LONGEST_SECONDS:
            raise WorkspacedError("its status cannot be read")
        return Status(float(idle), busy)

    async def end_session(self, pod: PodAddress, session: str) -> None:
        """Cancel what runs in a session, and have its tokens refused."""
        await self._request("POST", pod, f"/sessions/{quote(session, safe='')}/end")

    async def _request(self, method: str, pod: PodAddress, path: str) -> dict[str, Any]:
        token = await self._signer.sign(pod_uid=pod.uid, scope=CONTROL)
        try:
            async with self._client.stream(method, pod.url + path, headers={TOKEN_HEADER: token}) as response:
                body = bytearray()
                async for chunk in response.aiter_bytes():
                    body += chunk
                    # What runs in a sandbox may have taken over its port.
                    if len(body) > _MAX_BYTES:
                        raise WorkspacedError("its response is too large")
        except httpx2.HTTPError as failure:
            raise WorkspacedError(f"it does not answer: {type(failure).__name__}") from failure
        if not response.is_success:
            raise WorkspacedError(f"it refused with {response.status_code}")
        return _object(bytes(body)) if body else {}


def _object(body: bytes) -> dict[str, Any]:
    try:
        document: object = json.loads(body)
    except (ValueError, RecursionError) as failure:
        raise WorkspacedError("its response is not JSON") from failure
    if not isinstance(document, dict):
        raise WorkspacedError("its response is no object")
    return cast("dict[str, Any]", document)
