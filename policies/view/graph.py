"""All resources of a stack: by URN, by type and kind, with who depends on whom."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import cached_property, wraps
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

from agentenv.policies.view.cluster.pods import PodSpec, pods_of
from agentenv.policies.view.environment import Situation
from agentenv.policies.view.resource import KubernetesObject, Resource

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")
Result = TypeVar("Result")


class Graph:
    """The resources of a stack."""

    def __init__(self, resources: Iterable[Resource], situation: Situation | None = None) -> None:
        # Of two that cannot both be, always the same one is named: the engine registers them in another order each time
        ordered = sorted(resources, key=lambda resource: resource.urn)
        self.resources: dict[str, Resource] = {resource.urn: resource for resource in ordered}
        self.situation = situation or Situation()

    def of_type(self, *types: str) -> list[Resource]:
        """The resources of those type tokens, like `aws:efs/accessPoint:AccessPoint`."""
        return [resource for kind in types for resource in self._by_type.get(kind, [])]

    def objects(self, group: str, *kinds: str) -> list[KubernetesObject]:
        """The Kubernetes objects of those kinds, in whatever version; the core group is the empty text."""
        return [found for kind in kinds for found in self._by_kind.get((group, kind), [])]

    @cached_property
    def pods(self) -> list[PodSpec]:
        """Every pod spec, wherever it stands."""
        return [pod for resource in self.resources.values() for pod in pods_of(resource)]

    def targets(self, resource: Resource, key: str, *types: str) -> list[Resource]:
        """The resources that one of its inputs comes from: what an id that is not known yet will be the id of.

        The engine tells what an input hangs on for whole inputs only, so `key` is the first part of a path.
        """
        return self._named(resource.property_dependencies.get(key, frozenset()), types)

    def needs(self, resource: Resource, *types: str) -> list[Resource]:
        """All it depends on directly."""
        return self._named(resource.dependencies, types)

    def parents(self, resource: Resource) -> Iterator[Resource]:
        """Its parent, that one's parent, and so on."""
        while (found := self.resources.get(resource.parent)) is not None:
            yield found
            resource = found

    def children(self, resource: Resource) -> list[Resource]:
        """Those whose parent it is."""
        return self._by_parent.get(resource.urn, [])

    def _named(self, urns: Iterable[str], types: tuple[str, ...]) -> list[Resource]:
        found = [self.resources[urn] for urn in sorted(urns) if urn in self.resources]
        return [one for one in found if not types or one.type in types]

    @cached_property
    def _by_type(self) -> dict[str, list[Resource]]:
        return _grouped((resource.type, resource) for resource in self.resources.values())

    @cached_property
    def _by_kind(self) -> dict[tuple[str, str], list[KubernetesObject]]:
        return _grouped(
            ((found.group, found.kind), found) for resource in self.resources.values() for found in resource.objects
        )

    @cached_property
    def _by_parent(self) -> dict[str, list[Resource]]:
        return _grouped((resource.parent, resource) for resource in self.resources.values())


def _grouped(pairs: Iterable[tuple[Key, Item]]) -> dict[Key, list[Item]]:
    found: dict[Key, list[Item]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


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
