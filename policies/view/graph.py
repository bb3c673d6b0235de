"""All resources of a stack, by URN, type and kind, with their dependencies."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import cached_property, wraps
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

from agentenv.policies.view.cluster.pods import PodSpec, pods_of
from agentenv.policies.view.environment import PolicyContext
from agentenv.policies.view.resource import KubernetesObject, Resource

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")
Result = TypeVar("Result")


class Graph:
    """The resources of a stack."""

    def __init__(self, resources: Iterable[Resource], context: PolicyContext | None = None) -> None:
        # Sorted, so that findings about pairs always name the same one: the order of registration varies
        ordered = sorted(resources, key=lambda resource: resource.urn)
        self.resources: dict[str, Resource] = {resource.urn: resource for resource in ordered}
        self.context = context or PolicyContext()

    def of_type(self, *types: str) -> list[Resource]:
        """Return the resources with these type tokens, such as `aws:efs/accessPoint:AccessPoint`."""
        return [resource for kind in types for resource in self._by_type.get(kind, [])]

    def objects(self, group: str, *kinds: str) -> list[KubernetesObject]:
        """Return the Kubernetes objects of these kinds, in any version. The core group is empty."""
        return [item for kind in kinds for item in self._by_kind.get((group, kind), [])]

    @cached_property
    def pods(self) -> list[PodSpec]:
        """Return every pod spec, including those in templates."""
        return [pod for resource in self.resources.values() for pod in pods_of(resource)]

    def targets(self, resource: Resource, key: str, *types: str) -> list[Resource]:
        """Return the resources that an input depends on: an unknown id in it will be the id of one of them.

        The engine reports the dependencies of top-level inputs only, so `key` is the first part of a path.
        """
        return self._named(resource.property_dependencies.get(key, frozenset()), types)

    def parents(self, resource: Resource) -> Iterator[Resource]:
        """Yield the parent of a resource, the parent's parent, and so on."""
        while (parent := self.resources.get(resource.parent)) is not None:
            yield parent
            resource = parent

    def _named(self, urns: Iterable[str], types: tuple[str, ...]) -> list[Resource]:
        resources = [self.resources[urn] for urn in sorted(urns) if urn in self.resources]
        return [resource for resource in resources if not types or resource.type in types]

    @cached_property
    def _by_type(self) -> dict[str, list[Resource]]:
        return _grouped((resource.type, resource) for resource in self.resources.values())

    @cached_property
    def _by_kind(self) -> dict[tuple[str, str], list[KubernetesObject]]:
        return _grouped(
            ((item.group, item.kind), item) for resource in self.resources.values() for item in resource.objects
        )


def _grouped(pairs: Iterable[tuple[Key, Item]]) -> dict[Key, list[Item]]:
    groups: dict[Key, list[Item]] = {}
    for key, item in pairs:
        groups.setdefault(key, []).append(item)
    return groups


_RESULTS: WeakKeyDictionary[Graph, dict[Callable[..., Any], object]] = WeakKeyDictionary()


def once_per_graph(compute: Callable[[Graph], Result]) -> Callable[[Graph], Result]:
    """Cache the result of a function for each graph, for all the rules that need it."""

    @wraps(compute)
    def cached(graph: Graph) -> Result:
        results = _RESULTS.setdefault(graph, {})
        if compute not in results:
            results[compute] = compute(graph)
        return cast("Result", results[compute])

    return cached
