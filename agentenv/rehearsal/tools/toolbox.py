"""Find tools on PATH if they are new enough, else in the cache, else build them.

`survey` lists what exists and changes nothing; `ensure` makes every requested tool available.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agentenv.rehearsal.tools import build, cache, catalog, go_compiler, plugins, program_versions
from agentenv.rehearsal.tools.catalog import ModuleFile, Program, Recipe
from agentenv.rehearsal.tools.errors import BuildFailed, NoSources, ToolError, UnknownTool
from agentenv.rehearsal.tools.progress import span
from agentenv.rehearsal.tools.versions import need

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from agentenv.rehearsal.tools.progress import Progress


@dataclass(frozen=True)
class Tool:
    """A tool and its source; an absent one has no path."""

    name: str
    version: str
    source: str  # "path", "cache" or "absent"
    path: Path | None
    detail: str = ""


@dataclass(frozen=True)
class Toolbox:
    """Tools that are available."""

    tools: Mapping[str, Tool] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)  # the optional ones that are not available, and why

    def path(self, name: str) -> Path:
        """Return the path of a tool."""
        tool = self.tools.get(name)
        if tool is None or tool.path is None:
            raise UnknownTool(f"'{name}' is not in this toolbox; it holds {', '.join(sorted(self.tools)) or 'nothing'}")
        return tool.path


def survey() -> list[Tool]:
    """Return every tool of the catalog as it would be used now; nothing is built."""
    tools: dict[str, Tool] = {}
    for row in catalog.RECIPES:
        tools[row.name] = find(row, _engine(tools))
    return list(tools.values())


def ensure(names: Sequence[str], progress: Progress, optional: Sequence[str] = ()) -> Toolbox:
    """Find the tools, and build the missing ones; without an `optional` one the toolbox says why it lacks it."""
    tools: dict[str, Tool] = {}
    missing: dict[str, str] = {}
    for name in (*names, *optional):
        row = catalog.recipe(name)
        tool = find(row, _engine(tools))
        if tool.detail:
            progress.note(tool.detail)
        try:
            tools[name] = tool if tool.path is not None else _make(row, progress)
        except ToolError as error:
            if name not in optional:
                raise
            progress.note(f"{name} is not available: {error}")
            missing[name] = str(error)
    return Toolbox(tools, missing)


def find(row: Recipe, pulumi: Path | None = None) -> Tool:
    """Return the tool from PATH or the cache; `detail` lists what was skipped.

    `pulumi` is the engine that will run, as the official plugins beside it count.
    """
    skipped: list[str] = []
    on_path: tuple[Path, str] | None = None
    if isinstance(row, ModuleFile):
        on_path = _beside_official(row, pulumi)
    elif row.sources is None or not catalog.has_sources(row):  # a checkout runs its own sources
        on_path = _on_path(row, skipped)
    detail = "; ".join(skipped)
    if on_path is not None:
        path, version = on_path
        return Tool(row.name, version, "path", path, detail)
    path = _cached(row)
    if path is not None:
        return Tool(row.name, row.version.removeprefix("v"), "cache", path, detail)
    return Tool(row.name, row.version.removeprefix("v"), "absent", None, detail)


def effort(row: Recipe) -> str:
    """Return what it would take to get an absent tool."""
    if not catalog.has_sources(row):
        return "is built from a checkout of the project"
    verb = "built" if isinstance(row, Program) else "fetched"
    return f"would be {verb}, about {span(row.minutes * 60)}"


def _on_path(row: Program, skipped: list[str]) -> tuple[Path, str] | None:
    for path in program_versions.candidates(row.name, row.assets):
        version = program_versions.version_of(path, row.version_arguments)
        if isinstance(version, str):
            skipped.append(f"{path} is passed over: {version}")
        elif not row.takes(version):
            skipped.append(f"{path} is passed over: it is version {version}, and {row.accepted_versions()} is needed")
        else:
            return path, str(version)
    return None


def _engine(tools: Mapping[str, Tool]) -> Path | None:
    return tools["pulumi"].path if "pulumi" in tools else None


def _beside_official(row: ModuleFile, pulumi: Path | None) -> tuple[Path, str] | None:
    """Return the file of the official plugin; then that plugin uses it, and the fetched one is not needed."""
    official = plugins.locate(*row.beside, pulumi=pulumi) if row.beside else None
    if official is None:
        return None
    # Installed programs are often links into the folder where their companions lie.
    path = official.path.resolve().parent / f"pulumi-{row.name}"
    return (path, official.version) if path.is_file() else None


def _cached(row: Recipe) -> Path | None:
    return cache.lookup(catalog.key(row), row.name) if catalog.has_sources(row) else None


def _make(row: Recipe, progress: Progress) -> Tool:
    """Build a tool into the cache, or wait for another process that is building it."""
    if not catalog.has_sources(row):
        raise NoSources(f"{row.name} is built from a checkout of the project, and this is none: put it on PATH")
    key = catalog.key(row)
    # Before anything is created, so that an error leaves nothing behind.
    go = go_compiler.find(catalog.least_go(row), progress.note)
    cache.require_writable()
    verb = "Building" if isinstance(row, Program) else "Fetching"
    title = f"{verb} {row.name} {row.version.removeprefix('v')}, once for this machine"
    noted = False
    with progress.task(title, row.minutes) as task:

        def waiting(holder: str) -> None:
            nonlocal noted
            if not noted:
                noted = True
                progress.note(f"{row.name} is already being built by process {holder}; waiting for it")
            task.doing(f"waiting for process {holder}, which builds it")

        with cache.locked(key, waiting):
            path = _cached(row)
            if path is None:
                with cache.workplace(key) as folder:
                    if isinstance(row, Program):
                        built = build.build(row, go, folder, task)
                        _check(row, built)
                    else:
                        build.fetch(row, go, folder, task)
                    metadata = {"name": row.name, "version": row.version, "go": str(go.version)}
                    path = cache.publish(key, folder, row.name, metadata)
    return Tool(row.name, row.version.removeprefix("v"), "cache", path)


def _check(row: Program, path: Path) -> None:
    """Raise if a built program does not print its own version."""
    version = program_versions.version_of(path, row.version_arguments)
    if version != need(row.version):
        raise BuildFailed(
            f"'{row.name}' was built, but what came out is not version {row.version}: "
            f"{version if isinstance(version, str) else f'it says {version}'}"
        )
