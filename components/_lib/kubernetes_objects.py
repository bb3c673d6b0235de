"""Creates Kubernetes objects from the documents of `agentenv.core`, each as a resource of its own kind.

A document may contain outputs that are not known yet, so nothing here reads its values.
"""

from collections.abc import Callable
from typing import Any

import pulumi
from pulumi_kubernetes.admissionregistration import v1 as admission
from pulumi_kubernetes.apiextensions import CustomResource
from pulumi_kubernetes.apps import v1 as apps
from pulumi_kubernetes.batch import v1 as batch
from pulumi_kubernetes.core import v1 as core
from pulumi_kubernetes.networking import v1 as networking
from pulumi_kubernetes.policy import v1 as policy
from pulumi_kubernetes.rbac import v1 as rbac
from pulumi_kubernetes.scheduling import v1 as scheduling
from pulumi_kubernetes.storage import v1 as storage

from agentenv.components._lib.options import ChildOptions

Document = dict[str, Any]

KINDS: dict[str, Callable[..., pulumi.Resource]] = {
    "ClusterRole": rbac.ClusterRole,
    "ClusterRoleBinding": rbac.ClusterRoleBinding,
    "ConfigMap": core.ConfigMap,
    "CronJob": batch.CronJob,
    "Deployment": apps.Deployment,
    "LimitRange": core.LimitRange,
    "Namespace": core.Namespace,
    "NetworkPolicy": networking.NetworkPolicy,
    "PodDisruptionBudget": policy.PodDisruptionBudget,
    "PriorityClass": scheduling.PriorityClass,
    "ResourceQuota": core.ResourceQuota,
    "Role": rbac.Role,
    "RoleBinding": rbac.RoleBinding,
    "Service": core.Service,
    "ServiceAccount": core.ServiceAccount,
    "StorageClass": storage.StorageClass,
    "ValidatingAdmissionPolicy": admission.ValidatingAdmissionPolicy,
    "ValidatingAdmissionPolicyBinding": admission.ValidatingAdmissionPolicyBinding,
}
# Patch resources are created by server-side apply, so an object that already exists is not an error.
PATCHES: dict[str, Callable[..., pulumi.Resource]] = {
    "ValidatingAdmissionPolicy": admission.ValidatingAdmissionPolicyPatch,
    "ValidatingAdmissionPolicyBinding": admission.ValidatingAdmissionPolicyBindingPatch,
}
FIELD_MANAGER = {"pulumi.com/patchFieldManager": "agent-environment"}


def create_object(
    name: str, document: Document, child: ChildOptions, more: pulumi.ResourceOptions | None = None
) -> Any:
    """Create the object that a document describes; a kind that is not built into Kubernetes is a custom resource."""
    kind = KINDS.get(document["kind"])
    if kind is None:
        return CustomResource(
            name,
            api_version=document["apiVersion"],
            kind=document["kind"],
            metadata=document["metadata"],
            spec=document["spec"],
            opts=child(more),
        )
    return kind(name, **_properties(document), opts=child(more))


def create_or_take_over(
    name: str, document: Document, child: ChildOptions, more: pulumi.ResourceOptions | None = None
) -> Any:
    """Create an object that outlives its environment, or take over the one that an earlier environment retained.

    Every environment applies it as the same field manager, so one takes over all fields that another left behind.
    """
    metadata = {**document["metadata"], "annotations": FIELD_MANAGER}
    return PATCHES[document["kind"]](name, **_properties({**document, "metadata": metadata}), opts=child(more))


def _properties(document: Document) -> dict[str, Any]:
    return {_snake(key): value for key, value in document.items() if key not in {"apiVersion", "kind"}}


def _snake(key: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in key)
