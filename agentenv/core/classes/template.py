"""The SandboxTemplate of a release: the hardened pod, and the volume that each sandbox is born with.

A template never changes. Its name holds the hash of everything in it, so that a change makes another one beside it:
upstream rolls no claimed sandbox, and one whose template went away or changed is never Ready again.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b32encode
from typing import TYPE_CHECKING, Any

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import EXTENSIONS, HOME, RELEASE_LABEL, namespace, owner_labels, storage_class
from agentenv.core.classes.pods.pod import pod_spec
from agentenv.core.nodes.tiers import TIER_LABEL
from agentenv.core.values.names import HASH_LENGTH

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentenv.core.classes.plan import ClassPlan
    from agentenv.core.classes.releases import Release

Plain = dict[str, Any]


def release_hash(plan: ClassPlan, image: str) -> str:
    """What names a release: it differs where anything in the template does, and for nothing else.

    Taken of the first shard: the others differ from it in the name of a StorageClass, which follows.
    """
    text = json.dumps(template_spec(plan, image, pod_labels(plan)), sort_keys=True, separators=(",", ":"))
    return b32encode(hashlib.sha256(text.encode()).digest()).decode().lower()[:HASH_LENGTH]


def template(plan: ClassPlan, release: Release, shard: int, labels: Mapping[str, str]) -> Plain:
    """The document of a release's template for one shard; `labels` are the object's own, which are in no hash."""
    pods = {**pod_labels(plan), RELEASE_LABEL: release.hash}
    return {
        "apiVersion": EXTENSIONS,
        "kind": "SandboxTemplate",
        "metadata": {"name": release.name(shard), "namespace": namespace(plan.name), "labels": dict(labels)},
        "spec": template_spec(plan, release.image, pods, shard),
    }


def template_spec(plan: ClassPlan, image: str, labels: Mapping[str, str], shard: int = 0) -> Plain:
    """What a sandbox of the class is."""
    homes = [home_claim(plan, shard)] if plan.slots else []
    return {
        "podTemplate": {"metadata": {"labels": dict(labels)}, "spec": pod_spec(plan, image)},
        **({"volumeClaimTemplates": homes} if homes else {}),
        # Nothing is reached by a name of its own: the service asks for the address.
        "service": False,
        # The one policy of the class is ours. Upstream's would be added to it, and is open to the internet.
        "networkPolicyManagement": "Unmanaged",
        "envVarsInjectionPolicy": "Allowed" if plan.settings.claim_env else "Disallowed",
        "volumeClaimTemplatesPolicy": "Disallowed",
    }


def seat_spec(plan: ClassPlan) -> Plain:
    """Return what a declared seat of the class is: its stable release, with the seat's volume as its home."""
    pod = pod_spec(plan, plan.settings.image, seat=True)
    return {"podTemplate": {"metadata": {"labels": pod_labels(plan)}, "spec": pod}, "service": False}


def pod_labels(plan: ClassPlan) -> dict[str, str]:
    """The labels of every pod of the class, whatever its release."""
    return {CLASS_LABEL: plan.name, TIER_LABEL: plan.settings.tier, **owner_labels(plan)}


def home_claim(plan: ClassPlan, shard: int) -> Plain:
    """The claim for a home: an access point of its own below the class's folder, made when the sandbox is."""
    return {
        "metadata": {"name": HOME, "labels": {CLASS_LABEL: plan.name}},
        "spec": {
            # A file system of the network: no node holds it, so none has to let go of it first.
            "accessModes": ["ReadWriteMany"],
            "storageClassName": storage_class(plan.name, shard),
            "resources": {"requests": {"storage": str(plan.settings.storage.size)}},
        },
    }
