"""The hosts that the gateway serves, one label below a domain each.

<domain>, api.<domain>, console.<domain>     the service
sandbox.<domain>, sandbox.<workspace domain>  a sandbox that headers of the E2B client name
<port>-<workspace>.<workspace domain>        a port of a workspace, which its id or an alias names
<alias>.<workspace domain>                   the default port of a workspace
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from agentenv.core.workspaces.workspace import ID

Kind = Literal["api", "console", "apex", "sandbox", "workspace"]

SANDBOX_HOST = "sandbox"
CONSOLE: Final = "console"
SERVICE_HOSTS: Final = ("api", CONSOLE)
# Labels that no alias may have, because they are hosts of our own where both domains are the same.
RESERVED: Final = frozenset({*SERVICE_HOSTS, SANDBOX_HOST, "www"})
# Not the beginning of an id, and no `--` in the place where IDN has it (`xn--`).
_ALIAS: Final = re.compile(r"(?!w-)(?!..--)[a-z][a-z0-9-]{1,39}[a-z0-9]")
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}")
_HIGHEST_PORT = 65535
# Below it, and the id of a workspace, the console has workspaced's API of that workspace on its own host.
CONSOLE_PATH: Final = "/sandbox/"


@dataclass(frozen=True, slots=True)
class Host:
    """The meaning of a host name; `name` is the id or the alias of a workspace."""

    kind: Kind
    name: str = ""
    port: int | None = None  # None: the default port of the workspace


def parse_host(host: str, domain: str, workspace_domain: str) -> Host | None:
    """Return what a Host header or `:authority` stands for, with or without a port; None for any other host.

    It compares without regard to case, and accepts no trailing dot.
    """
    name, colon, port = host.partition(":")
    if not host.isascii() or (colon and not _is_port(port)):
        return None
    name = name.lower()
    if name == domain:
        return Host("apex")
    label, _, parent = name.partition(".")
    if label == SANDBOX_HOST and parent in {domain, workspace_domain}:
        return Host("sandbox")
    if parent == domain:
        if label == "api":
            return Host("api")
        if label == CONSOLE:
            return Host("console")
    return _workspace(label) if parent == workspace_domain else None


def console_workspace(path: str) -> str | None:
    """Return the id of the workspace whose API a path of the console's host leads to."""
    id_, slash, _ = path.removeprefix(CONSOLE_PATH).partition("/")
    return id_ if path.startswith(CONSOLE_PATH) and slash and ID.fullmatch(id_) else None


def console_target(target: str) -> str:
    """Return the path and query that workspaced gets of a target that `console_workspace` has accepted."""
    return "/" + target.removeprefix(CONSOLE_PATH).partition("/")[2]


def is_alias(name: str) -> bool:
    """Return whether a workspace may have this alias."""
    return _ALIAS.fullmatch(name) is not None and name not in RESERVED


def port_host(port: int, name: str, workspace_domain: str) -> str:
    """Return the host of a port of a workspace, by its id or alias."""
    return f"{port}-{name}.{workspace_domain}"


def _workspace(label: str) -> Host | None:
    port, _, name = label.partition("-")
    if _is_port(port) and (ID.fullmatch(name) or is_alias(name)):
        return Host("workspace", name, int(port))
    return Host("workspace", label) if is_alias(label) else None


def _is_port(text: str) -> bool:
    return _PORT.fullmatch(text) is not None and int(text) <= _HIGHEST_PORT
