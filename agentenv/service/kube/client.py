"""The Kubernetes API as coroutines: plain documents over a connection, with patience and no more than that.

lightkube brings the ways in (kubeconfig, a command for tokens, a pod's account whose token is renewed); what is sent is
written here, because a service needs of it what its typed calls leave out: the version of a list, bookmarks, deleting
only what was read, and retries that are told apart from refusals. `docs/decisions/service-client.md` has the figures.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import httpx2

from agentenv.core.values.object_fields import Document, parsed_object, rows, section, text
from agentenv.service.http.problems import Problem
from agentenv.service.kube.clock import ServerClock
from agentenv.service.telemetry import traces

if TYPE_CHECKING:
    from pathlib import Path

    from opentelemetry.trace import Span

    from agentenv.service.kube.connection import Connection

__all__ = ["Document", "section"]

MANAGER = "workspace-service"
PAGE = 500
ATTEMPTS = 6
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
# What passes by itself. A conflict does only where nothing was read: whoever read an old version reads again.
PASSING = frozenset({429, 500, 502, 503, 504})
# The API server sends a bookmark each minute: a watch that is silent for longer is broken, and is cut.
WATCH_SILENCE = 90.0
# Objects of which only the metadata is sent.
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_ONLY_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


@dataclass(frozen=True)
class Kind:
    """A kind of object, by its place in the API."""

    api: str
    plural: str
    kind: str
    namespaced: bool = True

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """The path of one of them, of those in a namespace, or of all."""
        prefix = f"/namespaces/{namespace}" if namespace and self.namespaced else ""
        return f"{self.api}{prefix}/{self.plural}" + (f"/{name}" if name else "")


_EXTENSIONS = "/apis/extensions.agents.x-k8s.io/v1beta1"
CLAIMS = Kind(_EXTENSIONS, "sandboxclaims", "SandboxClaim")
POOLS = Kind(_EXTENSIONS, "sandboxwarmpools", "SandboxWarmPool")
TEMPLATES = Kind(_EXTENSIONS, "sandboxtemplates", "SandboxTemplate")
SANDBOXES = Kind("/apis/agents.x-k8s.io/v1beta1", "sandboxes", "Sandbox")
VOLUME_CLAIMS = Kind("/api/v1", "persistentvolumeclaims", "PersistentVolumeClaim")
VOLUMES = Kind("/api/v1", "persistentvolumes", "PersistentVolume", namespaced=False)
CONFIGURATIONS = Kind("/api/v1", "configmaps", "ConfigMap")
EVENTS = Kind("/api/v1", "events", "Event")
QUOTAS = Kind("/api/v1", "resourcequotas", "ResourceQuota")
TOKEN_REVIEWS = Kind("/apis/authentication.k8s.io/v1", "tokenreviews", "TokenReview", namespaced=False)


class KubeApiError(Exception):
    """The API server refused something for good; the message is its own."""

    def __init__(self, code: int, reason: str, message: str, *, retried: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.retried = retried  # it was sent more than once: it may be our own first try that stands in the way


class WatchExpiredError(Exception):
    """A watch or a list cannot go on from where it was."""


class KubeClient:
    """One API server."""

    def __init__(
        self,
        client: Connection | httpx2.AsyncClient,
        *,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
        clock: ServerClock | None = None,
    ) -> None:
        self._client = client
        # By what it answers: whoever has listed anything goes by its time.
        self.clock = clock or ServerClock()
        self._pause = pause
        self._chance = chance

    @classmethod
    def from_kubeconfig(cls, path: Path | None) -> KubeClient:
        """The one that a kubeconfig leads to by its chosen context; as the pod's own account without one."""
        from lightkube import KubeConfig

        from agentenv.service.kube.connection import Connection

        config: Any = KubeConfig.from_file(path) if path else KubeConfig.from_service_account()
        return cls(Connection(config.get()))

    async def close(self) -> None:
        """Let go of its connections."""
        await self._client.aclose()

    async def find(self, kind: Kind, name: str, namespace: str | None = None) -> Document | None:
        """One of them, as it is now, if it is there."""
        try:
            return await self.request("GET", kind.path(namespace, name))
        except KubeApiError as error:
            if error.code == 404:
                return None
            raise

    async def create(self, kind: Kind, document: Mapping[str, Any]) -> Document | None:
        """Make it; None where one of its name is there already, which may be what was asked for a moment ago."""
        namespace = document["metadata"].get("namespace")
        try:
            return await self.request("POST", kind.path(namespace), document, params={"fieldManager": MANAGER})
        except KubeApiError as refusal:
            if refusal.code == 409 and refusal.reason == "AlreadyExists":
                return None
            raise

    async def patch(self, kind: Kind, existing: Mapping[str, Any], changes: Mapping[str, Any]) -> Document | None:
        """Merge changes into what was read; None where it is another by now, or gone."""
        metadata: Document = existing["metadata"]
        pinned = {key: metadata[key] for key in ("uid", "resourceVersion") if metadata.get(key)}
        merged = {**changes, "metadata": {**changes.get("metadata", {}), **pinned}}
        path = kind.path(metadata.get("namespace"), metadata["name"])
        try:
            return await self.request("PATCH", path, merged, params={"fieldManager": MANAGER})
        except KubeApiError as refusal:
            if refusal.code in {404, 409}:
                return None
            raise

    async def delete(self, kind: Kind, existing: Mapping[str, Any], *, policy: str = "Background") -> bool:
        """Delete what was read, in whatever state it is by now; False where it is gone, or another of its name."""
        metadata: Document = existing["metadata"]
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": policy,
            "preconditions": {"uid": metadata["uid"]},
        }
        try:
            await self.request("DELETE", kind.path(metadata.get("namespace"), metadata["name"]), options)
        except KubeApiError as refusal:
            if refusal.code in {404, 409}:
                return False
            raise
        return True

    async def list(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        metadata_only: bool = False,
    ) -> AsyncIterator[tuple[list[Document], str]]:
        """List a kind page by page, each page with the version of the list; `metadata_only` drops spec and status."""
        continue_token = ""
        while True:
            params = {"limit": str(PAGE)}
            params |= {"labelSelector": labels} if labels else {}
            params |= {"fieldSelector": fields} if fields else {}
            params |= {"continue": continue_token} if continue_token else {}
            try:
                page = await self.request(
                    "GET", kind.path(namespace), params=params, accept=METADATA_ONLY_LIST if metadata_only else ""
                )
            except KubeApiError as refusal:
                if refusal.code == 410:
                    raise WatchExpiredError(str(refusal)) from refusal
                raise
            metadata = section(page, "metadata")
            yield rows(page, "items"), text(metadata, "resourceVersion")
            continue_token = text(metadata, "continue")
            if not continue_token:
                return

    async def watch(
        self,
        kind: Kind,
        version: str,
        *,
        labels: str = "",
        fields: str = "",
        seconds: int = 300,
        metadata_only: bool = False,
        on_open: Callable[[], None] = lambda: None,
    ) -> AsyncIterator[tuple[str, Document]]:
        """Watch all objects of a kind from a version on; `WatchExpiredError` where that is too old.

        `on_open` is called once the watch is open.
        """
        params = {"watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true"}
        params |= {"timeoutSeconds": str(seconds)}
        params |= {"labelSelector": labels} if labels else {}
        params |= {"fieldSelector": fields} if fields else {}
        watch_timeout = httpx2.Timeout(10.0, read=WATCH_SILENCE)
        headers = {"Accept": METADATA_ONLY} if metadata_only else {}
        async with self._client.stream(
            "GET", kind.path(), params=params, headers=headers, timeout=watch_timeout
        ) as response:
            if response.status_code != 200:
                await response.aread()
                refusal = _error_of(response)
                raise WatchExpiredError(str(refusal)) if refusal.code == 410 else refusal
            self.clock.observe_date(response.headers.get("Date"))
            on_open()
            async for line in _lines(response.aiter_raw()):
                event = parsed_object(line)
                if event is None:
                    raise WatchExpiredError("an event cannot be read")
                if text(event, "type") == "ERROR":
                    raise WatchExpiredError(text(section(event, "object"), "message"))
                yield text(event, "type"), section(event, "object")

    async def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        params: Mapping[str, str] | None = None,
        accept: str = "",
    ) -> Document:
        """One request; sent again, a few times and each time later, where that may help.

        All of them can be: what is made has a name, what is changed and deleted says which one was read.
        """
        with traces.client_span(f"{method} {_plural(path)}", {"http.request.method": method}) as span:
            return await self._request(span, method, path, body, params=params, accept=accept)

    async def _request(
        self,
        span: Span,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        *,
        params: Mapping[str, str] | None,
        accept: str,
    ) -> Document:
        content = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {} if content is None else {"Content-Type": kind}
        headers |= {"Accept": accept} if accept else {}
        for attempt in range(ATTEMPTS):
            retry_after: float | None = None
            if attempt:
                span.set_attribute("http.request.resend_count", attempt)
            try:
                response = await self._client.request(method, path, params=params, content=content, headers=headers)
            except httpx2.TransportError as failure:
                error: Exception = Problem(
                    "unavailable",
                    f"the API server does not answer: {type(failure).__name__}",
                    "try again in a while; nothing was lost",
                    retry_after=5,
                )
                error.__cause__ = failure
            else:
                span.set_attribute("http.response.status_code", response.status_code)
                if response.status_code < 400:
                    self.clock.observe_date(response.headers.get("Date"))
                    document = parsed_object(response.content) if response.content else {}
                    if document is None:
                        why = "what the API server answers cannot be read"
                        raise Problem("unavailable", why, "tell whoever runs the platform", retry_after=60)
                    return document
                refusal = _error_of(response, retried=attempt > 0)
                if not _is_transient(method, refusal):
                    raise refusal
                retry_after = _retry_after(response)
                error = Problem(
                    "unavailable",
                    f"the API server is too busy: {refusal.message}",
                    "try again in a while",
                    retry_after=int(retry_after or 5),
                )
            if attempt == ATTEMPTS - 1:
                raise error
            # Full jitter: replicas that were turned away together do not come back together.
            longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2**attempt)
            await self._pause(self._chance() * longest + min(retry_after or 0.0, LONGEST_PAUSE))
        raise AssertionError("a loop of attempts ends by itself")


async def _lines(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Whole lines, as soon as each is there; what a broken connection leaves of one is no line."""
    partial: list[bytes] = []
    async for part in parts:
        *whole, last = part.split(b"\n")
        if whole:
            whole[0] = b"".join((*partial, whole[0]))
            partial = []
        for line in whole:
            if line:
                yield line
        partial.append(last)


def _plural(path: str) -> str:
    """Of which kind of objects a path is; none of its names."""
    parts = path.strip("/").split("/")
    segments = parts[2:] if parts[0] == "api" else parts[3:]
    segments = segments[2:] if segments[:1] == ["namespaces"] and len(segments) > 2 else segments
    return segments[0] if segments else "kubernetes"


def _error_of(response: httpx2.Response, *, retried: bool = False) -> KubeApiError:
    status = parsed_object(response.content) or {}
    message = text(status, "message") or response.text[:300] or response.reason_phrase
    return KubeApiError(response.status_code, text(status, "reason"), message, retried=retried)


def _is_transient(method: str, refusal: KubeApiError) -> bool:
    if method == "POST" and (refusal.code, refusal.reason) == (HTTPStatus.CONFLICT, "Conflict"):
        # Nothing of ours was read that could be old: others were counted in its quota at the same moment.
        return True
    # An admission webhook that fails closed is a 500, too; what it says does not change in two seconds.
    return refusal.code in PASSING and "denied the request" not in refusal.message


def _retry_after(response: httpx2.Response) -> float | None:
    text = response.headers.get("Retry-After", "")
    return float(text) if text.isdigit() and len(text) < 6 else None
