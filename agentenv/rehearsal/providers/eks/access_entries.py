"""Access entries of a cluster, each with the policies that it is given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentenv.rehearsal.providers.eks.children import Child, Maker


def entries(maker: Maker, name: str, cluster: Child, given: Mapping[str, Mapping[str, Any]]) -> list[Child]:
    """An entry for each principal; policies are children of their entry."""
    return [_entry(maker, f"{name}-{word}", cluster, entry) for word, entry in given.items()]


def _entry(maker: Maker, name: str, cluster: Child, given: Mapping[str, Any]) -> Child:
    whose = {"clusterName": cluster.out("name"), "principalArn": given.get("principalArn")}
    entry = maker.child(
        "aws:eks/accessEntry:AccessEntry",
        name,
        {
            **whose,
            "kubernetesGroups": given.get("kubernetesGroups"),
            "tags": given.get("tags"),
            "type": given.get("type"),
            "userName": given.get("username"),
        },
        after=[cluster],
    )
    for word, policy in (given.get("accessPolicies") or {}).items():
        maker.under(entry).child(
            "aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
            f"{name}-{word}",
            {**whose, "accessScope": policy.get("accessScope"), "policyArn": policy.get("policyArn")},
            after=[entry],
        )
    return entry
