"""The SandboxTemplate of a release: the hardened pod, and the claim of each sandbox's home.

A template never changes. Its name has the hash of its contents, so a change creates another template: the controller
does not update claimed sandboxes, and one whose template was deleted or changed is never Ready again.
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
    """Return the hash that names a release: it differs if and only if the template's spec does.

    It is taken from the first shard; the others only differ in the name of their StorageClass.
    """
    text = json.dumps(template_spec(plan, image, pod_labels(plan)), sort_keys=True, separators=(",", ":"))
    return b32encode(hashlib.sha256(text.encode()).digest()).decode().lower()[:HASH_LENGTH]


def template(plan: ClassPlan, release: Release, shard: int, labels: Mapping[str, str]) -> Plain:
    """Return a release's template for one shard; `labels` are those of the object and not part of the hash."""
    pods = {**pod_labels(plan), RELEASE_LABEL: release.hash}
    return {
        "apiVersion": EXTENSIONS,
        "kind": "SandboxTemplate",
        "metadata": {"name": release.name(shard), "namespace": namespace(plan.name), "labels": dict(labels)},
        "spec": template_spec(plan, release.image, pods, shard),
    }


def template_spec(plan: ClassPlan, image: str, labels: Mapping[str, str], shard: int = 0) -> Plain:
    """Return the `spec` of a template."""
    homes = [home_claim(plan, shard)] if plan.slots else []
    return {
        "podTemplate": {"metadata": {"labels": dict(labels)}, "spec": pod_spec(plan, image)},
        **({"volumeClaimTemplates": homes} if homes else {}),
        # Sandboxes need no DNS name: the workspace service reads their addresses.
        "service": False,
        # The class has its own NetworkPolicy. The controller's would be added to it and allows the internet.
        "networkPolicyManagement": "Unmanaged",
        "envVarsInjectionPolicy": "Allowed" if plan.settings.claim_env else "Disallowed",
        "volumeClaimTemplatesPolicy": "Disallowed",
    }


def seat_spec(plan: ClassPlan) -> Plain:
    """Return what a declared seat of the class is: its stable release, with the seat's volume as its home."""
    pod = pod_spec(plan, plan.settings.image, seat=True)
    return {"podTemplate": {"metadata": {"labels": pod_labels(plan)}, "spec": pod}, "service": False}


def pod_labels(plan: ClassPlan) -> dict[str, str]:
    """Return the labels of every pod of the class, whatever its release."""
    return {CLASS_LABEL: plan.name, TIER_LABEL: plan.settings.tier, **owner_labels(plan)}


def home_claim(plan: ClassPlan, shard: int) -> Plain:
    """Return the claim of a home: an access point below the class's folder, created with the sandbox."""
    return {
        "metadata": {"name": HOME, "labels": {CLASS_LABEL: plan.name}},
        "spec": {
            # EFS volumes are not attached to a node, so none has to detach them first.
            "accessModes": ["ReadWriteMany"],
            "storageClassName": storage_class(plan.name, shard),
            "resources": {"requests": {"storage": str(plan.settings.storage.size)}},
        },
    }
