"""Discovery of the kinds that the API server has: their paths and scopes."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from agentenv.rehearsal.providers.kubernetes.client import ApiError, Client

MIN_REFRESH_INTERVAL: Final = 1.0  # seconds: many operations may miss the same kind at once, one of them asks

# Where no server can be asked, only these are without a namespace (group, kind).
CLUSTER_WIDE: Final = frozenset(
    {
        ("", "Namespace"),
        ("", "Node"),
        ("", "PersistentVolume"),
        ("", "ComponentStatus"),
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"),
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"),
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("apiregistration.k8s.io", "APIService"),
        ("authentication.k8s.io", "SelfSubjectReview"),
        ("authentication.k8s.io", "TokenReview"),
        ("authorization.k8s.io", "SelfSubjectAccessReview"),
        ("authorization.k8s.io", "SelfSubjectRulesReview"),
        ("authorization.k8s.io", "SubjectAccessReview"),
        ("certificates.k8s.io", "CertificateSigningRequest"),
        ("certificates.k8s.io", "ClusterTrustBundle"),
        ("flowcontrol.apiserver.k8s.io", "FlowSchema"),
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"),
        ("networking.k8s.io", "IngressClass"),
        ("networking.k8s.io", "IPAddress"),
        ("networking.k8s.io", "ServiceCIDR"),
        ("node.k8s.io", "RuntimeClass"),
        ("rbac.authorization.k8s.io", "ClusterRole"),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
        ("resource.k8s.io", "DeviceClass"),
        ("resource.k8s.io", "ResourceSlice"),
        ("scheduling.k8s.io", "PriorityClass"),
        ("storage.k8s.io", "CSIDriver"),
        ("storage.k8s.io", "CSINode"),
        ("storage.k8s.io", "StorageClass"),
        ("storage.k8s.io", "VolumeAttachment"),
        ("storage.k8s.io", "VolumeAttributesClass"),
    }
)


class UnknownKind(Exception):
    """The API server does not have this kind (yet)."""


@dataclass(frozen=True)
class Kind:
    """A kind of the API server."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool
    verbs: frozenset[str]

    @property
    def group(self) -> str:
        return group_of(self.api_version)

    def path(self, namespace: str = "", name: str = "") -> str:
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        place = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{root}{place}/{self.plural}" + (f"/{name}" if name else "")


def canonical(api_version: str) -> str:
    """Return the API version for the server: `core/v1` in a type token is `v1`."""
    return api_version.removeprefix("core/")


def group_of(api_version: str) -> str:
    group, _, version = canonical(api_version).rpartition("/")
    return group if version else ""


def scope(api_version: str, kind: str) -> bool | None:
    """Return whether the kind is namespaced, as far as known without a server."""
    group = group_of(api_version)
    if (group, kind) in CLUSTER_WIDE:
        return False
    return True if "." not in group else None


class Discovery:
    """A cache of the server's kinds by group version, refreshed when a kind is missing."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._known: dict[str, dict[str, Kind]] = {}
        self._requested_at: dict[str, float] = {}
        self._announced: dict[tuple[str, str], bool] = {}

    def find(self, api_version: str, kind: str) -> Kind:
        """Return the kind. If it is missing, its group version is read again, at most once a second."""
        version = canonical(api_version)
        with self._lock:
            known_kind = self._known.get(version, {}).get(kind)
            recently = time.monotonic() - self._requested_at.get(version, float("-inf")) < MIN_REFRESH_INTERVAL
        if known_kind is not None:
            return known_kind
        if not recently:
            kinds = self._discover(version)
            with self._lock:
                self._known[version] = kinds
                self._requested_at[version] = time.monotonic()
            if kind in kinds:
                return kinds[kind]
        raise UnknownKind(f'no matches for kind "{kind}" in version "{version}"')

    def forget(self) -> None:
        """Clear the cache after a CustomResourceDefinition was created or deleted."""
        with self._lock:
            self._known.clear()
            self._requested_at.clear()

    def register_definition(self, definition: Mapping[str, Any]) -> None:
        """Register a CustomResourceDefinition of the program, whose scope is known before the server has it."""
        spec = definition.get("spec")
        if isinstance(spec, Mapping) and isinstance(spec.get("names"), Mapping):
            key = (str(spec.get("group")), str(spec["names"].get("kind")))
            with self._lock:
                self._announced[key] = spec.get("scope") != "Cluster"

    def namespaced(self, api_version: str, kind: str, *, fetch: bool = True) -> bool | None:
        """Return whether the kind is namespaced, or None if that is unknown."""
        plain = scope(api_version, kind)
        if plain is False:
            return False
        if fetch:
            try:
                return self.find(api_version, kind).namespaced
            except UnknownKind:
                pass
        with self._lock:
            return self._announced.get((group_of(api_version), kind), plain)

    def versions(self) -> tuple[str, ...]:
        """Return every API version and kind of the server, in the form that charts use."""
        groups = self._client.request("GET", "/apis").get("groups") or []
        return ("v1", *(str(v["groupVersion"]) for group in groups for v in group.get("versions") or []))

    def _discover(self, version: str) -> dict[str, Kind]:
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        try:
            listed = self._client.request("GET", root)
        except ApiError as error:
            if error.not_found:
                return {}
            raise
        return {
            str(item["kind"]): Kind(
                version, str(item["kind"]), str(item["name"]), bool(item["namespaced"]), frozenset(item["verbs"])
            )
            for item in listed.get("resources") or []
            if "/" not in item["name"]
        }
