"""Previews two revisions under the engine in the rehearsal's stand-ins: no account, no state, no secret.

Each program runs with its own revision's code on a stage of its own, beside the other. What a commit wants is kept in
the user's cache, so that only the working tree has to be run again; whatever else the answer hangs on is in the key.
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
from agentenv.rehearsal.stage import run_folders
from agentenv.rehearsal.stage.cluster import ClusterOptions
from agentenv.rehearsal.stage.stage import stage
from agentenv.rehearsal.tools.progress import Progress, Silent

_PACKAGES = ("pulumi", "pulumi-aws", "pulumi-eks", "pulumi-kubernetes")
_MOST_KEPT = 24  # graphs, of some megabytes each

# Runs a revision's program with that revision's modules, whatever is installed beside the Python that runs it
_RUNNER = '''"""Runs the program of one revision."""

import runpy
import sys

sys.path[:0] = [{program!r}, {tree!r}]
runpy.run_path({program!r} + "/__main__.py", run_name="__main__")
'''


@dataclass(frozen=True)
class Desired:
    """What one revision wants: its settings as we read them, and the graph of its resources."""

    settings: Settings | None
    wanted: Graph


NOTHING = Desired(None, {})


def both(root: Path, stack: str, base: str | None, progress: Progress | None = None) -> tuple[Desired, Desired]:
    """What the base and the working tree want; a base without that stack wants nothing."""
    news = progress or Silent()
    if base:
        revision.commit(root, base)  # a revision that is none is refused before anything is started
    with tempfile.TemporaryDirectory(prefix="agentenv-base-") as scratch, ThreadPoolExecutor(max_workers=2) as pool:
        before = pool.submit(of_base, root, stack, base, Path(scratch)) if base else None
        after = desired(root, stack, news)
        try:
            return (before.result() if before else NOTHING), after
        except PreviewFailed as failure:
            said = f"the program of {base} does not run here, so there is nothing to compare with:\n{failure}"
            raise PreviewFailed(said) from failure


def desired(root: Path, stack: str, progress: Progress | None = None) -> Desired:
    """What the files under `root` want, by running their program."""
    settings = settings_in(root, stack)
    with stage(progress or Silent()) as opened:
        described = yaml.safe_load((root / "Pulumi.yaml").read_text(encoding="utf-8"))
        program = opened.run.folder / "runner"
        program.mkdir()
        runner = _RUNNER.format(program=str(root / described.get("main", ".")), tree=str(root))
        (program / "__main__.py").write_text(runner, encoding="utf-8")
        config = read_document(stack_file(root, stack)).value["config"]
        if settings is not None:
            opened.environment = {**opened.environment, **ClusterOptions.for_stack(settings).environment(opened.cloud)}
        engine = opened.program(program, stack, config, described)
        found = Call(engine.pulumi, engine.project, root, stack, engine.environment).preview()
    if found.refused:
        raise PreviewFailed("\n".join(found.errors) or "the engine refused the program and did not say why")
    return Desired(settings, found.after)


def settings_in(root: Path, stack: str) -> Settings | None:
    """The settings in a stack file, None where this version of ours cannot read them."""
    return settings_of_file(stack_file(root, stack), stack)


def settings_at(root: Path, stack: str, base: str) -> Settings | None:
    """The settings in a stack file of another revision."""
    with tempfile.TemporaryDirectory(prefix="agentenv-base-") as scratch:
        tree = revision.unpack(root, revision.commit(root, base), Path(scratch))
        return settings_in(tree, stack) if stack_file(tree, stack).is_file() else None


def kept_in() -> Path:
    """Where the graphs of commits are kept."""
    return run_folders.cache() / "review"


def of_base(root: Path, stack: str, base: str, scratch: Path) -> Desired:
    """What the base wants: from the cache where its commit was run before, else by running it."""
    of_commit = revision.commit(root, base)
    tree = revision.unpack(root, of_commit, scratch)
    if not stack_file(tree, stack).is_file():
        return NOTHING
    kept = kept_in() / f"{_key(of_commit, stack)}.json"
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        rows = json.loads(kept.read_text(encoding="utf-8"))
        os.utime(kept)
        return Desired(settings_in(tree, stack), graph(from_json(row) for row in rows))
    found = desired(tree, stack)
    _keep(kept, found.wanted)
    return found


def _key(of_commit: str, stack: str) -> str:
    """Everything that the graph of a commit hangs on: the commit, the stack, the stand-ins, the packages."""
    found = hashlib.sha256("\0".join([of_commit, stack, sys.version, *map(version, _PACKAGES)]).encode())
    for path in (*_stand_ins(), Path(__file__), Path(__file__).with_name("graph.py")):
        found.update(path.name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:32]


def _stand_ins() -> Iterator[Path]:
    from agentenv import rehearsal

    folder = Path(rehearsal.__file__).parent
    yield from sorted(path for ending in ("py", "json", "toml") for path in folder.rglob(f"*.{ending}"))


def _keep(path: Path, wanted: Graph) -> None:
    """Write a graph whole or not at all, and let the oldest go."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as half:
            json.dump([resource.as_json() for resource in wanted.values()], half)
        Path(half.name).replace(path)
        kept = sorted(path.parent.glob("*.json"), key=lambda one: one.stat().st_mtime, reverse=True)
        for old in kept[_MOST_KEPT:]:
            old.unlink(missing_ok=True)
