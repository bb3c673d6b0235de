"""Verify who presents a token: the pod it is bound to, and the workspace of that pod at this moment.

Only the API server's TokenReview is trusted, and nothing is cached: each exchange looks up pod, sandbox and claim by
uid. A token of a deleted pod, of an unclaimed sandbox, or of an ended claim is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Protocol, cast

from agentenv.core.classes.names import SANDBOX, USER_LABEL, WORKSPACE_LABEL
from agentenv.core.iam.identity_exchange import AUDIENCE, Holder
from agentenv.core.values.object_fields import is_text, required, rows, strings, text
from agentenv.core.values.timestamps import parse_timestamp
from agentenv.core.workspaces.grants import read_grants
from agentenv.core.workspaces.workspace import DEADLINE, GRANTS
from agentenv.service.kube.client import CLAIMS, PODS, SANDBOXES, Document, Kind, KubeApi, section

# The fields of a token review for a token that is bound to a pod.
_POD_NAME, _POD_UID = "authentication.kubernetes.io/pod-name", "authentication.kubernetes.io/pod-uid"
_ACCOUNT_PREFIX = "system:serviceaccount:"
_NAMESPACE_PREFIX = "sandbox-"
# Tokens are about a thousand characters long.
LONGEST_TOKEN = 8192


class RefusedExchangeError(Exception):
    """The exchange is refused. `why` is a short reason for metrics; the message is for the log.

    The caller learns no more than the refusal: trying tokens out must not reveal what exists.
    """

    def __init__(self, why: str, message: str, **facts: str) -> None:
        super().__init__(message)
        self.why = why
        self.facts: Mapping[str, str] = facts


class Reviewer(Protocol):
    """Reviews tokens: the API server."""

    async def review(self, token: str, audience: str) -> Document:
        """Return the status of a TokenReview."""
        ...


@dataclass(frozen=True)
class Bearer:
    """The pod that a token is bound to."""

    namespace: str
    pod: str
    pod_uid: str


@dataclass(frozen=True)
class VerifiedHolder:
    """The owner and workspace of a verified token."""

    bearer: Bearer
    holder: Holder
    claim: str  # its uid
    deadline: datetime | None


async def verify_token(reviewer: Reviewer, token: str) -> Bearer:
    """Return the pod that a token is bound to."""
    if not token or len(token) > LONGEST_TOKEN or not token.isascii():
        raise RefusedExchangeError("no-token", "the request has no token, or a malformed one")
    status = await reviewer.review(token, AUDIENCE)
    if status.get("authenticated") is not True or status.get("error"):
        # Forged, expired, for another audience, or of a deleted pod or account: the API server does not say which.
        raise RefusedExchangeError("token", str(status.get("error") or "the API server does not accept the token"))
    # A server without support for audiences leaves them out, and accepts a token for any of them.
    if AUDIENCE not in _texts(status.get("audiences")):
        raise RefusedExchangeError("audience", "the token is for another audience than the exchange")
    user = section(status, "user")
    namespace, _, account = text(user, "username").removeprefix(_ACCOUNT_PREFIX).partition(":")
    extra = section(user, "extra")
    pods, uids = _texts(extra.get(_POD_NAME)), _texts(extra.get(_POD_UID))
    if not text(user, "username").startswith(_ACCOUNT_PREFIX) or account != SANDBOX:
        raise RefusedExchangeError("account", "the token is not of a sandbox's service account")
    if not namespace.startswith(_NAMESPACE_PREFIX):
        raise RefusedExchangeError("account", "the token is of a service account outside the namespaces of classes")
    if len(pods) != 1 or len(uids) != 1:
        raise RefusedExchangeError("unbound", "the token is not bound to a pod", namespace=namespace)
    return Bearer(namespace, pods[0], uids[0])


async def verify_holder(cluster: KubeApi, bearer: Bearer, source: str, now: datetime) -> VerifiedHolder:
    """Return whose sandbox a pod is: claimed, running, and requesting from the pod's own address."""
    facts = {"namespace": bearer.namespace, "pod": bearer.pod}
    pod = await cluster.find(PODS, bearer.pod, bearer.namespace)
    if pod is None or pod["metadata"]["uid"] != bearer.pod_uid:
        raise RefusedExchangeError("pod", "the token's pod no longer exists", **facts)
    if pod["metadata"].get("deletionTimestamp") or section(pod, "status").get("phase") != "Running":
        raise RefusedExchangeError("pod", "the token's pod does not run", **facts)
    if _address(source) not in _addresses(pod):
        raise RefusedExchangeError(
            "address", "the token comes from another address than its pod's", source=source, **facts
        )
    sandbox = await _owner(cluster, pod, SANDBOXES, "Sandbox", bearer.namespace)
    if sandbox is None:
        raise RefusedExchangeError("sandbox", "no sandbox controls the pod", **facts)
    claim = await _owner(cluster, sandbox, CLAIMS, "SandboxClaim", bearer.namespace)
    if claim is None:
        raise RefusedExchangeError("unclaimed", "the sandbox is not claimed", **facts)
    metadata = claim["metadata"]
    if metadata.get("deletionTimestamp") or section(sandbox, "spec").get("operatingMode") == "Suspended":
        raise RefusedExchangeError("ended", "the claim is being deleted, or the workspace is suspended", **facts)
    if section(section(claim, "status"), "sandbox").get("name") != required(sandbox, "metadata", "name"):
        raise RefusedExchangeError("sandbox", "the claim has another sandbox", **facts)
    grants = read_grants(section(metadata, "annotations").get(GRANTS))
    if not grants.allows_identity():
        raise RefusedExchangeError("grants", "the workspace was created without the capability `identity`", **facts)
    ends = _ends(claim)
    if ends is not None and ends <= now:
        raise RefusedExchangeError("ended", "the workspace's deadline is over", **facts)
    labels = strings(section(section(claim, "spec"), "additionalPodMetadata"), "labels")
    owner = labels.get(USER_LABEL)
    # The pod's label must match its claim's: it may have been changed since.
    if not owner or section(section(pod, "metadata"), "labels").get(USER_LABEL) != owner:
        raise RefusedExchangeError("owner", "pod and claim name different owners", **facts)
    workspace = labels.get(WORKSPACE_LABEL) or metadata["name"]
    holder = Holder(owner, bearer.namespace.removeprefix(_NAMESPACE_PREFIX), workspace)
    return VerifiedHolder(bearer, holder, metadata["uid"], ends)


def _ends(claim: Document) -> datetime | None:
    """Return when a claim ends, by the earliest of its limits."""
    annotations = section(section(claim, "metadata"), "annotations")
    ends = (
        read_grants(annotations.get(GRANTS)).ends,
        parse_timestamp(annotations.get(DEADLINE)),
        parse_timestamp(section(section(claim, "spec"), "lifecycle").get("shutdownTime")),
    )
    return min((end for end in ends if end is not None), default=None)


async def _owner(cluster: KubeApi, document: Document, kind: Kind, kind_name: str, namespace: str) -> Document | None:
    """Return the controller of an object, where it is of a kind; matched by uid, not only by name."""
    for owner in rows(section(document, "metadata"), "ownerReferences"):
        name, uid = text(owner, "name"), text(owner, "uid")
        if owner.get("controller") is True and owner.get("kind") == kind_name and name and uid:
            controller = await cluster.find(kind, name, namespace)
            if text(section(controller, "metadata"), "uid") == uid:
                return controller
    return None


def _texts(value: object) -> list[str]:
    """Return the strings of a list; an empty list where any item is not a string."""
    listed = cast("list[object]", value) if isinstance(value, list) else []
    texts = [item for item in listed if is_text(item)]
    return texts if len(texts) == len(listed) else []


def _addresses(pod: Document) -> set[IPv4Address | IPv6Address]:
    if section(pod, "spec").get("hostNetwork"):
        return set()  # all pods on the host network share the node's address
    return {
        address
        for entry in rows(section(pod, "status"), "podIPs")
        if (address := _address(text(entry, "ip"))) is not None
    }


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    # A dual-stack socket shows IPv4 peers as mapped addresses.
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address
