"""The plugins that a program's packages need, as the engine's protocol lists them.

The official host lists the plugin of every installed package, and the engine then downloads missing ones, for some
commands even those on PATH. This host lists only plugins in the engine's cache. The engine looks for any other when a
resource needs it, on PATH too, and reports a missing one then. An installed but unused package costs nothing.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.tools import plugins
from agentenv.rehearsal.tools.python_host import inventory
from agentenv.rehearsal.tools.python_host.protocol import plugin_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agentenv.rehearsal.tools.python_host.interpreter import Interpreter

# Packages named like a provider's, without a plugin and without a file that says so.
_WITHOUT_PLUGIN = {"pulumi-policy", "pulumi-esc-sdk"}
_RELEASE = re.compile(
    r"(?P<numbers>\d+(?:\.\d+)*)(?:(?P<stage>a|b|rc)(?P<stage_number>\d+))?"
    r"(?:\.post(?P<post>\d+))?(?:\.dev(?P<dev>\d+))?"
)
_STAGES = {"a": "alpha", "b": "beta", "rc": "rc"}


async def list_packages(python: Interpreter) -> list[dict[str, Any]]:
    """Return the packages of the interpreter."""
    if python.ours:
        return inventory.packages()
    process = await asyncio.create_subprocess_exec(
        str(python.path),
        "-c",
        Path(inventory.__file__).read_text(encoding="utf-8"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=python.environment(),
    )
    output, errors = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"{python.path} cannot list its packages: {errors.decode(errors='replace').strip()}")
    return json.loads(output)


async def list_dependencies(python: Interpreter) -> list[plugin_pb2.PackageDependency]:
    """Return the plugins of the interpreter's program, for the engine."""
    # Listing packages takes a tenth of a second, for every operation of the engine.
    return dependencies(await list_packages(python)) if plugins.any_cached() else []


def dependencies(packages: Iterable[dict[str, Any]]) -> list[plugin_pb2.PackageDependency]:
    """Return the plugins that these packages need and the engine has."""
    needed_plugins = [dependency(row["name"], row["version"], row["plugin"]) for row in packages]
    return [
        row
        for row in needed_plugins
        if row is not None and plugins.cached("resource", row.name, row.version) is not None
    ]


def dependency(package: str, version: str, plugin: dict[str, Any] | None) -> plugin_pb2.PackageDependency | None:
    """Return the plugin that a package needs, or None."""
    if package in _WITHOUT_PLUGIN or (plugin is None and not package.startswith("pulumi-")):
        return None
    descriptor = plugin or {"resource": True}
    if not descriptor.get("resource"):
        return None
    needed = descriptor.get("version") or plugin_version(version)
    if not needed:
        return None
    result = plugin_pb2.PackageDependency(
        name=descriptor.get("name") or package.removeprefix("pulumi-"),
        kind="resource",
        version=needed if needed.startswith("v") else f"v{needed}",
        server=descriptor.get("server") or "",
    )
    if parameter := descriptor.get("parameterization"):
        result.parameterization.CopyFrom(_parameter(parameter))
    if extension := descriptor.get("extensionParameterization"):
        result.extension.CopyFrom(_parameter(extension))
    return result


def _parameter(parameterization: dict[str, Any]) -> plugin_pb2.PackageParameterization:
    return plugin_pb2.PackageParameterization(
        name=parameterization.get("name", ""),
        version=parameterization.get("version", ""),
        value=base64.b64decode(parameterization.get("value") or ""),
    )


def plugin_version(package_version: str) -> str | None:
    """Return the plugin's version for a package's version, if it can be derived: `1.2rc1` is `1.2.0-rc.1`."""
    match = _RELEASE.fullmatch(package_version)
    if match is None:
        return None
    numbers = match["numbers"].split(".")
    text = ".".join(numbers + ["0"] * (3 - len(numbers)))
    if match["stage"]:
        text += f"-{_STAGES[match['stage']]}.{match['stage_number']}"
    build = (f"post{match['post']}" if match["post"] else "") + (f"dev{match['dev']}" if match["dev"] else "")
    return f"{text}+{build}" if build else text
