"""Access the Kubernetes API by coroutines: the kinds that the service uses, and requests on their plain documents.

lightkube provides credentials: kubeconfig, exec plugins, and renewed service account tokens. Requests are built here,
because a service needs what typed clients leave out. That is resource versions of lists, bookmarks, preconditions of
deletes, and retries of transient errors. `docs/decisions/kubernetes-client.md` has the figures.
"""

from __future__ import annotations

import asyncio
import builtins
import json
import random
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import httpx2

from agentenv.core.values.object_fields import Document, parsed_object, rows, section, text
from agentenv.service.kube.clock import ServerClock
from agentenv.service.telemetry import traces
from agentenv.service.workspaces.backend_error import BackendError

if TYPE_CHECKING:
    from pathlib import Path

    from opentelemetry.trace import Span

    from agentenv.service.kube.connection import Connection

__all__ = ["Document", "section"]

# The field manager of all writes of the service.
MANAGER = "workspace-service"
# A sandbox has 12 kB, and needs eight times as much memory once parsed. So passes read short pages. An informer stores
# only one row per object, and lists once.
PAGE, INFORMER_PAGE = 50, 200
ATTEMPTS = 6
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
# The API server sends a bookmark each minute. A watch without an event for longer is broken, and is closed.
WATCH_SILENCE = 90.0
# Media types of responses with only the metadata of objects.
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_ONLY_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


@dataclass(frozen=True)
class Kind:
    """A kind of object, by its path in the API."""

    api: str
    plural: str
    kind: str
    namespaced: bool = True
    subresource: str = ""  # of each object, such as `resize` of pods

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """Return the path of one object, of those in a namespace, or of all."""
        prefix = f"/namespaces/{namespace}" if namespace and self.namespaced else ""
        part = f"/{self.subresource}" if self.subresource else ""
        return f"{self.api}{prefix}/{self.plural}" + (f"/{name}{part}" if name else "")


_EXTENSIONS = "/apis/extensions.agents.x-k8s.io/v1beta1"
CLAIMS = Kind(_EXTENSIONS, "sandboxclaims", "SandboxClaim")
POOLS = Kind(_EXTENSIONS, "sandboxwarmpools", "SandboxWarmPool")
TEMPLATES = Kind(_EXTENSIONS, "sandboxtemplates", "SandboxTemplate")
SANDBOXES = Kind("/apis/agents.x-k8s.io/v1beta1", "sandboxes", "Sandbox")
VOLUME_CLAIMS = Kind("/api/v1", "persistentvolumeclaims", "PersistentVolumeClaim")
VOLUMES = Kind("/api/v1", "persistentvolumes", "PersistentVolume", namespaced=False)
PODS = Kind("/api/v1", "pods", "Pod")
POD_RESIZES = Kind("/api/v1", "pods", "Pod", subresource="resize")
POD_STATUS = Kind("/api/v1", "pods", "Pod", subresource="status")
QUOTAS = Kind("/api/v1", "resourcequotas", "ResourceQuota")
CONFIGURATIONS = Kind("/api/v1", "configmaps", "ConfigMap")
SECRETS = Kind("/api/v1", "secrets", "Secret")
NODES = Kind("/api/v1", "nodes", "Node", namespaced=False)
JOBS = Kind("/apis/batch/v1", "jobs", "Job")
NAMESPACES = Kind("/api/v1", "namespaces", "Namespace", namespaced=False)
EVENTS = Kind("/api/v1", "events", "Event")
LEASES = Kind("/apis/coordination.k8s.io/v1", "leases", "Lease")
_TOKEN_REVIEWS = Kind("/apis/authentication.k8s.io/v1", "tokenreviews", "TokenReview", namespaced=False)

Item = TypeVar("Item")

# Label values by name; None selects objects that have the label with any value.
Labels = Mapping[str, str | None]


class KubeApiError(BackendError):
    """A request that the API server refused, with the server's message; code 503 where it did not respond."""

    def __init__(self, message: str, code: int = 0, reason: str = "", *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.reason = reason
        self.retry_after = retry_after

    @property
    def transient(self) -> bool:
        """Return whether the server cannot answer now, as opposed to a request that it refuses."""
        # An admission webhook that fails closed also responds with 500, and its message does not change on a retry.
        busy = self.code == HTTPStatus.TOO_MANY_REQUESTS or self.code >= HTTPStatus.INTERNAL_SERVER_ERROR
        return busy and "denied the request" not in self.message


class WatchExpiredError(KubeApiError):
    """A watch or a list that cannot be continued from its resource version."""

    def __init__(self, message: str) -> None:
        super().__init__(message, HTTPStatus.GONE, "Expired")


class KubeApi(Protocol):
    """The operations on Kubernetes objects. A change applies only to the resource version that was read."""

    def list(self, kind: Kind, namespace: str | None = None, labels: Labels | None = None) -> AsyncIterator[Document]:
        """Yield all objects of a kind, in one namespace or in all."""
        ...

    async def find(self, kind: Kind, name: str, namespace: str | None = None) -> Document | None:
        """Return an object, or None if it does not exist."""
        ...

    async def create(self, kind: Kind, document: Mapping[str, Any]) -> Document | None:
        """Create an object and return it; None if an object of this name exists."""
        ...

    async def patch(self, kind: Kind, existing: Mapping[str, Any], changes: Mapping[str, Any]) -> Document | None:
        """Merge changes into an object and return it; None if it was changed since it was read, or is gone."""
        ...

    async def delete(
        self, kind: Kind, existing: Mapping[str, Any], *, any_version: bool = False, policy: str = "Background"
    ) -> bool:
        """Delete an object; return False if it was changed since it was read, or is gone.

        With `any_version` only its uid has to be the same.
        """
        ...


class KubeClient(KubeApi):
    """A client of one API server. A request with a transient error is sent `attempts` times at most."""

    def __init__(
        self,
        client: Connection | httpx2.AsyncClient,
        *,
        attempts: int = ATTEMPTS,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
        clock: ServerClock | None = None,
    ) -> None:
        self._client = client
        # Set by the `Date` header of responses.
        self.clock = clock or ServerClock()
        self._attempts = attempts
        self._pause = pause
        self._chance = chance

    @classmethod
    def from_kubeconfig(cls, path: Path | None, *, attempts: int = ATTEMPTS) -> KubeClient:
        """Return a client for a kubeconfig's current context; without a path, for the pod's service account."""
        from lightkube import KubeConfig

        config: Any = KubeConfig.from_file(path) if path else KubeConfig.from_service_account()
        return cls._connected(config, attempts)

    @classmethod
    def from_kubeconfig_document(cls, document: Mapping[str, Any], *, attempts: int = ATTEMPTS) -> KubeClient:
        """Return a client for a parsed kubeconfig."""
        from lightkube import KubeConfig

        untyped: Any = KubeConfig
        return cls._connected(untyped.from_dict(dict(document)), attempts)

    @classmethod
    def _connected(cls, config: Any, attempts: int) -> KubeClient:
        from agentenv.service.kube.connection import Connection

        return cls(Connection(config.get()), attempts=attempts)

    def without_retries(self) -> KubeClient:
        """Return a client on the same connection that does not retry, for callers that do."""
        return KubeClient(self._client, attempts=1, clock=self.clock)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def find(self, kind: Kind, name: str, namespace: str | None = None) -> Document | None:
        """Return an object, or None if it does not exist."""
        try:
            return await self.request("GET", kind.path(namespace, name))
        except KubeApiError as error:
            if error.code == HTTPStatus.NOT_FOUND:
                return None
            raise

    async def create(self, kind: Kind, document: Mapping[str, Any]) -> Document | None:
        """Create an object and return it; None if an object of this name exists, perhaps by an earlier attempt."""
        namespace = document["metadata"].get("namespace")
        try:
            return await self.request("POST", kind.path(namespace), document, params={"fieldManager": MANAGER})
        except KubeApiError as error:
            if error.code == HTTPStatus.CONFLICT and error.reason == "AlreadyExists":
                return None
            raise

    async def patch(self, kind: Kind, existing: Mapping[str, Any], changes: Mapping[str, Any]) -> Document | None:
        """Merge changes into an object and return it; None if it was changed since it was read, or is gone.

        The patch requires the uid of `existing`, and its resource version if it has one.
        """
        metadata: Document = existing["metadata"]
        pinned = {key: metadata[key] for key in ("uid", "resourceVersion") if metadata.get(key)}
        merged = {**changes, "metadata": {**changes.get("metadata", {}), **pinned}}
        path = kind.path(metadata.get("namespace"), metadata["name"])
        try:
            return await self.request("PATCH", path, merged, params={"fieldManager": MANAGER})
        except KubeApiError as error:
            if error.code in {HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT}:
                return None
            raise

    async def delete(
        self,
        kind: Kind,
        existing: Mapping[str, Any],
        *,
        any_version: bool = False,
        policy: str = "Background",
        grace_seconds: int | None = None,
    ) -> bool:
        """Delete an object; return False if it was changed since it was read, or is gone."""
        metadata: Document = existing["metadata"]
        keys = ("uid",) if any_version else ("uid", "resourceVersion")
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": policy,
            "preconditions": {key: metadata[key] for key in keys},
            **({} if grace_seconds is None else {"gracePeriodSeconds": grace_seconds}),
        }
        try:
            await self.request("DELETE", kind.path(metadata.get("namespace"), metadata["name"]), options)
        except KubeApiError as error:
            if error.code in {HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT}:
                return False
            raise
        return True

    async def review(self, token: str, audience: str) -> Document:
        """Return the status of a TokenReview."""
        review: Document = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "metadata": {},
            "spec": {"token": token, "audiences": [audience]},
        }
        return section(await self.request("POST", _TOKEN_REVIEWS.path(), review), "status")

    async def list(
        self, kind: Kind, namespace: str | None = None, labels: Labels | None = None, *, fields: str = ""
    ) -> AsyncIterator[Document]:
        """Yield all objects of a kind, without their managed fields, which are half of an object's size."""
        selector = ",".join(key if value is None else f"{key}={value}" for key, value in (labels or {}).items())
        async for page, _ in self.pages(kind, namespace, labels=selector, fields=fields, size=PAGE):
            for document in page:
                section(document, "metadata").pop("managedFields", None)
                yield document

    async def pages(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        metadata_only: bool = False,
        size: int = INFORMER_PAGE,
    ) -> AsyncIterator[tuple[builtins.list[Document], str]]:
        """Yield pages of objects with the list's resource version; `metadata_only` omits spec and status."""
        continue_token = ""
        while True:
            params = {"limit": str(size)}
            params |= {"labelSelector": labels} if labels else {}
            params |= {"fieldSelector": fields} if fields else {}
            params |= {"continue": continue_token} if continue_token else {}
            try:
                page = await self.request(
                    "GET", kind.path(namespace), params=params, accept=METADATA_ONLY_LIST if metadata_only else ""
                )
            except KubeApiError as error:
                if error.code == HTTPStatus.GONE:
                    raise WatchExpiredError(str(error)) from error
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
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        seconds: int = 300,
        metadata_only: bool = False,
        on_open: Callable[[], None] = lambda: None,
    ) -> AsyncIterator[tuple[str, Document]]:
        """Watch the objects of a kind, in all namespaces or in one, from a resource version.

        Raise `WatchExpiredError` if that version is too old. `on_open` is called as soon as the watch is open.
        """
        params = {"watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true"}
        params |= {"timeoutSeconds": str(seconds)}
        params |= {"labelSelector": labels} if labels else {}
        params |= {"fieldSelector": fields} if fields else {}
        watch_timeout = httpx2.Timeout(10.0, read=WATCH_SILENCE)
        headers = {"Accept": METADATA_ONLY} if metadata_only else {}
        async with self._client.stream(
            "GET", kind.path(namespace), params=params, headers=headers, timeout=watch_timeout
        ) as response:
            if response.status_code != 200:
                await response.aread()
                error = _error_of(response)
                raise WatchExpiredError(str(error)) if error.code == HTTPStatus.GONE else error
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
        """Send a request, and retry it after a transient error.

        Every request can be repeated: created objects have fixed names, and changes name the resource version.
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
        for attempt in range(self._attempts):
            if attempt:
                span.set_attribute("http.request.resend_count", attempt)
            try:
                response = await self._client.request(method, path, params=params, content=content, headers=headers)
            except httpx2.TransportError as failure:
                message = f"the API server does not answer: {type(failure).__name__}"
                error = KubeApiError(message, HTTPStatus.SERVICE_UNAVAILABLE)
                error.__cause__ = failure
            else:
                span.set_attribute("http.response.status_code", response.status_code)
                if response.status_code < HTTPStatus.BAD_REQUEST:
                    self.clock.observe_date(response.headers.get("Date"))
                    document = parsed_object(response.content) if response.content else {}
                    if document is None:
                        message = "the response of the API server cannot be read"
                        raise KubeApiError(message, HTTPStatus.BAD_GATEWAY, retry_after=60)
                    return document
                error = _error_of(response, method)
                if not error.transient:
                    raise error
            if attempt == self._attempts - 1:
                raise error
            # Full jitter, so that replicas that were refused together do not retry together.
            longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2**attempt)
            await self._pause(self._chance() * longest + min(error.retry_after or 0.0, LONGEST_PAUSE))
        raise AssertionError("the last attempt returns or raises")


async def collect(documents: AsyncIterable[Item]) -> list[Item]:
    """Return all items of an asynchronous iterator."""
    return [document async for document in documents]


async def _lines(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield whole lines as soon as each is received; drop an incomplete line of a broken connection."""
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
    """Return the plural name of the kind in a path, without names of objects."""
    parts = path.strip("/").split("/")
    segments = parts[2:] if parts[0] == "api" else parts[3:]
    segments = segments[2:] if segments[:1] == ["namespaces"] and len(segments) > 2 else segments
    return segments[0] if segments else "kubernetes"


def _error_of(response: httpx2.Response, method: str = "GET") -> KubeApiError:
    status = parsed_object(response.content) or {}
    message = text(status, "message") or response.text[:300] or response.reason_phrase
    code, reason = response.status_code, text(status, "reason")
    if method == "POST" and (code, reason) == (HTTPStatus.CONFLICT, "Conflict"):
        # A create depends on no resource version: another object was counted in its quota at the same time.
        code = HTTPStatus.SERVICE_UNAVAILABLE
    return KubeApiError(message, code, reason, retry_after=_retry_after(response))


def _retry_after(response: httpx2.Response) -> float | None:
    value = response.headers.get("Retry-After", "")
    return float(value) if value.isdigit() and len(value) < 6 else None
