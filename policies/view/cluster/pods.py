"""Pod specs in any kind of object, and their containers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, cast

from agentenv.policies.view.environment import PolicyContext
from agentenv.policies.view.fields import Field
from agentenv.policies.view.resource import KubernetesObject, Resource

# The path of the pod (with `metadata` and `spec`) in each kind of object
TEMPLATE_PATHS: dict[str, tuple[str, ...]] = {
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
# Other kinds in these API groups start no pods; kinds in unknown groups may, at any path with containers
_OWN_GROUPS = frozenset({"", "apps", "batch", "autoscaling", "policy"})
_MAX_DEPTH = 8

ContainerKind = Literal["containers", "initContainers", "ephemeralContainers"]
# Keys with the only container of a workflow's step, and keys that only containers have beside an image
SINGLE_CONTAINER_KEYS = ("container", "script")
# Keys with lists of containers in pods without a spec: sidecars of workflows, and steps of Tekton
MORE_CONTAINER_KEYS = ("sidecars", "steps")
_CONTAINER_KEYS = frozenset(
    {
        "args",
        "command",
        "env",
        "envFrom",
        "imagePullPolicy",
        "ports",
        "resources",
        "script",
        "securityContext",
        "volumeMounts",
    }
)
KINDS: tuple[ContainerKind, ...] = ("containers", "initContainers", "ephemeralContainers")
_BARE_SPEC_KEYS = frozenset({*KINDS, *SINGLE_CONTAINER_KEYS, *MORE_CONTAINER_KEYS, "stepTemplate"})
# Keys that a workflow sets for the pods of all its steps, unless a step sets them itself
_INHERITED_KEYS = frozenset(
    {"automountServiceAccountToken", "hostNetwork", "securityContext", "serviceAccountName", "tolerations", "volumes"}
)


@dataclass(frozen=True, eq=False)
class Container:
    """A container of a pod."""

    pod: PodSpec
    kind: ContainerKind
    root: Field
    defaults: Field | None = None  # what it has where it omits something: the template of a step

    def at(self, *keys: str | int) -> Field:
        """Return a field of the container."""
        own = self.root.at(*keys)
        return self.defaults.at(*keys) if own.missing and self.defaults is not None else own

    @property
    def title(self) -> str:
        """Return its name for messages."""
        name = self.at("name").raw
        return f"container '{name}'" if isinstance(name, str) else "a container"

    def security(self, key: str) -> Field:
        """Return a field of its own security context."""
        return self.at("securityContext", key)

    def effective(self, key: str) -> Field:
        """Return a field of its security context, or of the pod's if it has none, as the kubelet does."""
        own = self.security(key)
        return own if not own.missing else self.pod.security(key)


@dataclass(frozen=True, eq=False)
class PodSpec:
    """A pod or a pod template. `root` has its `metadata` and `spec`, `spec` is the pod spec.

    In custom kinds, a pod spec may have no `spec` around it: it is `bare`, and its own root. The mappings around it
    (`enclosing`, the nearest first) then have the fields that it omits.
    """

    owner: KubernetesObject
    root: Field
    bare: bool = False
    enclosing: tuple[Field, ...] = ()

    @cached_property
    def spec(self) -> Field:
        """Return the pod spec."""
        return self.root if self.bare else self.root.at("spec")

    @property
    def urn(self) -> str:
        """Return the URN of its resource."""
        return self.owner.urn

    @property
    def context(self) -> PolicyContext:
        """Return the facts about the environment."""
        return self.owner.context

    @property
    def namespace(self) -> Field:
        """Return the namespace of its pods, which is that of the object."""
        return self.owner.namespace

    @property
    def is_node_agent(self) -> bool:
        """Return whether it is a node agent: a DaemonSet in one of the configured namespaces, and never a sandbox."""
        in_namespace = self.namespace.raw in self.context.node_programs
        return in_namespace and self.owner.kind == "DaemonSet" and not self.runs_user_code

    @property
    def labels(self) -> Field:
        """Return the labels of its pods."""
        return self.root.at("metadata", "labels")

    @property
    def annotations(self) -> Field:
        """Return the annotations of its pods."""
        return self.root.at("metadata", "annotations")

    @property
    def patch(self) -> bool:
        """Return whether it is a patch, which does not change missing fields."""
        return self.owner.patch

    @property
    def sandbox(self) -> bool:
        """Return whether it is the pod of a sandbox."""
        return self.owner.kind in {"Sandbox", "SandboxTemplate"}

    @property
    def runs_user_code(self) -> bool:
        """Return whether it runs code of users: a sandbox, or any pod in the namespace of a class."""
        namespace = self.namespace.raw
        return self.sandbox or (isinstance(namespace, str) and namespace.startswith("sandbox-"))

    @property
    def on_windows(self) -> bool:
        """Return whether it runs on Windows, where the fields of Linux have no effect."""
        return self.at("os", "name").raw == "windows"

    def at(self, *keys: str | int) -> Field:
        """Return a field of the pod spec."""
        if self.enclosing and keys and keys[0] in _INHERITED_KEYS:
            candidates = (field for field in (self.spec, *self.enclosing) if not field.at(keys[0]).missing)
            return next(candidates, self.spec).at(*keys)
        return self.spec.at(*keys)

    def security(self, key: str) -> Field:
        """Return a field of the pod's security context."""
        return self.at("securityContext", key)

    @cached_property
    def containers(self) -> tuple[Container, ...]:
        """Return all containers, init containers and ephemeral containers."""
        found = [Container(self, kind, element) for kind in KINDS for element in self.spec.at(kind).elements()]
        if self.bare:
            single = [self.spec.at(key) for key in SINGLE_CONTAINER_KEYS]
            bare = [*filter(lambda field: _is_container(field.raw), single)]
            found += [Container(self, "containers", field) for field in [*bare, *self.spec.at("sidecars").elements()]]
            template = self.spec.at("stepTemplate")
            found += [Container(self, "containers", step, template) for step in self.spec.at("steps").elements()]
        return tuple(found)


@dataclass(frozen=True, eq=False)
class PodMetadata:
    """Labels and annotations of pods: of a pod template, or those that a claim adds to the pod of its sandbox."""

    root: Field
    labels: Field
    annotations: Field
    runs_user_code: bool


def metadata_of(resource: Resource) -> Iterator[PodMetadata]:
    """Yield the metadata of pods in a resource."""
    for pod in pods_of(resource):
        yield PodMetadata(pod.root, pod.labels, pod.annotations, pod.runs_user_code)
    for item in resource.objects:
        if item.is_a("extensions.agents.x-k8s.io", "SandboxClaim"):
            added = item.at("spec", "additionalPodMetadata")
            yield PodMetadata(added, added.at("labels"), added.at("annotations"), runs_user_code=True)


def unchanged_by_patch(pod: PodSpec, field: Field) -> bool:
    """Return whether a patch omits a field, which then keeps its value."""
    return pod.patch and field.missing


def pods_of(resource: Resource) -> tuple[PodSpec, ...]:
    """Return the pod specs in a resource, cached."""
    if "pods" not in resource.cache:
        resource.cache["pods"] = tuple(pod for item in resource.objects for pod in _pods(item))
    return cast("tuple[PodSpec, ...]", resource.cache["pods"])


def _pods(item: KubernetesObject) -> Iterator[PodSpec]:
    place = TEMPLATE_PATHS.get(item.kind)
    root = item.root if place is None else item.at(*place)
    if place is not None and not root.missing:
        # A patch that scales or labels a controller may omit its pods
        if not (item.patch and root.at("spec").missing):
            yield PodSpec(item, root)
        return
    if item.group not in _OWN_GROUPS and not item.group.endswith(".k8s.io"):
        yield from _templates(item, item.root, _MAX_DEPTH)


def _templates(
    item: KubernetesObject, field: Field, depth: int, enclosing: tuple[Field, ...] = ()
) -> Iterator[PodSpec]:
    """Yield the pod templates in an object of an unknown kind: mappings with containers, or with a spec that has some.

    A template may contain further templates beside its containers.
    """
    below: list[Field] = []
    raw = field.raw
    if isinstance(raw, Mapping):
        entries = list(field.entries())
        if isinstance(field.at("spec", "containers").raw, list):
            yield PodSpec(item, field)
            entries = [(key, value) for key, value in entries if key != "spec"]
            entries += [(key, value) for key, value in field.at("spec").entries() if key not in KINDS]
        elif _is_bare_spec(field.raw):
            yield PodSpec(item, field, bare=True, enclosing=enclosing)
            entries = [(key, value) for key, value in entries if key not in _BARE_SPEC_KEYS]
        below, enclosing = [value for _, value in entries], (field, *enclosing)
    elif isinstance(raw, list):
        below = field.elements()
    for value in below if depth else ():
        yield from _templates(item, value, depth - 1, enclosing)


def _is_bare_spec(raw: object) -> bool:
    if not isinstance(raw, Mapping):
        return False
    mapping = cast("Mapping[str, object]", raw)
    lists = [mapping.get(key) for key in ("containers", *MORE_CONTAINER_KEYS)]
    several = [element for each in lists if isinstance(each, list) for element in cast("list[object]", each)]
    return any(map(_is_container, several)) or any(_is_container(mapping.get(key)) for key in SINGLE_CONTAINER_KEYS)


def _is_container(raw: object) -> bool:
    """Return whether a value can only be a container. An image and a name alone are not enough."""
    if not isinstance(raw, Mapping):
        return False
    mapping = cast("Mapping[str, object]", raw)
    return isinstance(mapping.get("image"), str) and bool(_CONTAINER_KEYS & set(mapping))
