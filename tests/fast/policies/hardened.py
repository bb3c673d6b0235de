"""A hardened pod in any of its places, what does it no harm, and every way to weaken it that a rule is there for."""

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
# Kinds in which users' programs run come first: some rules are for those alone
SANDBOX_KINDS = ("SandboxTemplate", "Sandbox")
KINDS = (*SANDBOX_KINDS, "Pod", "Deployment", "CronJob", "List", "DeploymentPatch")
WORDS = st.text("abcdefghij", min_size=1, max_size=8)


def container(name: str, part: str = "containers") -> Plain:
    """One that asks for nothing beyond itself."""
    made: Plain = {
        "name": name,
        "image": f"registry.example.com/sandbox@{DIGEST}",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    if part != "ephemeralContainers":
        amounts = {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"}
        made["resources"] = {"requests": dict(amounts), "limits": amounts}
    return made


@dataclass
class Pod:
    """A pod's metadata and spec, as something to change."""

    metadata: Plain
    spec: Plain

    def some_container(self, draw: Draw, *parts: str) -> Plain:
        """One of its containers, of whatever sort."""
        return draw(st.sampled_from([one for part in parts or PARTS for one in self.spec.get(part, [])]))


def hardened(draw: Draw) -> Pod:
    """A pod with some containers of each sort."""
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


def placed(pod: Pod, kind: str) -> Plain:
    """The object of that kind which holds the pod."""
    inner = copy.deepcopy({"metadata": pod.metadata, "spec": pod.spec})
    named = {"name": "it", "namespace": "sandbox-standard"}
    holder: Plain = {"metadata": named, "kind": kind.removesuffix("Patch")}
    match kind:
        case "Sandbox":
            return {**holder, "apiVersion": "agents.x-k8s.io/v1beta1", "spec": {"podTemplate": inner}}
        case "SandboxTemplate":
            return {**holder, "apiVersion": "extensions.agents.x-k8s.io/v1beta1", "spec": {"podTemplate": inner}}
        case "Pod":
            return {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {**named, **inner["metadata"]},
                "spec": inner["spec"],
            }
        case "CronJob":
            return {**holder, "apiVersion": "batch/v1", "spec": {"jobTemplate": {"spec": {"template": inner}}}}
        case "List":
            return {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": [placed(pod, "Sandbox")]}
        case _:
            return {**holder, "apiVersion": "apps/v1", "spec": {"template": inner}}


def put(thing: Plain, path: str, value: object) -> None:
    """Write a value below a mapping; None takes the key away."""
    *way, last = path.split(".")
    for key in way:
        thing = thing.setdefault(key, {})
    if value is None:
        thing.pop(last, None)
    else:
        thing[last] = value


Change = Callable[[Pod, Draw], None]


@dataclass(frozen=True)
class Weakening:
    """A change for the worse, and the rules of which at least one has to say so."""

    name: str
    rules: frozenset[str]
    change: Change
    # Whether only sandboxes are held to it; whether the harm is to leave something out, as a patch does with nearly all
    sandboxes_only: bool = False
    by_silence: bool = False

    @property
    def kinds(self) -> tuple[str, ...]:
        """Where it is to be caught."""
        kinds = (*SANDBOX_KINDS, "List") if self.sandboxes_only else KINDS
        return tuple(kind for kind in kinds if not (self.by_silence and kind.endswith("Patch")))


def in_pod(path: str, *values: object) -> Change:
    """One of those values, at that place of the pod's spec."""
    return lambda pod, draw: put(pod.spec, path, copy.deepcopy(draw(st.sampled_from(values))))


def in_container(path: str, *values: object, parts: tuple[str, ...] = PARTS) -> Change:
    """One of those values, at that place of some container."""
    return lambda pod, draw: put(pod.some_container(draw, *parts), path, copy.deepcopy(draw(st.sampled_from(values))))


def in_metadata(path: str, strategy: st.SearchStrategy[Any]) -> Change:
    """A key of that strategy among the pod's labels or annotations."""
    return lambda pod, draw: pod.metadata.setdefault(path, {}).update({draw(strategy): "x"})


def appended(path: str, strategy: st.SearchStrategy[Any]) -> Change:
    """One more element in a list of the pod's spec."""

    def change(pod: Pod, draw: Draw) -> None:
        *way, last = path.split(".")
        holder = pod.spec
        for key in way:
            holder = holder.setdefault(key, {})
        holder[last] = [*holder.get(last, []), draw(strategy)]

    return change


def container_appended(path: str, strategy: st.SearchStrategy[Any], parts: tuple[str, ...] = PARTS) -> Change:
    """One more element in a list of some container."""

    def change(pod: Pod, draw: Draw) -> None:
        holder = pod.some_container(draw, *parts)
        *way, last = path.split(".")
        for key in way:
            holder = holder.setdefault(key, {})
        holder[last] = draw(st.permutations([*holder.get(last, []), draw(strategy)]))

    return change
