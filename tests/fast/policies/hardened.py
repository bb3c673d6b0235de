"""A hardened pod in each kind of object, and changes to it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

Plain = dict[str, Any]
Draw = Callable[[st.SearchStrategy[Any]], Any]
DIGEST = "sha256:" + "ab" * 32
PARTS = ("containers", "initContainers", "ephemeralContainers")
# The kinds that run code of users are first, because some rules apply only to them
SANDBOX_KINDS = ("SandboxTemplate", "Sandbox")
KINDS = (*SANDBOX_KINDS, "Pod", "Deployment", "CronJob", "List", "DeploymentPatch")
WORDS = st.text("abcdefghij", min_size=1, max_size=8)


def container(name: str, part: str = "containers") -> Plain:
    """Return a hardened container."""
    manifest: Plain = {
        "name": name,
        "image": f"111122223333.dkr.ecr.us-east-1.amazonaws.com/sandbox@{DIGEST}",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    if part != "ephemeralContainers":
        amounts = {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"}
        manifest["resources"] = {"requests": dict(amounts), "limits": amounts}
    return manifest


@dataclass
class Pod:
    """The metadata and spec of a pod."""

    metadata: Plain
    spec: Plain

    def some_container(self, draw: Draw, *parts: str) -> Plain:
        """Return one of its containers, of any sort."""
        return draw(st.sampled_from([container for part in parts or PARTS for container in self.spec.get(part, [])]))


def hardened_pod(draw: Draw) -> Pod:
    """Return a pod with some containers of each sort."""
    spec: Plain = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "runtimeClassName": "gvisor",
        "serviceAccountName": "sandbox",
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 20_000,
            "runAsGroup": 20_000,
            "fsGroup": 20_000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}}],
    }
    for part, least in zip(PARTS, (1, 0, 0), strict=True):
        names = draw(st.lists(WORDS, min_size=least, max_size=2, unique=True))
        if names:
            spec[part] = [container(f"{part[0]}-{name}", part) for name in names]
    labels = {"sandbox.users.io/class": "standard", "sandbox.users.io/tier": "standard"}
    return Pod({"labels": labels, "annotations": {}}, spec)


def object_with(pod: Pod, kind: str) -> Plain:
    """Return an object of a kind with the pod."""
    inner = copy.deepcopy({"metadata": pod.metadata, "spec": pod.spec})
    metadata = {"name": "it", "namespace": "sandbox-standard"}
    parent: Plain = {"metadata": metadata, "kind": kind.removesuffix("Patch")}
    match kind:
        case "Sandbox":
            return {**parent, "apiVersion": "agents.x-k8s.io/v1beta1", "spec": {"podTemplate": inner}}
        case "SandboxTemplate":
            return {**parent, "apiVersion": "extensions.agents.x-k8s.io/v1beta1", "spec": {"podTemplate": inner}}
        case "Pod":
            return {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {**metadata, **inner["metadata"]},
                "spec": inner["spec"],
            }
        case "CronJob":
            return {**parent, "apiVersion": "batch/v1", "spec": {"jobTemplate": {"spec": {"template": inner}}}}
        case "List":
            return {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": [object_with(pod, "Sandbox")]}
        case _:
            return {**parent, "apiVersion": "apps/v1", "spec": {"template": inner}}


def put(mapping: Plain, path: str, value: object) -> None:
    """Set a value below a mapping; None removes the key."""
    *parents, last = path.split(".")
    for key in parents:
        mapping = mapping.setdefault(key, {})
    if value is None:
        mapping.pop(last, None)
    else:
        mapping[last] = value


Change = Callable[[Pod, Draw], None]


@dataclass(frozen=True)
class Weakening:
    """A change that weakens a pod, and the rules of which at least one must fail."""

    name: str
    rules: frozenset[str]
    change: Change
    # Whether only sandboxes fail; whether the change omits a field, which is harmless in a patch
    sandboxes_only: bool = False
    by_silence: bool = False

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the kinds in which it must be found."""
        kinds = (*SANDBOX_KINDS, "List") if self.sandboxes_only else KINDS
        return tuple(kind for kind in kinds if not (self.by_silence and kind.endswith("Patch")))


def in_pod(path: str, *values: object) -> Change:
    """Set one of these values at a path of the pod's spec."""
    return lambda pod, draw: put(pod.spec, path, copy.deepcopy(draw(st.sampled_from(values))))


def in_container(path: str, *values: object, parts: tuple[str, ...] = PARTS) -> Change:
    """Set one of these values at a path of some container."""
    return lambda pod, draw: put(pod.some_container(draw, *parts), path, copy.deepcopy(draw(st.sampled_from(values))))


def in_metadata(path: str, strategy: st.SearchStrategy[Any]) -> Change:
    """Add a label or annotation."""
    return lambda pod, draw: pod.metadata.setdefault(path, {}).update({draw(strategy): "x"})


def appended(path: str, strategy: st.SearchStrategy[Any]) -> Change:
    """Append an element to a list of the pod's spec."""

    def change(pod: Pod, draw: Draw) -> None:
        *parents, last = path.split(".")
        parent = pod.spec
        for key in parents:
            parent = parent.setdefault(key, {})
        parent[last] = [*parent.get(last, []), draw(strategy)]

    return change


def container_appended(path: str, strategy: st.SearchStrategy[Any], parts: tuple[str, ...] = PARTS) -> Change:
    """Append an element to a list of some container."""

    def change(pod: Pod, draw: Draw) -> None:
        parent = pod.some_container(draw, *parts)
        *parents, last = path.split(".")
        for key in parents:
            parent = parent.setdefault(key, {})
        parent[last] = draw(st.permutations([*parent.get(last, []), draw(strategy)]))

    return change
