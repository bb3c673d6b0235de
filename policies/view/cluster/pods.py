"""Pod specs wherever they stand, and the containers of every kind in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, cast

from agentenv.policies.view.environment import Situation
from agentenv.policies.view.fields import Field
from agentenv.policies.view.resource import KubernetesObject, Resource

# Where the pod (what has `metadata` and `spec`) stands in an object, by its kind
PLACES: dict[str, tuple[str, ...]] = {
    "Pod": (),
    "PodTemplate": ("template",),
    "Deployment": ("spec", "template"),
    "DeploymentConfig": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "ReplicationController": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    "Sandbox": ("spec", "podTemplate"),
    "SandboxTemplate": ("spec", "podTemplate"),
}
# Groups of Kubernetes' own, whose other kinds start no pods; those of others may, wherever they have containers
_OWN_GROUPS = frozenset({"", "apps", "batch", "autoscaling", "policy"})
_DEEPEST = 8

ContainerKind = Literal["containers", "initContainers", "ephemeralContainers"]
# Where a workflow's step has its only container, and what only containers have beside an image
ALONE = ("container", "script")
_OF_CONTAINERS = frozenset(
    {"securityContext", "command", "args", "env", "envFrom", "ports", "resources", "volumeMounts", "imagePullPolicy"}
)
KINDS: tuple[ContainerKind, ...] = ("containers", "initContainers", "ephemeralContainers")
_OF_BARE = frozenset({*KINDS, *ALONE, "sidecars"})
# What a workflow says once for the pods of all its steps; a step that says it too is meant instead
_FOR_ALL = frozenset(
    {"automountServiceAccountToken", "hostNetwork", "securityContext", "serviceAccountName", "tolerations", "volumes"}
)


@dataclass(frozen=True, eq=False)
class Container:
    """A container of a pod."""

    pod: PodSpec
    kind: ContainerKind
    root: Field

    def at(self, *keys: str | int) -> Field:
        """A value of it."""
        return self.root.at(*keys)

    @property
    def title(self) -> str:
        """What it is called in a message."""
        name = self.at("name").raw
        return f"container '{name}'" if isinstance(name, str) else "a container"

    def security(self, key: str) -> Field:
        """A value of its own security context."""
        return self.at("securityContext", key)

    def effective(self, key: str) -> Field:
        """A value of its security context, or where it has none the pod's: as the kubelet has it."""
        own = self.security(key)
        return own if not own.missing else self.pod.security(key)


@dataclass(frozen=True, eq=False)
class PodSpec:
    """A pod, or the template of one. `root` has its `metadata` and `spec`, `spec` is the pod spec itself.

    In other people's kinds a pod spec also stands without a `spec` around it: it is `bare`, and its own root. What
    stands `around` it, the nearest first, then says what it leaves out.
    """

    owner: KubernetesObject
    root: Field
    bare: bool = False
    around: tuple[Field, ...] = ()

    @cached_property
    def spec(self) -> Field:
        """The pod spec."""
        return self.root if self.bare else self.root.at("spec")

    @property
    def urn(self) -> str:
        """Whose pod it is."""
        return self.owner.urn

    @property
    def situation(self) -> Situation:
        """The platform's words about itself."""
        return self.owner.situation

    @property
    def namespace(self) -> Field:
        """Where its pods run: where the object is."""
        return self.owner.namespace

    @property
    def of_node(self) -> bool:
        """Whether it is a program of its node: the platform names the namespaces of those, and no sandbox is one."""
        here = self.namespace.raw in self.situation.node_programs
        return here and self.owner.kind == "DaemonSet" and not self.strangers

    @property
    def labels(self) -> Field:
        """The labels of its pods."""
        return self.root.at("metadata", "labels")

    @property
    def annotations(self) -> Field:
        """The annotations of its pods."""
        return self.root.at("metadata", "annotations")

    @property
    def patch(self) -> bool:
        """Whether only what is said changes, so that what is missing says nothing."""
        return self.owner.patch

    @property
    def sandbox(self) -> bool:
        """Whether it is a sandbox's pod, or a pod of one."""
        return self.owner.kind in {"Sandbox", "SandboxTemplate"}

    @property
    def strangers(self) -> bool:
        """Whether what runs in it is a user's: a sandbox, or anything else in the namespace of a class."""
        namespace = self.namespace.raw
        return self.sandbox or (isinstance(namespace, str) and namespace.startswith("sandbox-"))

    @property
    def windows(self) -> bool:
        """Whether it says that it runs on Windows, where Linux's own fields mean nothing."""
        return self.at("os", "name").raw == "windows"

    def at(self, *keys: str | int) -> Field:
        """A value of the pod spec."""
        if self.around and keys and keys[0] in _FOR_ALL:
            found = (one for one in (self.spec, *self.around) if not one.at(keys[0]).missing)
            return next(found, self.spec).at(*keys)
        return self.spec.at(*keys)

    def security(self, key: str) -> Field:
        """A value of the pod's security context."""
        return self.at("securityContext", key)

    @cached_property
    def containers(self) -> tuple[Container, ...]:
        """All containers: those that stay, those that run before, and those that were put in to look around."""
        found = [Container(self, kind, element) for kind in KINDS for element in self.spec.at(kind).elements()]
        if self.bare:
            alone = (self.spec.at(key) for key in ALONE)
            found += [Container(self, "containers", one) for one in alone if _looks_like_one(one.raw)]
            found += [Container(self, "containers", one) for one in self.spec.at("sidecars").elements()]
        return tuple(found)


def left_out(pod: PodSpec, field: Field) -> bool:
    """Whether a patch does not speak of a value, which then stays what it was."""
    return pod.patch and field.missing


def pods_of(resource: Resource) -> tuple[PodSpec, ...]:
    """The pod specs in a resource, made once."""
    if "pods" not in resource.views:
        resource.views["pods"] = tuple(pod for thing in resource.objects for pod in _pods(thing))
    return cast("tuple[PodSpec, ...]", resource.views["pods"])


def _pods(thing: KubernetesObject) -> Iterator[PodSpec]:
    place = PLACES.get(thing.kind)
    root = thing.root if place is None else thing.at(*place)
    if place is not None and not root.missing:
        # What scales or labels a controller by a patch need not speak of its pods
        if not (thing.patch and root.at("spec").missing):
            yield PodSpec(thing, root)
        return
    if thing.group not in _OWN_GROUPS and not thing.group.endswith(".k8s.io"):
        yield from _templates(thing, thing.root, _DEEPEST)


def _templates(
    thing: KubernetesObject, field: Field, deepest: int, around: tuple[Field, ...] = ()
) -> Iterator[PodSpec]:
    """Whatever looks like a pod's template in a kind that we have never heard of: it has a spec with containers, or
    containers itself. There may be more of them beside its containers.
    """
    below: list[Field] = []
    raw = field.raw
    if isinstance(raw, Mapping):
        entries = list(field.entries())
        if isinstance(field.at("spec", "containers").raw, list):
            yield PodSpec(thing, field)
            entries = [(key, one) for key, one in entries if key != "spec"]
            entries += [(key, one) for key, one in field.at("spec").entries() if key not in KINDS]
        elif _looks_like_spec(field.raw):
            yield PodSpec(thing, field, bare=True, around=around)
            entries = [(key, one) for key, one in entries if key not in _OF_BARE]
        below, around = [one for _, one in entries], (field, *around)
    elif isinstance(raw, list):
        below = field.elements()
    for one in below if deepest else ():
        yield from _templates(thing, one, deepest - 1, around)


def _looks_like_spec(raw: object) -> bool:
    if not isinstance(raw, Mapping):
        return False
    given = cast("Mapping[str, object]", raw)
    listed = given.get("containers")
    several = cast("list[object]", listed) if isinstance(listed, list) else []
    return any(map(_looks_like_one, several)) or any(_looks_like_one(given.get(key)) for key in ALONE)


def _looks_like_one(raw: object) -> bool:
    """Whether it can be nothing but a container: other things have images, and names, too."""
    if not isinstance(raw, Mapping):
        return False
    given = cast("Mapping[str, object]", raw)
    return isinstance(given.get("image"), str) and bool(_OF_CONTAINERS & set(given))
