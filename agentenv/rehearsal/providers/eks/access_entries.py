"""Access entries of a cluster, with their access policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentenv.rehearsal.providers.eks.children import Child, ChildFactory


def entries(factory: ChildFactory, name: str, cluster: Child, args: Mapping[str, Mapping[str, Any]]) -> list[Child]:
    """Register an entry per principal. Policy associations are children of their entry."""
    return [_entry(factory, f"{name}-{word}", cluster, entry) for word, entry in args.items()]


def _entry(factory: ChildFactory, name: str, cluster: Child, args: Mapping[str, Any]) -> Child:
    principal = {"clusterName": cluster.output("name"), "principalArn": args.get("principalArn")}
    entry = factory.child(
        "aws:eks/accessEntry:AccessEntry",
        name,
        {
            **principal,
            "kubernetesGroups": args.get("kubernetesGroups"),
            "tags": args.get("tags"),
            "type": args.get("type"),
            "userName": args.get("username"),
        },
        after=[cluster],
    )
    for word, policy in (args.get("accessPolicies") or {}).items():
        factory.with_parent(entry).child(
            "aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
            f"{name}-{word}",
            {**principal, "accessScope": policy.get("accessScope"), "policyArn": policy.get("policyArn")},
            after=[entry],
        )
    return entry
