"""One rehearsal's stage: a run folder, the engine's tools, the simulated cloud, and projects to bring up on it.

Opened, everything is up and answers; closed, nothing of it is left, whatever happened between. Two stages never meet:
each has its own folder, ports and state.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from agentenv.rehearsal import tools
from agentenv.rehearsal.controlplane.plane import PlaneFailed
from agentenv.rehearsal.controlplane.ports import DIRECTLY
from agentenv.rehearsal.providers.common import unsimulated
from agentenv.rehearsal.stage import cleanup_process as warden
from agentenv.rehearsal.stage import processes
from agentenv.rehearsal.stage import run_folders as runs
from agentenv.rehearsal.stage.cluster import TOOLS, ClusterSide, Serving, cluster_side
from agentenv.rehearsal.stage.engine import Engine, Event
from agentenv.rehearsal.stage.engine_environment import REGION, cleaned, located, pretended, surroundings
from agentenv.rehearsal.tools import plugins
from agentenv.rehearsal.tools.progress import Progress

_CLOUD_SECONDS = 60.0
_ROOM = 100 * 2**20  # bytes; a rehearsal writes some ten megabytes of logs and state
# Kept by AWS too after a stack is gone: a key waits out its window
_OUTLIVES_DESTROY = frozenset({"kms.keys_pending"})


class StageError(Exception):
    """What kept a stage from opening, in words for the person."""


@dataclass
class Stage:
    """What a rehearsal plays on. Open one with `stage()`."""

    run: runs.Run
    pulumi: Path
    cloud: str
    environment: Mapping[str, str]
    before: dict[str, list[str]] = field(repr=False)
    cluster: ClusterSide | None = None
    kept: bool = False
    seconds: float = 0.0  # it took to open, once the tools were there

    def project(self, root: Path, stack: str, on_step: Callable[[str, Event], None] | None = None) -> Engine:
        """The program under `root`, with that stack's settings, as a project of this run.

        The engine writes an encryption salt beside the settings, so they are copied: a rehearsal never writes into the
        repository.
        """
        settings = yaml.safe_load((root / "Pulumi.yaml").read_text(encoding="utf-8"))
        source = root / settings.get("stackConfigDir", ".") / f"Pulumi.{stack}.yaml"
        if not source.is_file():
            raise StageError(f"there is no stack file {source}")
        config = yaml.safe_load(source.read_text(encoding="utf-8")) or {}
        return self.program(root / settings.get("main", "."), stack, config.get("config") or {}, settings, on_step)

    def program(
        self,
        main: Path,
        stack: str,
        config: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        on_step: Callable[[str, Event], None] | None = None,
    ) -> Engine:
        """A folder with a program, as a project of this run of its own; its stack is made at once."""
        folder = self.run.folder / "projects" / f"{main.name}-{stack}-{secrets.token_hex(2)}"
        (folder / "config").mkdir(parents=True)
        (folder / "logs").mkdir()
        (folder / "program").symlink_to(main.resolve(), target_is_directory=True)
        described = {
            "name": "rehearsed",
            **(settings or {}),
            "main": "program",
            "stackConfigDir": "config",
            "runtime": {"name": "python", "options": {"toolchain": "pip", "virtualenv": sys.prefix}},
        }
        (folder / "Pulumi.yaml").write_text(yaml.safe_dump(described, sort_keys=False), encoding="utf-8")
        (folder / "config" / f"Pulumi.{stack}.yaml").write_text(
            yaml.safe_dump({"config": dict(config or {})}, sort_keys=False), encoding="utf-8"
        )
        (folder / "state").mkdir()
        # State of its own, too: two projects of one stage may have the same name and stack
        around = {
            **self.environment,
            **located(str((config or {}).get("aws:region", REGION))),
            "PULUMI_BACKEND_URL": f"file://{folder / 'state'}",
        }
        engine = Engine(self.pulumi, folder, stack, around, folder / "logs", on_step)
        engine.init()
        return engine

    def ask(self, what: str) -> Any:
        """One of the simulated cloud's own answers: `census`, `kept`, `unknown`, `calls`."""
        try:
            with DIRECTLY.open(f"{self.cloud}/_cloud/{what}", timeout=30) as answer:
                return json.load(answer)
        except OSError as failure:
            raise StageError(f"the simulated cloud does not answer: {failure}\n{self.last_words()}") from failure

    def pretended(self) -> list[str]:
        """What plugins only pretended, and what of."""
        return sorted({row["what"] for row in unsimulated.read_records(pretended(self.run.folder))})

    def last_words(self) -> str:
        """The end of the simulated cloud's log."""
        return _last_words(_cloud_log(self.run))

    def left(self) -> list[str]:
        """What exists in the cloud, and in its cluster, that did not exist when the stage opened."""
        now: dict[str, list[str]] = self.ask("census")
        in_cluster = self.cluster.left() if self.cluster else []
        return in_cluster + [
            f"{kind} {name}"
            for kind, names in sorted(now.items())
            if kind not in _OUTLIVES_DESTROY
            for name in sorted(set(names) - set(self.before.get(kind, [])))
        ]

    def keep(self, engine: Engine) -> dict[str, object]:
        """Leave everything up when the stage closes; returns how to use that project and end it all."""
        around = {**engine.environment, "PATH": f"{self.pulumi.parent}{os.pathsep}{engine.environment['PATH']}"}
        record: dict[str, object] = {
            "run": self.run.id,
            "folder": str(self.run.folder),
            "pulumi": str(self.pulumi),
            "environment": {name: value for name, value in around.items() if os.environ.get(name) != value},
        }
        self.run.keep(record)
        self.kept = True
        if self.cluster:
            self.cluster.plane.kept = True
        return record


@contextmanager
def stage(
    progress: Progress, *, under: Path | None = None, port: int = 0, cluster: Serving | None = None
) -> Iterator[Stage]:
    """Open a stage, and clear it away at the end unless it was told to stay.

    Run folders go `under` a folder, the user cache's unless one is given; the cloud takes a free port unless told one.
    With a `cluster` to serve, a control plane is raised for it; without, nothing answers at a cluster's address.
    """
    runs.sweep(under)
    toolbox = tools.ensure(["pulumi", "language-python-exec", *(TOOLS if cluster else ())], progress)
    began = time.monotonic()
    try:
        run = runs.create(under)
    except OSError as failure:
        where = failure.filename or under or runs.cache()
        raise StageError(
            f"the run's folder cannot be written: {where}: {failure.strerror}; "
            "free some room, or set AGENTENV_CACHE to a folder that can be written"
        ) from failure
    if (free := shutil.disk_usage(run.folder).free) < _ROOM:
        run.remove()
        raise StageError(
            f"{free // 2**20} MB are free where {run.folder} was to be, and a rehearsal needs {_ROOM // 2**20}; "
            "free some room, or set AGENTENV_CACHE to a folder elsewhere"
        )
    keeper = warden.hire(run.id, run.folder)
    opened: Stage | None = None
    ending = ExitStack()
    try:
        try:
            opened = _open(run, toolbox, port, cluster)
            if cluster:
                side = cluster_side(toolbox, run.folder / "plane", opened.environment, opened.cloud)
                opened.cluster = ending.enter_context(side)
        except PlaneFailed as failure:
            raise StageError(f"the control plane: {failure}") from failure
        except OSError as failure:
            raise StageError(f"the stage cannot be set up in {run.folder}: {failure.strerror or failure}") from failure
        opened.seconds = time.monotonic() - began
        yield opened
    finally:
        ending.close()
        if opened is not None and opened.kept:
            run.release()
            warden.dismiss(keeper, "kept")
        else:
            processes.end(run.id)
            run.remove()
            warden.dismiss(keeper, "done")


def _open(run: runs.Run, toolbox: tools.Toolbox, port: int, cluster: Serving | None) -> Stage:
    shims = run.folder / "shims"
    for name in ("home", "shims"):
        (run.folder / name).mkdir()
    _borrow_plugins(run.folder / "home")
    # The engine keeps a second log of everything, encrypted, unless it finds no folder to keep it in
    (run.folder / "home" / "logs").touch()
    (run.folder / "passphrase").write_text(secrets.token_urlsafe(24), encoding="utf-8")
    pulumi = toolbox.path("pulumi")
    executor = toolbox.path("language-python-exec")
    plugins.shims(shims, Path(sys.executable), executor=executor, pulumi=pulumi)
    address = _raise_cloud(run, port)
    around = surroundings(run.id, run.folder, cloud=address, shims=shims)
    if cluster:
        around |= cluster.around(address)
    opened = Stage(run, pulumi, address, around, {})
    opened.before = opened.ask("census")
    return opened


def _borrow_plugins(home: Path) -> None:
    """Let the engine see the plugins that the person has installed, without sharing anything else of their home."""
    installed = Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi") / "plugins"
    if installed.is_dir():
        (home / "plugins").symlink_to(installed.resolve(), target_is_directory=True)


def _raise_cloud(run: runs.Run, port: int) -> str:
    ready = run.folder / "cloud.json"
    log = _cloud_log(run)
    server = processes.start(
        [sys.executable, "-m", "agentenv.rehearsal.cloud", "--port", str(port), "--ready-file", str(ready)],
        environment={**cleaned(), processes.MARK: run.id},
        log=log,
        folder=run.folder,
    )
    deadline = time.monotonic() + _CLOUD_SECONDS
    while not ready.exists():
        if server.poll() is not None or time.monotonic() > deadline:
            raise StageError(f"the simulated cloud did not come up; it said:\n{_last_words(log)}")
        time.sleep(0.05)
    return json.loads(ready.read_text(encoding="utf-8"))["url"]


def _cloud_log(run: runs.Run) -> Path:
    return run.logs / "cloud.log"


def _last_words(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").strip().splitlines()[-10:]) if log.exists() else ""
