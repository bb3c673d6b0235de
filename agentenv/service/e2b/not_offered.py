"""Requests of `e2b` clients that this API does not offer: each refusal has its reason and a way out."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agentenv.service.catalog import Class
from agentenv.service.e2b.bodies import NewSandbox
from agentenv.service.http.problems import Problem

_SNAPSHOTS = (
    "snapshots and forks are not offered: a pause keeps the files of one sandbox and no memory; pause and connect, or"
    " copy files to another sandbox"
)
_TEMPLATES = (
    "templates are the classes of the environment, with images that its platform team reviews; choose one that GET"
    " /e2b/templates lists, or change `sandboxClasses` in the stack file"
)
_VOLUMES = (
    "volumes are not offered: the home of a sandbox is kept while it is paused; create one with the metadata `mode` and"
    " `key`, which later calls find again"
)
_EVERYTHING = ["0.0.0.0/0"]
_SECRETS = "secrets are not read by the sandbox API; store them with PUT /v1/secrets, and read them in the sandbox"
_NETWORK = (
    "the network of a sandbox is that of its class and does not change while it runs; choose another class as template"
)


@dataclass(frozen=True)
class NotOffered:
    """Routes that are not offered, and why."""

    paths: re.Pattern[str]
    why: str


ROUTES = (
    NotOffered(re.compile(r"(v[0-9]+/)?sandboxes/[^/]+/(snapshots|fork)"), _SNAPSHOTS),
    NotOffered(re.compile(r"(v[0-9]+/)?snapshots(/.*)?"), _SNAPSHOTS),
    NotOffered(re.compile(r"(v[0-9]+/)?sandboxes/[^/]+/network"), _NETWORK),
    NotOffered(re.compile(r"(v[0-9]+/)?templates(/.*)?"), _TEMPLATES),
    NotOffered(re.compile(r"(v[0-9]+/)?volumes(/.*)?"), _VOLUMES),
    NotOffered(re.compile(r"(v[0-9]+/)?secrets(/.*)?"), _SECRETS),
)


def why_not_offered(path: str) -> str | None:
    """Return why a path is not offered; None for one that the clients do not know either."""
    return next((route.why for route in ROUTES if route.paths.fullmatch(path)), None)


def refuse_options(body: NewSandbox, of_class: Class) -> None:
    """Raise a `Problem` for an option of a new sandbox that its class does not have."""
    name, network = of_class.name, body.network or {}
    rules = {
        key: value for key, value in network.items() if key != "allowPublicTraffic" and value not in ({}, [], None)
    }
    denies_all = rules == {"denyOut": _EVERYTHING}  # for the clients the same as no access to the internet
    if (body.allow_internet_access is False or denies_all) and of_class.reaches_internet:
        raise _refused(
            f"sandboxes of class {name} reach the internet, and a sandbox cannot be cut off by itself",
            "choose a class without the capabilities for it",
        )
    if body.allow_internet_access is True and not of_class.reaches_internet:
        raise _refused(f"sandboxes of class {name} do not reach the internet", "choose a class that does, such as one"
                       " with the capability `web`")  # fmt: skip
    if rules and not denies_all:
        raise _refused(_NETWORK, "leave `network` out")
    if network.get("allowPublicTraffic") is True:
        raise _refused(
            "ports of a sandbox are private until they are shared",
            "send the header `e2b-traffic-access-token`, or share the port with PUT /v1/workspaces/{id}/ports/{port}",
        )
    for option, value in (("mcp", body.mcp), ("iam", body.iam), ("volumeMounts", body.volume_mounts)):
        if value:
            raise _refused(f"`{option}` is not offered: {_WHY[option]}", f"leave `{option}` out")
    refuse_memory(body.auto_pause_memory)


def refuse_memory(memory: bool | None) -> None:
    """Raise a `Problem` where a pause must keep the memory."""
    if memory is True:
        raise _refused(
            "a pause keeps the files and no memory: processes end, and are started anew after `connect`",
            'leave the mode out, or choose `mode="filesystem"`',
        )


_WHY = {
    "mcp": "its gateway needs root; start MCP servers as commands, or use the MCP server of this environment at /mcp",
    "iam": "the identity of a sandbox is that of its class",
    "volumeMounts": _VOLUMES,
}


def _refused(detail: str, way_out: str) -> Problem:
    return Problem("malformed", detail, way_out)
