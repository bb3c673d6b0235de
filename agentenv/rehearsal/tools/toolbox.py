"""Where a tool comes from: PATH if what stands there is new enough, else the cache, else it is built.

`survey` says what there is and touches nothing; `ensure` sees to it that everything asked for is there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agentenv.rehearsal.tools import build, cache, catalog, go_compiler, plugins, program_versions
from agentenv.rehearsal.tools.catalog import ModuleFile, Program, Recipe
from agentenv.rehearsal.tools.errors import BuildFailed, UnknownTool
from agentenv.rehearsal.tools.progress import span
from agentenv.rehearsal.tools.versions import need

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from agentenv.rehearsal.tools.progress import Progress


@dataclass(frozen=True)
class Tool:
    """A tool and where it comes from; one that is absent has no path."""

    name: str
    version: str
    source: str  # "path", "cache" or "absent"
    path: Path | None
    detail: str = ""


@dataclass(frozen=True)
class Toolbox:
    """Tools that are there."""

    tools: Mapping[str, Tool] = field(default_factory=dict)

    def path(self, name: str) -> Path:
        """Where the tool is."""
        tool = self.tools.get(name)
        if tool is None or tool.path is None:
            raise UnknownTool(f"'{name}' is not in this toolbox; it holds {', '.join(sorted(self.tools)) or 'nothing'}")
        return tool.path


def survey() -> list[Tool]:
    """Every tool there is a recipe for, as it would be used now; nothing is built."""
    found: dict[str, Tool] = {}
    for row in catalog.RECIPES:
        found[row.name] = find(row, _engine(found))
    return list(found.values())


def ensure(names: Sequence[str], progress: Progress) -> Toolbox:
    """Find the tools, and build those that are not there."""
    found: dict[str, Tool] = {}
    for name in names:
        row = catalog.recipe(name)
        tool = find(row, _engine(found))
        if tool.detail:
            progress.note(tool.detail)
        found[name] = tool if tool.path is not None else _make(row, progress)
    return Toolbox(found)


def find(row: Recipe, pulumi: Path | None = None) -> Tool:
    """The tool if it is on PATH or in the cache; `detail` says what was passed over.

    `pulumi` is the engine that will run, as the official plugins beside it count.
    """
    refused: list[str] = []
    on_path = _on_path(row, refused) if isinstance(row, Program) else _beside_official(row, pulumi)
    detail = "; ".join(refused)
    if on_path is not None:
        path, version = on_path
        return Tool(row.name, version, "path", path, detail)
    kept = _kept(row)
    if kept is not None:
        return Tool(row.name, row.version.removeprefix("v"), "cache", kept, detail)
    return Tool(row.name, row.version.removeprefix("v"), "absent", None, detail)


def effort(row: Recipe) -> str:
    """What it would take to have a tool that is absent."""
    verb = "built" if isinstance(row, Program) else "fetched"
    return f"would be {verb}, about {span(row.minutes * 60)}"


def _on_path(row: Program, refused: list[str]) -> tuple[Path, str] | None:
    for path in program_versions.candidates(row.name, row.assets):
        version = program_versions.version_of(path, row.ask)
        if isinstance(version, str):
            refused.append(f"{path} is passed over: {version}")
        elif not row.takes(version):
            refused.append(f"{path} is passed over: it is version {version}, and {row.wanted()} is needed")
        else:
            return path, str(version)
    return None


def _engine(found: Mapping[str, Tool]) -> Path | None:
    return found["pulumi"].path if "pulumi" in found else None


def _beside_official(row: ModuleFile, pulumi: Path | None) -> tuple[Path, str] | None:
    """The file as the official plugin brings it; then that plugin uses it, and ours never will."""
    official = plugins.locate(*row.beside, pulumi=pulumi) if row.beside else None
    if official is None:
        return None
    # Installed programs are often links into the folder where their companions lie.
    path = official.path.resolve().parent / f"pulumi-{row.name}"
    return (path, official.version) if path.is_file() else None


def _kept(row: Recipe) -> Path | None:
    return cache.lookup(catalog.key(row), row.name)


def _make(row: Recipe, progress: Progress) -> Tool:
    """Build it into the cache, unless somebody else is at it: then wait for them and take theirs."""
    key = catalog.key(row)
    # Before anything is created: a refusal should leave no trace.
    go = go_compiler.find(catalog.least_go(row), progress.note)
    cache.require_writable()
    verb = "Building" if isinstance(row, Program) else "Fetching"
    title = f"{verb} {row.name} {row.version.removeprefix('v')}, once for this machine"
    told = False
    with progress.task(title, row.minutes) as task:

        def waiting(holder: str) -> None:
            nonlocal told
            if not told:
                told = True
                progress.note(f"{row.name} is already being built by process {holder}; waiting for it")
            task.doing(f"waiting for process {holder}, which builds it")

        with cache.locked(key, waiting):
            path = _kept(row)
            if path is None:
                with cache.workplace(key) as folder:
                    if isinstance(row, Program):
                        built = build.build(row, go, folder, task)
                        _check(row, built)
                    else:
                        build.fetch(row, go, folder, task)
                    about = {"name": row.name, "version": row.version, "go": str(go.version)}
                    path = cache.publish(key, folder, row.name, about)
    return Tool(row.name, row.version.removeprefix("v"), "cache", path)


def _check(row: Program, path: Path) -> None:
    """A program that does not say its own version right is not kept."""
    version = program_versions.version_of(path, row.ask)
    if version != need(row.version):
        raise BuildFailed(
            f"'{row.name}' was built, but what came out is not version {row.version}: "
            f"{version if isinstance(version, str) else f'it says {version}'}"
        )
