"""What a destroy may leave on purpose: resources that are protected, and those that outlive their stack."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

Resource = dict[str, Any]


def protected(state: Iterable[Resource]) -> list[str]:
    """The URNs of what the engine refuses to delete until somebody says `pulumi state unprotect`."""
    return [resource["urn"] for resource in state if resource.get("protect")]


def unlock(clients: Callable[[str], Any], state: Iterable[Resource]) -> None:
    """Switch off what AWS itself refuses a deletion for, as a person has to."""
    for resource in state:
        if resource["type"] == "aws:eks/cluster:Cluster" and resource["outputs"].get("deletionProtection"):
            clients("eks").update_cluster_config(name=resource["outputs"]["name"], deletionProtection=False)


def retained(state: Iterable[Resource]) -> set[str]:
    """What the cloud calls the resources that stay when they leave the state: their ids, names and ARNs."""
    return {
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


def told_apart(left: Sequence[str], meant_to_stay: set[str]) -> tuple[list[str], list[str]]:
    """Of the census's lines (`kind name`), those that stay on purpose and those that nobody meant to leave."""
    stay = [line for line in left if line.partition(" ")[2] in meant_to_stay]
    return stay, [line for line in left if line not in stay]
