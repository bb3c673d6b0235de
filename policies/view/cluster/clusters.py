"""EKS clusters, whether the aws plugin's resource or the eks plugin's component says what they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from agentenv.policies.view.fields import Field
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.resource import Resource

RESOURCE, COMPONENT = "aws:eks/cluster:Cluster", "eks:index:Cluster"

# Where each of the two says it; what a component has no word for it leaves to the resource that it makes
WORDS: dict[str, dict[str, tuple[str, ...]]] = {
    RESOURCE: {
        "public": ("vpcConfig", "endpointPublicAccess"),
        "ranges": ("vpcConfig", "publicAccessCidrs"),
        "private": ("vpcConfig", "endpointPrivateAccess"),
        "logs": ("enabledClusterLogTypes",),
        "authentication": ("accessConfig", "authenticationMode"),
        "creator": ("accessConfig", "bootstrapClusterCreatorAdminPermissions"),
        "key": ("encryptionConfig", "provider", "keyArn"),
        "version": ("version",),
        "support": ("upgradePolicy", "supportType"),
        "name": ("name",),
    },
    COMPONENT: {
        "public": ("endpointPublicAccess",),
        "ranges": ("publicAccessCidrs",),
        "private": ("endpointPrivateAccess",),
        "logs": ("enabledClusterLogTypes",),
        "authentication": ("authenticationMode",),
        "key": ("encryptionConfigKeyArn",),
        "version": ("version",),
        "support": ("upgradePolicy", "supportType"),
        "name": ("name",),
    },
}


@dataclass(frozen=True, eq=False)
class Cluster:
    """One cluster, by the words above."""

    resource: Resource

    @property
    def root(self) -> Field:
        """All it says."""
        return self.resource.root

    def says(self, word: str) -> bool:
        """Whether its type has a word for that."""
        return word in WORDS[self.resource.type]

    def at(self, word: str) -> Field:
        """What it says of that."""
        return self.resource.at(*WORDS[self.resource.type][word])

    def made_by_another(self, graph: Graph) -> bool:
        """Whether it is a component whose own resource is in the graph, and is looked at instead."""
        if self.resource.type != COMPONENT:
            return False
        return any(self.resource in graph.parents(one) for one in graph.of_type(RESOURCE))


def clusters_of(resource: Resource) -> Iterator[Cluster]:
    """The cluster in a resource of one of those types."""
    yield Cluster(resource)
