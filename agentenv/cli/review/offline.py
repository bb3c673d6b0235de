"""Preview two revisions with the engine and the stand-ins of the rehearsal: without an account, a state or a secret.

Each revision runs its own code on its own stage, in parallel. The graph of a commit is cached, so that only the working
tree runs again. The cache key has everything else that the graph depends on.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import yaml

from agentenv.cli.review import revision
from agentenv.cli.review.graph import Graph, from_json, graph
from agentenv.cli.review.preview import Call, PreviewFailed
from agentenv.cli.stack_files import settings_of_file, stack_file
from agentenv.cli.stack_yaml import read_document
from agentenv.config import Settings
from agentenv.local import run_folders
from agentenv.rehearsal.stage.cluster import ClusterOptions
from agentenv.rehearsal.stage.stage import stage
from agentenv.rehearsal.tools.progress import Progress, Silent

_PACKAGES = ("pulumi", "pulumi-aws", "pulumi-eks", "pulumi-kubernetes")
_MAX_CACHED = 24  # graphs, of some megabytes each

# Runs the program of a revision with the modules of that revision, not with the installed ones
_RUNNER = '''"""Runs the program of one revision."""

import runpy
import sys

sys.path[:0] = [{program!r}, {tree!r}]
runpy.run_path({program!r} + "/__main__.py", run_name="__main__")
'''


@dataclass(frozen=True)
class DesiredState:
    """The settings of one revision, and the graph of its resources."""

    settings: Settings | None
    graph: Graph


NOTHING = DesiredState(None, {})


def preview_both(
    root: Path, stack: str, base: str | None, progress: Progress | None = None
) -> tuple[DesiredState, DesiredState]:
    """Preview the base and the working tree. A base without the stack has an empty graph."""
    if base:
        revision.commit(root, base)  # fails for an unknown revision, before anything is started
    with tempfile.TemporaryDirectory(prefix="agentenv-base-") as scratch, ThreadPoolExecutor(max_workers=2) as pool:
        before = pool.submit(preview_base, root, stack, base, Path(scratch)) if base else None
        after = preview_tree(root, stack, progress)
        try:
            return (before.result() if before else NOTHING), after
        except PreviewFailed as failure:
            message = f"the program of {base} cannot be previewed, so there is nothing to compare with:\n{failure}"
            raise PreviewFailed(message) from failure


def preview_tree(root: Path, stack: str, progress: Progress | None = None) -> DesiredState:
    """Preview the program of the files under `root`."""
    settings = settings_in(root, stack)
    with stage(progress or Silent()) as opened:
        project = yaml.safe_load((root / "Pulumi.yaml").read_text(encoding="utf-8"))
        program = opened.run.folder / "runner"
        program.mkdir()
        runner = _RUNNER.format(program=str(root / project.get("main", ".")), tree=str(root))
        (program / "__main__.py").write_text(runner, encoding="utf-8")
        config = read_document(stack_file(root, stack)).value["config"]
        if settings is not None:
            opened.environment = {**opened.environment, **ClusterOptions.for_stack(settings).environment(opened.cloud)}
        engine = opened.program(program, stack, config, project)
        preview = Call(engine.pulumi, engine.project, root, stack, engine.environment).preview()
    if preview.refused:
        raise PreviewFailed("\n".join(preview.errors) or "the preview failed without an error message")
    return DesiredState(settings, preview.after)


def settings_in(root: Path, stack: str) -> Settings | None:
    """Return the settings of a stack file, None if this version cannot read them."""
    return settings_of_file(stack_file(root, stack), stack)


def settings_at(root: Path, stack: str, base: str) -> Settings | None:
    """Return the settings of a stack file of another revision."""
    with tempfile.TemporaryDirectory(prefix="agentenv-base-") as scratch:
        tree = revision.unpack(root, revision.commit(root, base), Path(scratch))
        return settings_in(tree, stack) if stack_file(tree, stack).is_file() else None


def cache_folder() -> Path:
    """Return the folder with the cached graphs of commits."""
    return run_folders.cache() / "review"


def preview_base(root: Path, stack: str, base: str, scratch: Path) -> DesiredState:
    """Preview the base, or read its graph from the cache."""
    of_commit = revision.commit(root, base)
    tree = revision.unpack(root, of_commit, scratch)
    if not stack_file(tree, stack).is_file():
        return NOTHING
    cached = cache_folder() / f"{_key(of_commit, stack)}.json"
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        rows = json.loads(cached.read_text(encoding="utf-8"))
        os.utime(cached)
        return DesiredState(settings_in(tree, stack), graph(from_json(row) for row in rows))
    state = preview_tree(tree, stack)
    _store(cached, state.graph)
    return state


def _key(of_commit: str, stack: str) -> str:
    """Return the cache key of a graph: the commit, the stack, the stand-ins and the packages."""
    key = hashlib.sha256("\0".join([of_commit, stack, sys.version, *map(version, _PACKAGES)]).encode())
    for path in (*_stand_ins(), Path(__file__), Path(__file__).with_name("graph.py")):
        key.update(path.name.encode() + b"\0" + path.read_bytes())
    return key.hexdigest()[:32]


def _stand_ins() -> Iterator[Path]:
    from agentenv import rehearsal

    folder = Path(rehearsal.__file__).parent
    yield from sorted(path for ending in ("py", "json", "toml") for path in folder.rglob(f"*.{ending}"))


def _store(path: Path, resources: Graph) -> None:
    """Write a graph to the cache atomically, and delete the oldest files."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as partial:
            json.dump([resource.as_json() for resource in resources.values()], partial)
        Path(partial.name).replace(path)
        cached = sorted(path.parent.glob("*.json"), key=lambda file: file.stat().st_mtime, reverse=True)
        for old in cached[_MAX_CACHED:]:
            old.unlink(missing_ok=True)
