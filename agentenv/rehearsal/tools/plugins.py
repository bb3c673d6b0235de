"""Find the engine's installed plugins, and write shims for the stand-ins of missing ones.

The engine looks for a plugin on PATH, where any version will do; a language host also beside the `pulumi` program;
then in its plugin cache, where only the version that the SDK requests will do. A shim on PATH would win over an
official plugin in the cache, so a shim is written only where the engine would find nothing.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from agentenv.rehearsal.tools import program_versions
from agentenv.rehearsal.tools.versions import Version, parse

EXECUTOR = "pulumi-language-python-exec"
_EXECUTOR_TOOL = "language-python-exec"
_MARK = "# a stand-in of agentenv rehearse"
_TRUE = {"1", "true", "t"}


@dataclass(frozen=True)
class Official:
    """An official plugin that the engine would use."""

    path: Path
    source: str  # "path", "beside pulumi" or "plugin cache"
    version: str


@dataclass(frozen=True)
class StandIn:
    """A plugin that replaces a missing official one."""

    kind: str
    name: str
    module: str

    @property
    def program(self) -> str:
        """Return the name under which the engine looks for it."""
        return f"pulumi-{self.kind}-{self.name}"


@dataclass(frozen=True)
class Shim:
    """A shim: the program that the engine starts, and its module."""

    name: str
    path: Path
    module: str


STAND_INS = (
    StandIn("language", "python", "agentenv.rehearsal.tools.python_host.language_host"),
    StandIn("resource", "aws", "agentenv.rehearsal.providers.aws"),
    StandIn("resource", "eks", "agentenv.rehearsal.providers.eks"),
    StandIn("resource", "kubernetes", "agentenv.rehearsal.providers.kubernetes"),
)
# Programs that plugins and kubeconfigs run, beside the plugins themselves.
COMMANDS = {"aws": "agentenv.rehearsal.providers.eks.aws_command"}


def find(
    kind: str, name: str, version: str | None = None, *, pulumi: Path | None = None, home: Path | None = None
) -> Path | None:
    """Return the path of the official plugin that the engine would use, or None."""
    official = locate(kind, name, version, pulumi=pulumi, home=home)
    return official.path if official else None


def locate(
    kind: str,
    name: str,
    version: str | None = None,
    *,
    pulumi: Path | None = None,
    home: Path | None = None,
) -> Official | None:
    """Return the official plugin that the engine would use, and its source.

    `pulumi` is the program that will run (else the one on PATH), `home` its home (else PULUMI_HOME, else ~/.pulumi).
    """
    program = f"pulumi-{kind}-{name}"
    if os.environ.get("PULUMI_IGNORE_AMBIENT_PLUGINS", "").lower() not in _TRUE:
        for path in program_versions.candidates(program):
            if not _is_shim(path):
                return Official(path, "path", _reported_version(kind, path))
    if kind == "language" and (beside := _beside(program, pulumi)) is not None:
        return Official(beside, "beside pulumi", _reported_version(kind, beside))
    return cached(kind, name, version, home)


def requested(package: str) -> str | None:
    """Return the plugin version that the installed SDK of a package requests, without importing it."""
    spec = importlib.util.find_spec(f"pulumi_{package.replace('-', '_')}")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        try:
            return str(json.loads((Path(folder) / "pulumi-plugin.json").read_text(encoding="utf-8"))["version"])
        except (OSError, ValueError, KeyError):
            continue
    return None


def missing_official(pulumi: Path | None = None) -> list[str]:
    """Return how to install each official plugin that the engine would not find; `pulumi` as in `locate`."""
    commands: list[str] = []
    for stand_in in STAND_INS:
        version = requested_version(stand_in)
        if locate(stand_in.kind, stand_in.name, version, pulumi=pulumi) is None:
            # A language host is installed beside `pulumi`.
            install = f"pulumi plugin install {stand_in.kind} {stand_in.name} {version}"
            commands.append(install if stand_in.kind == "resource" else f"put {stand_in.program} on PATH")
    return commands


def requested_version(stand_in: StandIn) -> str | None:
    """Return the version of the official plugin that the engine would request; None (any) for a language host."""
    return requested(stand_in.name) if stand_in.kind == "resource" else None


def shims(
    folder: Path, python: Path, *, executor: Path | None = None, pulumi: Path | None = None, home: Path | None = None
) -> list[Shim]:
    """Write a shim for every missing plugin and command, to a folder that is then added to PATH.

    `executor` is what `ensure(["language-python-exec"], …)` yields; by default the one in the cache.
    """
    written_shims: list[Shim] = []
    folder.mkdir(parents=True, exist_ok=True)
    for stand_in in STAND_INS:
        if find(stand_in.kind, stand_in.name, requested_version(stand_in), pulumi=pulumi, home=home) is not None:
            continue
        arguments: list[str] = []
        if stand_in.kind == "language":
            # A copy: the cache may be emptied while a kept rehearsal still runs.
            beside = folder / EXECUTOR
            shutil.copyfile(executor or _executor(), beside)
            beside.chmod(0o755)
            arguments = ["--use-executor", str(beside)]
        path = folder / stand_in.program
        path.write_text(_script(stand_in.module, python, arguments), encoding="utf-8")
        path.chmod(0o755)
        written_shims.append(Shim(stand_in.program, path, stand_in.module))
    for name, module in COMMANDS.items():
        if all(_is_shim(path) for path in program_versions.candidates(name)):
            path = folder / name
            path.write_text(_script(module, python, []), encoding="utf-8")
            path.chmod(0o755)
            written_shims.append(Shim(name, path, module))
    return written_shims


def _script(module: str, python: Path, arguments: list[str]) -> str:
    # The engine starts plugins in the program's folder: isolated mode keeps the modules there, and those of a
    # PYTHONPATH, from shadowing ours. What the plugin starts in turn sees the environment as it was.
    command = [str(python), "-I", "-m", module, *arguments]
    return f'#!/bin/sh\n{_MARK}\nexec {shlex.join(command)} "$@"\n'


def _executor() -> Path:
    from agentenv.rehearsal.tools import catalog, toolbox

    tool = toolbox.find(catalog.recipe(_EXECUTOR_TOOL))
    return toolbox.Toolbox({tool.name: tool} if tool.path else {}).path(tool.name)


def _is_shim(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return _MARK.encode() in file.read(200)
    except OSError:
        return False


def _home() -> Path:
    home = os.environ.get("PULUMI_HOME")
    return Path(home) if home else Path.home() / ".pulumi"


def _beside(program: str, pulumi: Path | None) -> Path | None:
    if pulumi is None:
        pulumi = next(program_versions.candidates("pulumi"), None)
    if pulumi is None:
        return None
    path = pulumi.resolve().parent / program
    return path if os.access(path, os.X_OK) and path.is_file() and not _is_shim(path) else None


def any_cached() -> bool:
    """Return whether the engine's plugin cache contains any provider."""
    return next((_home() / "plugins").glob("resource-*"), None) is not None


def cached(kind: str, name: str, version: str | None, home: Path | None = None) -> Official | None:
    """Return a plugin of the engine's plugin cache: of that version, or the newest if none is given."""
    program = f"pulumi-{kind}-{name}"
    prefix = f"{kind}-{name}-v"
    installed: list[tuple[Version, Path]] = []
    for folder in ((home or _home()) / "plugins").glob(f"{prefix}*"):
        cached_version = parse(folder.name.removeprefix(prefix))
        # The marker beside it says that the engine has not finished installing it.
        if cached_version is None or not folder.is_dir() or folder.with_name(f"{folder.name}.partial").exists():
            continue
        if version is not None and cached_version != parse(version):
            continue
        if (folder / program).is_file() or (folder / "PulumiPlugin.yaml").is_file():
            installed.append((cached_version, folder))
    if not installed:
        return None
    best, folder = max(installed)
    path = folder / program
    return Official(path if path.is_file() else folder, "plugin cache", str(best))


def _reported_version(kind: str, path: Path) -> str:
    """Return the version of a language host; a provider would have to be started for that, so it is "any"."""
    if kind != "language":
        return "any"
    version = program_versions.version_of(path, ("--version",))
    return "unknown" if isinstance(version, str) else str(version)
