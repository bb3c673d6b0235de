"""The configuration of tools that reach workspaces: MCP entries, the variables of the e2b clients, OpenSSH."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from agentenv.cli.main import CommandError
from agentenv.cli.workspaces.login_file import folder, write_private
from agentenv.cli.workspaces.ssh import configuration, program
from agentenv.client import ApiError
from agentenv.core.gateway.hosts import SANDBOX_HOST

if TYPE_CHECKING:
    from agentenv.client import Client
    from agentenv.client.api import Gateway

NAME = "agentenv"
_YEAR = 365 * 86_400
_SANDBOX_HOST = f"https://{SANDBOX_HOST}."


@dataclass(frozen=True)
class Connection:
    """The service's address, the API key of a tool, and where workspaces are reached."""

    service: str
    key: str
    gateway: Gateway | None


class Tool(Protocol):
    """A tool whose configuration is written and removed."""

    needs_key: bool

    @property
    def file(self) -> Path:
        """Return the file that holds it."""
        ...

    @property
    def shown(self) -> str:
        """Return what was written, without the key."""
        ...

    def write(self, connection: Connection) -> None:
        """Write the configuration, in place of an earlier one."""
        ...

    def remove(self) -> bool:
        """Remove the configuration; return whether there was one."""
        ...


@dataclass
class McpTool:
    """A tool with a JSON file of MCP servers, of which one entry is ours."""

    path: Path
    section: str
    entry: dict[str, Any]
    needs_key: bool = True

    @property
    def file(self) -> Path:
        return self.path

    @property
    def shown(self) -> str:
        return f"the MCP server `{NAME}` in `{self.section}`\n"

    def write(self, connection: Connection) -> None:
        document = _read_json(self.path)
        headers = {"Authorization": f"Bearer {connection.key}"}
        entry = {**self.entry, "url": f"{connection.service}/mcp", "headers": headers}
        document[self.section] = {**document.get(self.section, {}), NAME: entry}
        write_private(self.path, json.dumps(document, indent=2) + "\n")

    def remove(self) -> bool:
        document = _read_json(self.path)
        existed = document.get(self.section, {}).pop(NAME, None) is not None
        if existed:
            write_private(self.path, json.dumps(document, indent=2) + "\n")
        return existed


@dataclass
class E2b:
    """The e2b clients, which read variables of the environment."""

    needs_key: bool = True

    @property
    def file(self) -> Path:
        return folder() / "e2b.env"

    @property
    def shown(self) -> str:
        return f"  set -a; . {self.file}; set +a\n"

    def write(self, connection: Connection) -> None:
        if connection.gateway is None:
            raise CommandError("this environment has no gateway, which the e2b clients need")
        sandboxes = connection.gateway["sandboxes"]
        variables = {"E2B_API_KEY": connection.key, "E2B_API_URL": f"{connection.service}/e2b"}
        if sandboxes.startswith(_SANDBOX_HOST):
            # A fixed address of sandboxes would be that of links to files, too, which have to name theirs.
            variables["E2B_DOMAIN"] = sandboxes.removeprefix(_SANDBOX_HOST)
        else:
            # `agentenv dev` has neither TLS nor names.
            variables["E2B_SANDBOX_URL"] = sandboxes
        write_private(self.file, "".join(f"{name}={value}\n" for name, value in variables.items()))

    def remove(self) -> bool:
        existed = self.file.exists()
        self.file.unlink(missing_ok=True)
        return existed


@dataclass
class OpenSsh:
    """OpenSSH, and with it the remote windows of editors: an included file of its own."""

    needs_key: bool = False

    @property
    def file(self) -> Path:
        return Path.home() / ".ssh" / "config"

    @property
    def shown(self) -> str:
        return "  ssh ID.agentenv\n"

    @property
    def _own(self) -> Path:
        return folder() / "ssh_config"

    def write(self, connection: Connection) -> None:  # noqa: ARG002 - the protocol's
        write_private(self._own, configuration(program()))
        lines = self._others()
        # An Include that comes after a Host would be part of it.
        write_private(self.file, "\n".join([f"Include {self._own}", *lines]) + "\n")

    def remove(self) -> bool:
        existed = self._own.exists()
        self._own.unlink(missing_ok=True)
        if self.file.exists():
            write_private(self.file, "".join(f"{line}\n" for line in self._others()))
        return existed

    def _others(self) -> Sequence[str]:
        text = self.file.read_text(encoding="utf-8") if self.file.exists() else ""
        return [line for line in text.splitlines() if line.strip() != f"Include {self._own}"]


def tool_of(name: str) -> Tool:
    """Return a tool by name."""
    home = Path.home()
    if name == "claude":
        return McpTool(home / ".claude.json", "mcpServers", {"type": "http"})
    if name == "cursor":
        return McpTool(home / ".cursor" / "mcp.json", "mcpServers", {})
    if name == "vscode":
        user = "Library/Application Support" if sys.platform == "darwin" else ".config"
        return McpTool(home / user / "Code" / "User" / "mcp.json", "servers", {"type": "http"})
    return E2b() if name == "e2b" else OpenSsh()


def key_of(client: Client, tool: str) -> str:
    """Return a new key for a tool, in place of its earlier one; the caller's own where an API key creates none."""
    revoke_key(client, tool)
    try:
        created = client.create_key(
            {"name": _key_name(tool), "scopes": ["read", "use", "create", "wake"], "expires_in": _YEAR}
        )
    except ApiError as error:
        if error.kind != "not-allowed":
            raise
        return client.token
    return created["key"]


def revoke_key(client: Client, tool: str) -> None:
    """Revoke the key of a tool, if it has one."""
    try:
        for key in client.list_keys()["items"]:
            if key["name"] == _key_name(tool):
                client.revoke_key(key["id"])
    except ApiError as error:
        # Without a table of keys, or with a key that may not manage others, there is none.
        if error.kind not in {"not-allowed", "not-found"}:
            raise


def _key_name(tool: str) -> str:
    return f"connect {tool}"


def _read_json(path: Path) -> dict[str, Any]:
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise CommandError(f"{path} cannot be read, and stays as it is: {type(error).__name__}") from None
    if not isinstance(document, dict):
        raise CommandError(f"{path} is no JSON object, and stays as it is")
    return document  # pyright: ignore[reportUnknownVariableType] - keys are str
