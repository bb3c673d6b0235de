"""The Jobs that empty homes before their access points are deleted: their volume claims, pods and permissions.

Deleting an access point leaves its folder, which nobody can enter afterwards. So a Job mounts the volume of a deleted
workspace through that access point, as the uid of its class, and removes everything in it. The Jobs have a namespace of
their own, whose pods have no network and no token. The service creates them and cannot enter them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentenv.core.classes.pods.hardening import container_security, pod_security
from agentenv.core.values.names import KINDS, fit
from agentenv.core.workspaces.claims import DO_NOT_DISRUPT

Plain = dict[str, Any]

NAME = "home-emptying"
# The label of a volume whose home is being emptied. From then on its workspace cannot be restored.
EMPTYING_LABEL = "sandbox.users.io/emptying"
ROOT = "/home"
COMMAND = ("python", "-m", "agentenv.service.home_emptying")
USER = 65_532
CPU, MEMORY = "50m", "96Mi"
# Homes that are emptied at the same time. Their pods run on the system nodes.
MOST = 10
DEADLINE_SECONDS, RETRIES = 24 * 3600, 3


def object_name(volume: str) -> str:
    """Return the name of the Job and of the volume claim that empty a volume."""
    return fit(f"empty-{volume}", KINDS["kubernetes-label"].limit)


def volume_claim(volume: Mapping[str, Any]) -> Plain:
    """Return the claim of a volume that was reserved for it."""
    spec: Plain = volume["spec"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {**_metadata(volume), "labels": _labels()},
        "spec": {
            "accessModes": spec["accessModes"],
            "storageClassName": spec.get("storageClassName", ""),
            "volumeName": volume["metadata"]["name"],
            "resources": {"requests": {"storage": spec["capacity"]["storage"]}},
        },
    }


def job(volume: Mapping[str, Any], image: str) -> Plain:
    """Return the Job that empties a volume. It can be repeated, and fails while anything is left."""
    metadata = _metadata(volume)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {**metadata, "labels": _labels()},
        "spec": {
            "backoffLimit": RETRIES,
            "activeDeadlineSeconds": DEADLINE_SECONDS,
            "template": {
                # Karpenter does not disrupt the node until the Job is done.
                "metadata": {"labels": _labels(), "annotations": {DO_NOT_DISRUPT: "true"}},
                "spec": _pod(metadata["name"], image),
            },
        },
    }


def rbac_rules() -> list[Plain]:
    """Return the RBAC rules of the service in the namespace of these Jobs."""
    return [
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "delete", "get"]},
        {"apiGroups": [""], "resources": ["persistentvolumeclaims"], "verbs": ["create", "delete"]},
    ]


def quota() -> Plain:
    """Return the quota of the namespace: the Jobs and claims of as many homes, with one pod each."""
    hard = {"count/jobs.batch": f"{2 * MOST}", "pods": f"{2 * MOST}", "persistentvolumeclaims": f"{2 * MOST}"}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": NAME, "namespace": NAME},
        "spec": {"hard": hard},
    }


def no_traffic() -> Plain:
    """Return the network policy of the namespace, which allows nothing."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": NAME, "namespace": NAME},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
    }


def _pod(name: str, image: str) -> Plain:
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        # The access point enforces the uid and gid of the class.
        "securityContext": pod_security(USER),
        "containers": [
            {
                "name": NAME,
                "image": image,
                "command": [*COMMAND],
                "args": [ROOT],
                "resources": {"requests": {"cpu": CPU, "memory": MEMORY}, "limits": {"cpu": "500m", "memory": MEMORY}},
                "securityContext": container_security(),
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "volumeMounts": [{"name": "home", "mountPath": ROOT}],
            }
        ],
        "volumes": [{"name": "home", "persistentVolumeClaim": {"claimName": name}}],
    }


def _metadata(volume: Mapping[str, Any]) -> Plain:
    return {"name": object_name(volume["metadata"]["name"]), "namespace": NAME}


def _labels() -> dict[str, str]:
    return {"app.kubernetes.io/name": NAME}
