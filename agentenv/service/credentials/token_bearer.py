"""Who brings a token: the pod that the API server made it for, and the workspace that this pod is of, at this moment.

Nothing is believed of a token but what the API server says of it, and nothing is remembered: each exchange looks up the
pod, its sandbox and its claim, each by uid. So whoever brings the token of a pod that went, of a sandbox that nobody
has claimed, or of a claim that has ended, gets nothing.
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
from agentenv.core.workspaces.workspace import DEADLINE
from agentenv.service.kube.sync_client import CLAIMS, PODS, SANDBOXES, Document, Kind, KubeApi, section

# What the API server says of a token that is bound to a pod.
_POD_NAME, _POD_UID = "authentication.kubernetes.io/pod-name", "authentication.kubernetes.io/pod-uid"
_ACCOUNT_PREFIX = "system:serviceaccount:"
_SPACE_PREFIX = "sandbox-"
# Tokens are about a thousand characters long; what is much longer is none, and need not be carried on.
LONGEST_TOKEN = 8192


class RefusedExchangeError(Exception):
    """Nothing is exchanged. `why` is one of a few words, for counting; the message is for whoever reads the log.

    The caller is told no more than that: who tries tokens out learns nothing of what there is.
    """

    def __init__(self, why: str, message: str, **facts: str) -> None:
        super().__init__(message)
        self.why = why
        self.facts: Mapping[str, str] = facts


class Reviewer(Protocol):
    """Who knows whose a token is: the API server."""

    def review(self, token: str, audience: str) -> Document:
        """The status of a TokenReview."""
        ...


@dataclass(frozen=True)
class Bearer:
    """The pod that a token is bound to."""

    namespace: str
    pod: str
    pod_uid: str


@dataclass(frozen=True)
class VerifiedHolder:
    """Whose a token is."""

    bearer: Bearer
    holder: Holder
    claim: str  # its uid
    deadline: datetime | None


def verify_token(reviewer: Reviewer, token: str) -> Bearer:
    """The pod that a token was made for."""
    if not token or len(token) > LONGEST_TOKEN or not token.isascii():
        raise RefusedExchangeError("no-token", "there is no token, or something that is none")
    status = reviewer.review(token, AUDIENCE)
    if status.get("authenticated") is not True or status.get("error"):
        # Forged, expired, of another audience, of a pod or an account that went: the API server does not say which.
        raise RefusedExchangeError("token", str(status.get("error") or "the API server does not know the token"))
    # A server that does not know audiences leaves them out, and would have taken a token for anybody.
    if AUDIENCE not in _texts(status.get("audiences")):
        raise RefusedExchangeError("audience", "the token was not made for the exchange")
    user = section(status, "user")
    namespace, _, account = text(user, "username").removeprefix(_ACCOUNT_PREFIX).partition(":")
    extra = section(user, "extra")
    pods, uids = _texts(extra.get(_POD_NAME)), _texts(extra.get(_POD_UID))
    if not text(user, "username").startswith(_ACCOUNT_PREFIX) or account != SANDBOX:
        raise RefusedExchangeError("account", "the token is not of a sandbox's account")
    if not namespace.startswith(_SPACE_PREFIX):
        raise RefusedExchangeError("account", "the token is of an account outside the namespaces of classes")
    if len(pods) != 1 or len(uids) != 1:
        raise RefusedExchangeError("unbound", "the token is bound to no pod", namespace=namespace)
    return Bearer(namespace, pods[0], uids[0])


def verify_holder(cluster: KubeApi, bearer: Bearer, source: str, now: datetime) -> VerifiedHolder:
    """Whose sandbox a pod is, where it is one that is claimed, runs, and itself asks from its own address."""
    facts = {"namespace": bearer.namespace, "pod": bearer.pod}
    pod = cluster.find(PODS, bearer.pod, bearer.namespace)
    if pod is None or pod["metadata"]["uid"] != bearer.pod_uid:
        raise RefusedExchangeError("pod", "the token's pod is not there any more", **facts)
    if pod["metadata"].get("deletionTimestamp") or section(pod, "status").get("phase") != "Running":
        raise RefusedExchangeError("pod", "the token's pod does not run", **facts)
    if _address(source) not in _addresses(pod):
        raise RefusedExchangeError("address", "somebody else brings the token of the pod", source=source, **facts)
    sandbox = _owner(cluster, pod, SANDBOXES, "Sandbox", bearer.namespace)
    if sandbox is None:
        raise RefusedExchangeError("sandbox", "the pod is of no sandbox", **facts)
    claim = _owner(cluster, sandbox, CLAIMS, "SandboxClaim", bearer.namespace)
    if claim is None:
        raise RefusedExchangeError("unclaimed", "nobody has claimed the sandbox", **facts)
    about = claim["metadata"]
    if about.get("deletionTimestamp") or section(sandbox, "spec").get("operatingMode") == "Suspended":
        raise RefusedExchangeError("ended", "the claim has ended, or its workspace is to sleep", **facts)
    if section(section(claim, "status"), "sandbox").get("name") != required(sandbox, "metadata", "name"):
        raise RefusedExchangeError("sandbox", "the claim has another sandbox", **facts)
    ends = _ends(claim)
    if ends is not None and ends <= now:
        raise RefusedExchangeError("ended", "the workspace's time is over", **facts)
    labels = strings(section(section(claim, "spec"), "additionalPodMetadata"), "labels")
    owner = labels.get(USER_LABEL)
    # What the pod says of itself has to be what its claim says: a label that was changed since is no owner.
    if not owner or section(section(pod, "metadata"), "labels").get(USER_LABEL) != owner:
        raise RefusedExchangeError("owner", "pod and claim do not say the same of their owner", **facts)
    workspace = labels.get(WORKSPACE_LABEL) or about["name"]
    holder = Holder(owner, bearer.namespace.removeprefix(_SPACE_PREFIX), workspace)
    return VerifiedHolder(bearer, holder, about["uid"], ends)


def _ends(claim: Document) -> datetime | None:
    """When a claim ends, by whichever of its ends is first."""
    ends = (
        parse_timestamp(section(section(claim, "metadata"), "annotations").get(DEADLINE)),
        parse_timestamp(section(section(claim, "spec"), "lifecycle").get("shutdownTime")),
    )
    return min((end for end in ends if end is not None), default=None)


def _owner(cluster: KubeApi, thing: Document, kind: Kind, word: str, namespace: str) -> Document | None:
    """What controls a thing, where it is of a kind: the very one, and not another of its name."""
    for owner in rows(section(thing, "metadata"), "ownerReferences"):
        name, uid = text(owner, "name"), text(owner, "uid")
        if owner.get("controller") is True and owner.get("kind") == word and name and uid:
            found = cluster.find(kind, name, namespace)
            if text(section(found, "metadata"), "uid") == uid:
                return found
    return None


def _texts(value: object) -> list[str]:
    """The strings of a list, where all that it holds are strings."""
    listed = cast("list[object]", value) if isinstance(value, list) else []
    texts = [one for one in listed if is_text(one)]
    return texts if len(texts) == len(listed) else []


def _addresses(pod: Document) -> set[IPv4Address | IPv6Address]:
    if section(pod, "spec").get("hostNetwork"):
        return set()  # its address is its node's, and everybody's there
    return {found for one in rows(section(pod, "status"), "podIPs") if (found := _address(text(one, "ip"))) is not None}


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        found = ip_address(text)
    except ValueError:
        return None
    # A socket for both kinds writes the one as the other.
    return (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found
