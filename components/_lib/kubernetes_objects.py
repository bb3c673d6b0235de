"""Objects of Kubernetes from the documents that `model` writes: each as a resource of its own kind.

A document may hold values that are still to come; nothing here looks into it.
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

from agentenv.components._lib.options import Child

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


def written(resource: str, document: Document, child: Child, more: pulumi.ResourceOptions | None = None) -> Any:
    """The object that a document describes; a kind that Kubernetes itself does not have is a custom resource."""
    kind = KINDS.get(document["kind"])
    if kind is None:
        told = {"api_version": document["apiVersion"], "kind": document["kind"]}
        return CustomResource(resource, **told, metadata=document["metadata"], spec=document["spec"], opts=child(more))
    said = {_snake(key): value for key, value in document.items() if key not in {"apiVersion", "kind"}}
    return kind(resource, **said, opts=child(more))


def _snake(key: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in key)
