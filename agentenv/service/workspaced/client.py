"""A client of workspaced in one pod: its status and memory, and the end of a session."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast
from urllib.parse import quote

import httpx2

from agentenv.core.classes.names import CLAIM_UID_LABEL
from agentenv.core.classes.pods.daemon import WORKSPACED
from agentenv.core.values.object_fields import Document, number, rows, section, text
from agentenv.service.workspaced.tokens import Grant
from agentenv.service.workspaces.backend_protocol import Endpoint

CONTROL = "control"
TOKEN_HEADER = "X-Workspace-Token"  # noqa: S105 - its name
_TIMEOUT = httpx2.Timeout(3.0)
_MAX_BYTES = 1 << 20
_LONGEST_SECONDS = 100 * 366 * 86_400.0


class WorkspacedError(Exception):
    """workspaced refused a request, or did not answer."""


@dataclass(frozen=True)
class Status:
    """The activity of a sandbox as workspaced reports it."""

    idle_seconds: float
    busy: bool


def endpoint_of(pod: Document) -> Endpoint | None:
    """Return where the workspaced of a pod is reached; None for a pod without one, or without an address yet."""
    metadata, address = section(pod, "metadata"), text(section(pod, "status"), "podIP")
    uid, claim_uid = text(metadata, "uid"), text(section(metadata, "labels"), CLAIM_UID_LABEL)
    port = workspaced_port(section(pod, "spec"))
    return Endpoint(uid, claim_uid, address, port) if port and uid and address else None


def workspaced_port(pod: Document) -> int:
    """Return the port of workspaced in the specification of a pod; 0 for one without it."""
    ports = [port for container in rows(pod, "containers") for port in rows(container, "ports")]
    return next((number(port, "containerPort") for port in ports if text(port, "name") == WORKSPACED), 0)


class Signer(Protocol):
    """Signs tokens for pods."""

    async def sign(self, grant: Grant) -> str:
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

    async def status(self, pod: Endpoint) -> Status:
        """Return how long nothing has happened in a sandbox, and whether a job asks to be left running."""
        document = await self.request("GET", pod, "/status")
        idle, busy = document.get("idle_seconds"), document.get("busy")
        if not isinstance(busy, bool) or not isinstance(idle, int | float) or isinstance(idle, bool):
            raise WorkspacedError("its status cannot be read")
        if not 0 <= idle <= _LONGEST_SECONDS:
            raise WorkspacedError("its status cannot be read")
        return Status(float(idle), busy)

    async def used_memory(self, pod: Endpoint) -> int:
        """Return the bytes of memory that a sandbox uses, without what its kernel can free."""
        used = (await self.request("GET", pod, "/metrics")).get("mem_used")
        if not isinstance(used, int) or isinstance(used, bool) or used < 0:
            raise WorkspacedError("its metrics cannot be read")
        return used

    async def end_session(self, pod: Endpoint, session: str) -> None:
        """Cancel what runs in a session, and have its tokens refused."""
        await self.request("POST", pod, f"/sessions/{quote(session, safe='')}/end")

    async def request(
        self, method: str, pod: Endpoint, path: str, body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Send a request for control, and return the document of its response."""
        token = await self._signer.sign(Grant(pod.pod_uid, CONTROL))
        try:
            async with self._client.stream(
                method, f"http://{pod.destination}{path}", headers={TOKEN_HEADER: token}, json=body
            ) as response:
                content = bytearray()
                async for chunk in response.aiter_bytes():
                    content += chunk
                    # What runs in a sandbox may have taken over its port.
                    if len(content) > _MAX_BYTES:
                        raise WorkspacedError("its response is too large")
        except httpx2.HTTPError as failure:
            raise WorkspacedError(f"it does not answer: {type(failure).__name__}") from failure
        if not response.is_success:
            raise WorkspacedError(f"it refused with {response.status_code}")
        return _object(bytes(content)) if content else {}


def _object(body: bytes) -> dict[str, Any]:
    try:
        document: object = json.loads(body)
    except (ValueError, RecursionError) as failure:
        raise WorkspacedError("its response is not JSON") from failure
    if not isinstance(document, dict):
        raise WorkspacedError("its response is no object")
    return cast("dict[str, Any]", document)
