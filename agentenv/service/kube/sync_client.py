"""The Kubernetes API as the service speaks it: the kinds it knows, as the plain documents that they are.

Built on lightkube, which has the ways in (a kubeconfig, a command that fetches tokens, a pod's own account), the pages
of long lists, and the same calls for coroutines and for threads. Whoever changes something says which version of it was
read, and is told where somebody else was quicker.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol

import httpx2
from lightkube import ALL_NS, ApiError, Client, KubeConfig, generic_resource
from lightkube.core.resource import NamespacedResource
from lightkube.types import PatchType

from agentenv.core.values.object_fields import Document, section

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Document", "section"]

# Who is seen to own the fields that the service sets.
MANAGER = "agentenv"
# Sandboxes are twelve kilobytes each, and eight times that as they are read: of more at once a pass is mostly that.
PAGE = 50

# The library says of its own types less than a checker wants to know.
_kinds: Any = generic_resource
_configurations: Any = KubeConfig
_EXTENSIONS = ("extensions.agents.x-k8s.io", "v1beta1")
TEMPLATES = _kinds.create_namespaced_resource(*_EXTENSIONS, "SandboxTemplate", "sandboxtemplates")
POOLS = _kinds.create_namespaced_resource(*_EXTENSIONS, "SandboxWarmPool", "sandboxwarmpools")
CLAIMS = _kinds.create_namespaced_resource(*_EXTENSIONS, "SandboxClaim", "sandboxclaims")
SANDBOXES = _kinds.create_namespaced_resource("agents.x-k8s.io", "v1beta1", "Sandbox", "sandboxes")
VOLUME_CLAIMS = _kinds.create_namespaced_resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
PODS = _kinds.create_namespaced_resource("", "v1", "Pod", "pods")
QUOTAS = _kinds.create_namespaced_resource("", "v1", "ResourceQuota", "resourcequotas")
CONFIGURATIONS = _kinds.create_namespaced_resource("", "v1", "ConfigMap", "configmaps")
LEASES = _kinds.create_namespaced_resource("coordination.k8s.io", "v1", "Lease", "leases")
EVENTS = _kinds.create_namespaced_resource("", "v1", "Event", "events")
NAMESPACES = _kinds.create_global_resource("", "v1", "Namespace", "namespaces")
VOLUMES = _kinds.create_global_resource("", "v1", "PersistentVolume", "persistentvolumes")
_REVIEWS = _kinds.create_global_resource("authentication.k8s.io", "v1", "TokenReview", "tokenreviews")

Kind = type[Any]


class SyncKubeApiError(Exception):
    """The API server refused something; the message is its own, and so is the code. Or it did not answer: 503."""

    def __init__(self, message: str, code: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason

    @property
    def transient(self) -> bool:
        """Whether it is the server that cannot just now, and not the request that is wrong."""
        return self.code == 429 or self.code >= 500


class KubeApi(Protocol):
    """What the service's work needs of an API server."""

    def list(
        self, kind: Kind, namespace: str | None = None, labels: Mapping[str, str | None] | None = None
    ) -> Iterator[Document]:
        """All of a kind, in one namespace or in all; a label of None only has to be there."""
        ...

    def find(self, kind: Kind, name: str, namespace: str | None = None) -> Document | None:
        """One of them, if it is there."""
        ...

    def create(self, kind: Kind, document: Document) -> bool:
        """Make it; False where one of its name is there already."""
        ...

    def patch(self, kind: Kind, existing: Document, changes: Document) -> bool:
        """Merge changes into what was read; False where it is another by now, or gone."""
        ...

    def delete(self, kind: Kind, existing: Document) -> bool:
        """Delete what was read; False where it is another by now, or gone."""
        ...


class SyncKubeClient(KubeApi):
    """One API server."""

    def __init__(self, config: KubeConfig) -> None:
        self._client: Any = _PreconditionClient(config, field_manager=MANAGER)

    @classmethod
    def from_kubeconfig(cls, path: Path) -> SyncKubeClient:
        """The one that a kubeconfig file leads to, by the context that it has chosen."""
        return cls(KubeConfig.from_file(path))

    @classmethod
    def from_kubeconfig_document(cls, document: Mapping[str, Any]) -> SyncKubeClient:
        """The one that a kubeconfig leads to."""
        return cls(_configurations.from_dict(dict(document)))

    @classmethod
    def from_service_account(cls) -> SyncKubeClient:
        """The one that this process runs in, as its service account."""
        return cls(KubeConfig.from_service_account())

    def close(self) -> None:
        """Let go of its connections."""
        self._client.close()

    def list(
        self, kind: Kind, namespace: str | None = None, labels: Mapping[str, str | None] | None = None
    ) -> Iterator[Document]:
        """All of a kind, in one namespace or in all; a label of None only has to be there."""
        chosen: Any = dict(labels) if labels else None
        with _translated_errors():
            objects: Any = self._client.list(
                kind, labels=chosen, chunk_size=PAGE, **_namespace_argument(kind, namespace or ALL_NS)
            )
            for item in objects:
                yield _without_managed_fields(item)

    def find(self, kind: Kind, name: str, namespace: str | None = None) -> Document | None:
        """One of them, if it is there."""
        try:
            with _translated_errors():
                return dict(self._client.get(kind, name, **_namespace_argument(kind, namespace)))
        except SyncKubeApiError as refusal:
            if refusal.code == HTTPStatus.NOT_FOUND:
                return None
            raise

    def create(self, kind: Kind, document: Document) -> bool:
        """Make it; False where one of its name is there already."""
        try:
            with _translated_errors():
                self._client.create(kind(document), **_namespace_argument(kind, document["metadata"].get("namespace")))
        except SyncKubeApiError as refusal:
            if refusal.code != HTTPStatus.CONFLICT:
                raise
            if refusal.reason == "AlreadyExists":
                return False
            # Nothing of ours was read that could be old: others were counted in its quota at the same moment.
            raise SyncKubeApiError(str(refusal), HTTPStatus.SERVICE_UNAVAILABLE, refusal.reason) from refusal
        return True

    def patch(self, kind: Kind, existing: Document, changes: Document) -> bool:
        """Merge changes into what was read; False where it is another by now, or gone."""
        metadata = existing["metadata"]
        version = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        merged = {**changes, "metadata": {**changes.get("metadata", {}), **version}}
        location = _namespace_argument(kind, metadata.get("namespace"))
        return _applies(
            lambda: self._client.patch(kind, metadata["name"], merged, patch_type=PatchType.MERGE, **location)
        )

    def review(self, token: str, audience: str) -> Document:
        """What the API server says of a token that was made for an audience."""
        review = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [audience]},
        }
        with _translated_errors():
            return section(dict(self._client.create(_REVIEWS(review))), "status")

    def delete(self, kind: Kind, existing: Document) -> bool:
        """Delete what was read; False where it is another by now, or gone."""
        metadata = existing["metadata"]
        return _applies(lambda: self._client.delete_as_read(kind, metadata))


def _without_managed_fields(resource: Any) -> Document:
    """A document of many: without who last wrote which of its fields, which is half of it and of no use to a pass."""
    document: Document = dict(resource)
    section(document, "metadata").pop("managedFields", None)
    return document


def _namespace_argument(kind: Kind, namespace: str | None) -> dict[str, Any]:
    """What a call is told of the namespace; nothing for kinds that have none."""
    return {"namespace": namespace} if issubclass(kind, NamespacedResource) else {}


def _applies(request: Callable[[], object]) -> bool:
    """Whether what was read is still there as it was."""
    try:
        with _translated_errors():
            request()
    except SyncKubeApiError as refusal:
        if refusal.code in {HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT}:
            return False
        raise
    return True


@contextlib.contextmanager
def _translated_errors() -> Generator[None]:
    """Whatever the client raises is told in one way, also that nobody answered."""
    try:
        yield
    except ApiError as refusal:
        raise SyncKubeApiError(str(refusal), refusal.status.code or 0, refusal.status.reason or "") from refusal
    except httpx2.HTTPStatusError as refusal:
        raise SyncKubeApiError(str(refusal), refusal.response.status_code) from refusal
    except httpx2.HTTPError as failure:
        why = f"the API server does not answer: {type(failure).__name__}"
        raise SyncKubeApiError(why, HTTPStatus.SERVICE_UNAVAILABLE) from failure


class _PreconditionClient(Client):
    """A client that can also delete a thing only if it is as it was read."""

    def delete_as_read(self, kind: Kind, metadata: Mapping[str, Any]) -> None:
        inner: Any = self._client
        request = inner.prepare_request("delete", kind, name=metadata["name"], namespace=metadata.get("namespace"))
        request.data = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
        }
        inner.raise_for_status(inner.send(inner.build_adapter_request(request)))
