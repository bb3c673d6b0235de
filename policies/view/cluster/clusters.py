"""EKS clusters, as the resource of the aws provider or the component of the eks provider."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from agentenv.policies.view.fields import Field
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.resource import Resource

RESOURCE, COMPONENT = "aws:eks/cluster:Cluster", "eks:index:Cluster"

# The path of each setting in both types; the component leaves the others to its own resource
PATHS: dict[str, dict[str, tuple[str, ...]]] = {
    RESOURCE: {
        "public": ("vpcConfig", "endpointPublicAccess"),
        "ranges": ("vpcConfig", "publicAccessCidrs"),
        "private": ("vpcConfig", "endpointPrivateAccess"),
        "logs": ("enabledClusterLogTypes",),
        "authentication": ("accessConfig", "authenticationMode"),
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
    """A cluster with the settings above."""

    resource: Resource

    @property
    def root(self) -> Field:
        """Return all its inputs."""
        return self.resource.root

    def at(self, name: str) -> Field:
        """Return the value of a setting."""
        return self.resource.at(*PATHS[self.resource.type][name])

    def has_inner_resource(self, graph: Graph) -> bool:
        """Return whether it is a component whose resource is in the graph, where the rules evaluate it instead."""
        if self.resource.type != COMPONENT:
            return False
        return any(self.resource in graph.parents(resource) for resource in graph.of_type(RESOURCE))


def clusters_in(resource: Resource) -> Iterator[Cluster]:
    """Yield the cluster of a resource with one of these types."""
    yield Cluster(resource)
