"""One resource as it was registered, and the Kubernetes objects in it: one, or each item of a list."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from agentenv.policies.view.environment import Situation
from agentenv.policies.view.fields import Field

# What is installed by Pulumi's Kubernetes provider and is no object of the cluster
NO_OBJECTS = ("kubernetes:yaml", "kubernetes:kustomize", "kubernetes:helm.sh")
_TOKEN = re.compile(r"kubernetes:(?:(?P<group>[^/:]+)/)?(?P<version>[^/:]+):(?P<kind>\w+)")


@dataclass(frozen=True, eq=False)
class Resource:
    """A resource: its inputs, and what it hangs on. `outputs` are there where it was made before."""

    urn: str
    type: str
    name: str
    inputs: Mapping[str, object]
    parent: str = ""
    dependencies: frozenset[str] = frozenset()
    property_dependencies: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    outputs: Mapping[str, object] = field(default_factory=dict[str, object])
    protect: bool = False
    situation: Situation = field(default_factory=Situation)

    @cached_property
    def views(self) -> dict[str, object]:
        """What further views of it were made: two rules that look at a pod shall look at the same one."""
        return {}

    @cached_property
    def root(self) -> Field:
        """All inputs."""
        return Field(self.urn, "", self.inputs)

    def at(self, *keys: str | int) -> Field:
        """One of its inputs."""
        return self.root.at(*keys)

    @cached_property
    def objects(self) -> tuple[KubernetesObject, ...]:
        """The Kubernetes objects in it, none where it is something else."""
        found = _TOKEN.fullmatch(self.type) if holds_objects(self.type) else None
        if found is None:
            return ()
        group, kind = found["group"] or "", found["kind"]
        return tuple(_objects(self, "" if group == "core" else group, kind, self.root))


@dataclass(frozen=True, eq=False)
class KubernetesObject:
    """An object of the cluster; a patch of one counts as one, `patch` says so: what it leaves out stays as it is."""

    resource: Resource
    group: str
    kind: str
    root: Field
    patch: bool = False

    @property
    def urn(self) -> str:
        """Whose object it is."""
        return self.resource.urn

    @property
    def situation(self) -> Situation:
        """The platform's words about itself."""
        return self.resource.situation

    def at(self, *keys: str | int) -> Field:
        """A value of the object."""
        return self.root.at(*keys)

    @property
    def name(self) -> Field:
        """Its name; missing where the engine makes one up."""
        return self.at("metadata", "name")

    @property
    def namespace(self) -> Field:
        """Its namespace, `default` where none is given."""
        given = self.at("metadata", "namespace")
        return Field(given.urn, given.path, "default") if given.missing else given

    @property
    def labels(self) -> Field:
        """Its labels."""
        return self.at("metadata", "labels")

    def is_a(self, group: str, *kinds: str) -> bool:
        """Whether it is of one of those kinds, in whatever version; the core group is the empty text."""
        return self.group == group and self.kind in kinds


def holds_objects(kind: str) -> bool:
    """Whether a resource of that type is an object of the cluster, or a list of them."""
    return kind.startswith("kubernetes:") and not kind.startswith(NO_OBJECTS)


def _objects(resource: Resource, group: str, kind: str, root: Field) -> list[KubernetesObject]:
    if kind == "List" or (kind.endswith("List") and not root.at("items").missing):
        found: list[KubernetesObject] = []
        for item in root.at("items").elements():
            # Items of a typed list need not say what they are
            version, said = item.at("apiVersion").raw, item.at("kind").raw
            inner = said if isinstance(said, str) else kind.removesuffix("List")
            within = _group(version) if isinstance(version, str) else group
            found += _objects(resource, within, inner, item) if inner else []
        return found
    # The provider's patches are of the kind `<Kind>Patch`, and the object in them says its own
    patch = kind.endswith("Patch") and root.at("kind").raw != kind
    return [KubernetesObject(resource, group, kind.removesuffix("Patch") if patch else kind, root, patch)]


def _group(version: str) -> str:
    return version.rpartition("/")[0]
