"""The selectors of Fargate profiles, and the pods that the webhook of their profile missed.

EKS marks the pods of a profile by a webhook, which may not know the profile in its first moments
(aws/karpenter-provider-aws#7455). A pod that is created then is never marked: it waits for a node for ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import namespace
from agentenv.core.values.object_fields import Document, rows, section, text
from agentenv.core.values.timestamps import parse_timestamp

if TYPE_CHECKING:
    from agentenv.config.sections.cluster import Cluster
    from agentenv.config.settings import Settings

SCHEDULER: Final = "fargate-scheduler"
# From then on a pod that no scheduler has placed is replaced.
WAITED: Final = timedelta(minutes=5)


@dataclass(frozen=True)
class Selector:
    """A namespace and labels of pods."""

    namespace: str
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


# The controllers that must run before there are nodes, and the agent-sandbox controller, which may run on system nodes
# instead. Each has its own profile, because profiles are immutable: adding a controller then replaces no profile.
CONTROLLERS: Mapping[str, Selector] = {
    "coredns": Selector("kube-system", {"k8s-app": "kube-dns"}),
    "karpenter": Selector("karpenter"),
    "agent-sandbox": Selector("agent-sandbox-system"),
}


def controllers(cluster: Cluster) -> tuple[str, ...]:
    """Return the controllers that run on Fargate. CoreDNS of an existing cluster stays with its owner."""
    elsewhere = {
        *(("coredns",) if cluster.existing else ()),
        *(("agent-sandbox",) if cluster.sandbox_controller.place != "fargate" else ()),
    }
    return tuple(name for name in CONTROLLERS if name not in elsewhere)


def class_selector(name: str) -> Selector:
    """Return the selector of a class on Fargate; it never selects a whole namespace of sandboxes."""
    return Selector(namespace(name), {CLASS_LABEL: name})


def selectors(settings: Settings) -> Sequence[Selector]:
    """Return the selectors of all profiles of an environment."""
    classes = [each.name for each in settings.sandbox_classes if each.compute == "fargate"]
    return [*(CONTROLLERS[name] for name in controllers(settings.cluster)), *map(class_selector, classes)]


def is_missed(pod: Document, now: datetime) -> bool:
    """Return whether a pod that a profile selects was missed, and has waited for too long.

    A pod without a controller is not missed: nobody would create it again.
    """
    metadata, spec = section(pod, "metadata"), section(pod, "spec")
    created = parse_timestamp(metadata.get("creationTimestamp"))
    return (
        created is not None
        and now - created >= WAITED
        and text(section(pod, "status"), "phase") == "Pending"
        and not text(spec, "nodeName")
        and text(spec, "schedulerName") != SCHEDULER
        and "deletionTimestamp" not in metadata
        and any(owner.get("controller") is True for owner in rows(metadata, "ownerReferences"))
    )
