"""A registered resource, and the Kubernetes objects in it: one, or each item of a list."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from agentenv.policies.view.environment import PolicyContext
from agentenv.policies.view.fields import Field

# Types of Pulumi's Kubernetes provider that are not objects of the cluster
NO_OBJECTS = ("kubernetes:yaml", "kubernetes:kustomize", "kubernetes:helm.sh")
_TOKEN = re.compile(r"kubernetes:(?:(?P<group>[^/:]+)/)?(?P<version>[^/:]+):(?P<kind>\w+)")


@dataclass(frozen=True, eq=False)
class Resource:
    """A resource: its inputs and dependencies. `outputs` are known if it exists."""

    urn: str
    type: str
    name: str
    inputs: Mapping[str, object]
    parent: str = ""
    dependencies: frozenset[str] = frozenset()
    property_dependencies: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    outputs: Mapping[str, object] = field(default_factory=dict[str, object])
    protect: bool = False
    context: PolicyContext = field(default_factory=PolicyContext)

    @cached_property
    def cache(self) -> dict[str, object]:
        """Return a cache for views of the resource that several rules share."""
        return {}

    @cached_property
    def root(self) -> Field:
        """Return all inputs as one field."""
        return Field(self.urn, "", self.inputs)

    def at(self, *keys: str | int) -> Field:
        """Return an input."""
        return self.root.at(*keys)

    @cached_property
    def objects(self) -> tuple[KubernetesObject, ...]:
        """Return the Kubernetes objects in it; none for other resources."""
        match = _TOKEN.fullmatch(self.type) if holds_objects(self.type) else None
        if match is None:
            return ()
        group, kind = match["group"] or "", match["kind"]
        return tuple(_objects(self, "" if group == "core" else group, kind, self.root))


@dataclass(frozen=True, eq=False)
class KubernetesObject:
    """An object of the cluster, or a patch of one (`patch`), which does not change missing fields."""

    resource: Resource
    group: str
    kind: str
    root: Field
    patch: bool = False

    @property
    def urn(self) -> str:
        """Return the URN of its resource."""
        return self.resource.urn

    @property
    def context(self) -> PolicyContext:
        """Return the facts about the environment."""
        return self.resource.context

    def at(self, *keys: str | int) -> Field:
        """Return a field of the object."""
        return self.root.at(*keys)

    @property
    def name(self) -> Field:
        """Return its name; missing if the engine generates one."""
        return self.at("metadata", "name")

    @property
    def namespace(self) -> Field:
        """Return its namespace, `default` if it is missing."""
        field = self.at("metadata", "namespace")
        return Field(field.urn, field.path, "default") if field.missing else field

    @property
    def labels(self) -> Field:
        """Return its labels."""
        return self.at("metadata", "labels")

    def is_a(self, group: str, *kinds: str) -> bool:
        """Return whether it has one of these kinds, in any version. The core group is empty."""
        return self.group == group and self.kind in kinds


def holds_objects(kind: str) -> bool:
    """Return whether resources of a type are objects of the cluster, or lists of them."""
    return kind.startswith("kubernetes:") and not kind.startswith(NO_OBJECTS)


def _objects(resource: Resource, group: str, kind: str, root: Field) -> list[KubernetesObject]:
    if kind == "List" or (kind.endswith("List") and not root.at("items").missing):
        objects: list[KubernetesObject] = []
        for item in root.at("items").elements():
            # Items of a typed list may omit their kind and version
            version, item_kind = item.at("apiVersion").raw, item.at("kind").raw
            inner = item_kind if isinstance(item_kind, str) else kind.removesuffix("List")
            item_group = _group(version) if isinstance(version, str) else group
            objects += _objects(resource, item_group, inner, item) if inner else []
        return objects
    # The provider's patches have the type `<Kind>Patch`, and their object has its own kind
    patch = kind.endswith("Patch") and root.at("kind").raw != kind
    return [KubernetesObject(resource, group, kind.removesuffix("Patch") if patch else kind, root, patch)]


def _group(version: str) -> str:
    return version.rpartition("/")[0]
