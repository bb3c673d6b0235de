"""Resources that a destroy leaves on purpose: protected ones, and those that outlive their stack."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

Resource = dict[str, Any]


def protected(state: Iterable[Resource]) -> list[str]:
    """Return the URNs of resources that the engine refuses to delete until `pulumi state unprotect`."""
    return [resource["urn"] for resource in state if resource.get("protect")]


def disable_deletion_protection(clients: Callable[[str], Any], state: Iterable[Resource]) -> None:
    """Disable the deletion protection that AWS itself enforces."""
    for resource in state:
        if resource["type"] == "aws:eks/cluster:Cluster" and resource["outputs"].get("deletionProtection"):
            clients("eks").update_cluster_config(name=resource["outputs"]["name"], deletionProtection=False)


def retained(state: Sequence[Resource]) -> set[str]:
    """Return the ids, names and ARNs of the resources that remain when they leave the state.

    EKS writes the last logs of a cluster after its deletion, and so creates their log group again.
    """
    clusters = (resource for resource in state if resource["type"] == "aws:eks/cluster:Cluster")
    logs = {f"/aws/eks/{cluster['outputs']['name']}/cluster" for cluster in clusters}
    return logs | {
        str(name)
        for resource in state
        if resource.get("retainOnDelete")
        for name in (
            resource.get("id"),
            resource.get("outputs", {}).get("name"),
            resource.get("outputs", {}).get("arn"),
        )
        if name
    }


def split_retained(lines: Sequence[str], retained_names: set[str]) -> tuple[list[str], list[str]]:
    """Split the census's lines (`kind name`) into resources retained on purpose and leftovers."""
    retained_lines = [line for line in lines if line.partition(" ")[2] in retained_names]
    return retained_lines, [line for line in lines if line not in retained_lines]
