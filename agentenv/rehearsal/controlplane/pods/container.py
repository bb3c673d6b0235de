"""What a container's program is told: its arguments and variables, as a kubelet would work them out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

Object = dict[str, Any]

_REFERENCE = re.compile(r"\$(?:\$|\((?P<name>[A-Za-z_][A-Za-z0-9_.-]*)\))")
_KEYED = re.compile(r"metadata\.(?P<kind>labels|annotations)\['(?P<key>[^']+)'\]")


class CannotStart(Exception):
    """What in a pod keeps its program from being started."""


def environment(pod: Object, address: str) -> dict[str, str]:
    """The variables of the pod's first container; those from ConfigMaps and Secrets are refused, not left out."""
    container = pod["spec"]["containers"][0]
    if container.get("envFrom"):
        raise CannotStart("envFrom is not simulated for programs that run for real")
    found: dict[str, str] = {}
    for row in container.get("env") or ():
        source = row.get("valueFrom")
        if source is None:
            found[row["name"]] = expand(row.get("value") or "", found)
        elif "fieldRef" in source:
            found[row["name"]] = _field(pod, source["fieldRef"]["fieldPath"], address)
        else:
            kinds = ", ".join(source)
            raise CannotStart(f"the variable {row['name']} comes from {kinds}, which is not simulated here")
    return found


def arguments(
    pod: Object, variables: Mapping[str, str], listens: Mapping[str, str], in_cluster: Sequence[str]
) -> list[str]:
    """The arguments of the pod's first container, but for what only a pod can give or have.

    `listens` are the flags that say where it listens, with what is said instead; `in_cluster` what it would find out
    by itself in a pod, said unless it was said already.
    """
    given = [expand(text, variables) for text in pod["spec"]["containers"][0].get("args") or ()]
    names = {_name(text) for text in given}
    kept: list[str] = []
    skip = False
    for text in given:
        if skip:
            skip = False
        elif f"--{_name(text)}" in listens:
            skip = "=" not in text  # then the next one is its value
        else:
            kept.append(text)
    told = [flag.format(namespace=pod["metadata"]["namespace"]) for flag in in_cluster if _name(flag) not in names]
    return [*kept, *told, *(f"{flag}={address}" for flag, address in listens.items())]


def expand(text: str, variables: Mapping[str, str]) -> str:
    """`$(NAME)` as Kubernetes expands it: unknown names stay, `$$` is a dollar."""

    def known(found: re.Match[str]) -> str:
        name = found["name"]
        return "$" if name is None else variables.get(name, found[0])

    return _REFERENCE.sub(known, text)


def _name(text: str) -> str:
    """A flag's name: Go takes one dash or two."""
    return text.lstrip("-").partition("=")[0] if text.startswith("-") else ""


def _field(pod: Object, path: str, address: str) -> str:
    if path == "status.podIP":
        return address
    if keyed := _KEYED.fullmatch(path):
        return (pod["metadata"].get(keyed["kind"]) or {}).get(keyed["key"], "")
    found: Any = pod
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    if not isinstance(found, str):
        raise CannotStart(f"the field {path} of the pod is not simulated here")
    return found
