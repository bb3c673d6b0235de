"""Which plugins a program's packages need, as the engine wants to hear it.

The official host names the plugin of every installed package, and the engine then downloads those that it does not
have; for some of its commands even those that are on PATH. Ours names those that lie in the engine's cache. Any other
the engine looks for when a resource needs it, on PATH too, and then says which one is missing; and a package that is
installed but not used costs nothing.
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


async def listed(python: Interpreter) -> list[dict[str, Any]]:
    """The packages that the interpreter sees."""
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
    printed, complaint = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"{python.path} cannot list its packages: {complaint.decode(errors='replace').strip()}")
    return json.loads(printed)


async def needed(python: Interpreter) -> list[plugin_pb2.PackageDependency]:
    """What the engine is told of the program that the interpreter runs."""
    # Listing packages takes a tenth of a second, for every operation of the engine.
    return dependencies(await listed(python)) if plugins.any_cached() else []


def dependencies(packages: Iterable[dict[str, Any]]) -> list[plugin_pb2.PackageDependency]:
    """The plugins that these packages need and the engine has."""
    found = [dependency(row["name"], row["version"], row["plugin"]) for row in packages]
    return [row for row in found if row is not None and plugins.cached("resource", row.name, row.version) is not None]


def dependency(package: str, version: str, plugin: dict[str, Any] | None) -> plugin_pb2.PackageDependency | None:
    """The plugin that a package needs, or None if it needs none."""
    if package in _WITHOUT_PLUGIN or (plugin is None and not package.startswith("pulumi-")):
        return None
    said = plugin or {"resource": True}
    if not said.get("resource"):
        return None
    needed = said.get("version") or plugin_version(version)
    if not needed:
        return None
    answer = plugin_pb2.PackageDependency(
        name=said.get("name") or package.removeprefix("pulumi-"),
        kind="resource",
        version=needed if needed.startswith("v") else f"v{needed}",
        server=said.get("server") or "",
    )
    if parameter := said.get("parameterization"):
        answer.parameterization.CopyFrom(_parameter(parameter))
    if extension := said.get("extensionParameterization"):
        answer.extension.CopyFrom(_parameter(extension))
    return answer


def _parameter(said: dict[str, Any]) -> plugin_pb2.PackageParameterization:
    return plugin_pb2.PackageParameterization(
        name=said.get("name", ""), version=said.get("version", ""), value=base64.b64decode(said.get("value") or "")
    )


def plugin_version(package_version: str) -> str | None:
    """The plugin's version for a package's, where one follows from the other: `1.2rc1` is `1.2.0-rc.1`."""
    match = _RELEASE.fullmatch(package_version)
    if match is None:
        return None
    numbers = match["numbers"].split(".")
    text = ".".join(numbers + ["0"] * (3 - len(numbers)))
    if match["stage"]:
        text += f"-{_STAGES[match['stage']]}.{match['stage_number']}"
    build = (f"post{match['post']}" if match["post"] else "") + (f"dev{match['dev']}" if match["dev"] else "")
    return f"{text}+{build}" if build else text
