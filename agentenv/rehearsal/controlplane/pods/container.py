"""The arguments and environment variables of a container's program, as a kubelet would resolve them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from agentenv.local.sandboxes.bundle import CannotStart

Object = dict[str, Any]

_REFERENCE = re.compile(r"\$(?:\$|\((?P<name>[A-Za-z_][A-Za-z0-9_.-]*)\))")
_KEYED = re.compile(r"metadata\.(?P<kind>labels|annotations)\['(?P<key>[^']+)'\]")


def environment(pod: Object, address: str) -> dict[str, str]:
    """Return the variables of the pod's first container; sources that are not simulated are refused."""
    container = pod["spec"]["containers"][0]
    if container.get("envFrom"):
        raise CannotStart("envFrom is not simulated for programs that run as processes")
    variables: dict[str, str] = {}
    for row in container.get("env") or ():
        source = row.get("valueFrom")
        if source is None:
            variables[row["name"]] = expand(row.get("value") or "", variables)
        elif "fieldRef" in source:
            variables[row["name"]] = field(pod, source["fieldRef"]["fieldPath"], address)
        else:
            kinds = ", ".join(source)
            raise CannotStart(f"the variable {row['name']} comes from {kinds}, which is not simulated here")
    return variables


def arguments(
    pod: Object, variables: Mapping[str, str], listen_flags: Mapping[str, str], in_cluster_flags: Sequence[str]
) -> list[str]:
    """Return the arguments of the pod's first container, adapted to a local process.

    `listen_flags` are the flags for listen addresses with their replacements. `in_cluster_flags` are flags whose
    values the program would detect inside a pod; they are added unless already set.
    """
    expanded = [expand(text, variables) for text in pod["spec"]["containers"][0].get("args") or ()]
    names = {_flag_name(text) for text in expanded}
    remaining: list[str] = []
    skip = False
    for text in expanded:
        if skip:
            skip = False
        elif f"--{_flag_name(text)}" in listen_flags:
            skip = "=" not in text  # then the next argument is its value
        else:
            remaining.append(text)
    added = [
        flag.format(namespace=pod["metadata"]["namespace"])
        for flag in in_cluster_flags
        if _flag_name(flag) not in names
    ]
    return [*remaining, *added, *(f"{flag}={address}" for flag, address in listen_flags.items())]


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Expand `$(NAME)` as Kubernetes does: unknown names stay, `$$` is a dollar."""

    def replaced(match: re.Match[str]) -> str:
        name = match["name"]
        return "$" if name is None else variables.get(name, match[0])

    return _REFERENCE.sub(replaced, text)


def _flag_name(text: str) -> str:
    """Return a flag's name; Go takes one dash or two."""
    return text.lstrip("-").partition("=")[0] if text.startswith("-") else ""


def field(pod: Object, path: str, address: str) -> str:
    """Return a field of the pod, as the downward API has it."""
    if path == "status.podIP":
        return address
    if keyed := _KEYED.fullmatch(path):
        return (pod["metadata"].get(keyed["kind"]) or {}).get(keyed["key"], "")
    value: Any = pod
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if not isinstance(value, str):
        raise CannotStart(f"the field {path} of the pod is not simulated here")
    return value
