"""One rehearsal's stage: a run folder, the engine's tools, the simulated cloud, and projects to deploy on it.

Once opened, everything is up and answers; once closed, nothing of it remains. Stages are isolated: each has its own
folder, ports and state.
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

from agentenv.local import cleanup_process, processes, run_folders
from agentenv.rehearsal import tools
from agentenv.rehearsal.controlplane.plane import PlaneFailed
from agentenv.rehearsal.controlplane.ports import DIRECTLY
from agentenv.rehearsal.controlplane.sandboxes.launcher import LATENCYFS
from agentenv.rehearsal.controlplane.sandboxes.launcher import TOOLS as SANDBOX_TOOLS
from agentenv.rehearsal.providers.common import unsimulated
from agentenv.rehearsal.stage.cluster import TOOLS, ClusterOptions, RehearsalCluster, rehearsal_cluster
from agentenv.rehearsal.stage.engine import Engine, Event
from agentenv.rehearsal.stage.engine_environment import (
    REGION,
    clean_environment,
    engine_environment,
    not_simulated_file,
    region_variables,
)
from agentenv.rehearsal.tools import plugins
from agentenv.rehearsal.tools.progress import Progress

_CLOUD_SECONDS = 60.0
_MINIMUM_DISK_SPACE = 100 * 2**20  # bytes; a rehearsal writes about ten megabytes of logs and state
# AWS keeps these too after a stack is destroyed: a key waits for its deletion window
_OUTLIVES_DESTROY = frozenset({"kms.keys_pending"})


class StageError(Exception):
    """The stage could not be opened; the message is for the user."""


@dataclass
class Stage:
    """The environment of a rehearsal. Open one with `stage()`."""

    run: run_folders.Run
    pulumi: Path
    cloud: str
    environment: Mapping[str, str]
    baseline: dict[str, list[str]] = field(repr=False)
    cluster: RehearsalCluster | None = None
    keep_running: bool = False
    seconds: float = 0.0  # to open, once the tools were available

    def project(self, root: Path, stack: str, on_step: Callable[[str, Event], None] | None = None) -> Engine:
        """Return the engine for the program under `root`, with that stack's settings, as a project of this run.

        The engine writes an encryption salt beside the settings, so they are copied: a rehearsal never writes into
        the repository.
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
        """Return the engine for a folder with a program, as a project of its own; its stack is created at once."""
        folder = self.run.folder / "projects" / f"{main.name}-{stack}-{secrets.token_hex(2)}"
        (folder / "config").mkdir(parents=True)
        (folder / "logs").mkdir()
        (folder / "program").symlink_to(main.resolve(), target_is_directory=True)
        document = {
            "name": "rehearsed",
            **(settings or {}),
            "main": "program",
            "stackConfigDir": "config",
            "runtime": {"name": "python", "options": {"toolchain": "pip", "virtualenv": sys.prefix}},
        }
        (folder / "Pulumi.yaml").write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
        (folder / "config" / f"Pulumi.{stack}.yaml").write_text(
            yaml.safe_dump({"config": dict(config or {})}, sort_keys=False), encoding="utf-8"
        )
        (folder / "state").mkdir()
        # A state folder of its own: two projects of one stage may have the same name and stack
        environment = {
            **self.environment,
            **region_variables(str((config or {}).get("aws:region", REGION))),
            "PULUMI_BACKEND_URL": f"file://{folder / 'state'}",
        }
        engine = Engine(self.pulumi, folder, stack, environment, folder / "logs", on_step)
        engine.init()
        return engine

    def query(self, page: str) -> Any:
        """Return one of the simulated cloud's own pages: `census`, `kept`, `unknown`, `calls`."""
        try:
            with DIRECTLY.open(f"{self.cloud}/_cloud/{page}", timeout=30) as response:
                return json.load(response)
        except OSError as failure:
            raise StageError(f"the simulated cloud does not answer: {failure}\n{self.cloud_log_tail()}") from failure

    def not_simulated(self) -> list[str]:
        """Return what plugins and sandboxes did not simulate, sorted."""
        by_plugins = {row["what"] for row in unsimulated.read_records(not_simulated_file(self.run.folder))}
        return sorted(by_plugins.union(self.cluster.plane.not_simulated() if self.cluster else ()))

    def cloud_log_tail(self) -> str:
        """Return the end of the simulated cloud's log."""
        return _log_tail(_cloud_log(self.run))

    def leftovers(self) -> list[str]:
        """Return what exists in the cloud and its cluster now and did not when the stage opened."""
        census: dict[str, list[str]] = self.query("census")
        in_cluster = self.cluster.leftovers() if self.cluster else []
        return in_cluster + [
            f"{kind} {name}"
            for kind, names in sorted(census.items())
            if kind not in _OUTLIVES_DESTROY
            for name in sorted(set(names) - set(self.baseline.get(kind, [])))
        ]

    def keep(self, engine: Engine) -> dict[str, object]:
        """Leave everything up when the stage closes; return how to use the project and how to end it."""
        environment = {**engine.environment, "PATH": f"{self.pulumi.parent}{os.pathsep}{engine.environment['PATH']}"}
        record: dict[str, object] = {
            "run": self.run.id,
            "folder": str(self.run.folder),
            "pulumi": str(self.pulumi),
            "environment": {name: value for name, value in environment.items() if os.environ.get(name) != value},
        }
        self.run.keep(record)
        self.keep_running = True
        if self.cluster:
            self.cluster.plane.keep_running = True
        return record


@contextmanager
def stage(
    progress: Progress, *, under: Path | None = None, port: int = 0, cluster: ClusterOptions | None = None
) -> Iterator[Stage]:
    """Open a stage; delete it at the end unless it was kept.

    Run folders are created `under` a folder, by default in the user's cache; the cloud listens on a free port by
    default. With `cluster` options, a control plane is started; without, nothing answers at a cluster's address.
    """
    run_folders.sweep(under)
    latencyfs = [LATENCYFS] if cluster and cluster.home_latency else []
    toolbox = tools.ensure(
        ["pulumi", "language-python-exec", *(TOOLS if cluster else ()), *latencyfs],
        progress,
        SANDBOX_TOOLS if cluster and cluster.sandboxes else (),
    )
    began = time.monotonic()
    try:
        run = run_folders.create(under)
    except OSError as failure:
        where = failure.filename or under or run_folders.cache()
        raise StageError(
            f"the run's folder is not writable: {where}: {failure.strerror}; "
            "free some space, or set AGENTENV_CACHE to a writable folder"
        ) from failure
    if (free := shutil.disk_usage(run.folder).free) < _MINIMUM_DISK_SPACE:
        run.remove()
        raise StageError(
            f"{free // 2**20} MB are free for {run.folder}, and a rehearsal needs {_MINIMUM_DISK_SPACE // 2**20}; "
            "free some space, or set AGENTENV_CACHE to another folder"
        )
    cleanup = cleanup_process.start(run.id, run.folder)
    opened: Stage | None = None
    resources = ExitStack()
    try:
        try:
            opened = _open(run, toolbox, port, cluster)
            if cluster:
                control_plane = rehearsal_cluster(
                    toolbox, run.folder / "plane", opened.environment, opened.cloud, cluster
                )
                opened.cluster = resources.enter_context(control_plane)
        except PlaneFailed as failure:
            raise StageError(f"the control plane: {failure}") from failure
        except OSError as failure:
            raise StageError(f"the stage cannot be set up in {run.folder}: {failure.strerror or failure}") from failure
        opened.seconds = time.monotonic() - began
        yield opened
    finally:
        resources.close()
        if opened is not None and opened.keep_running:
            run.release()
            cleanup_process.stop(cleanup, "kept")
        else:
            processes.end(run.id)
            run.remove()
            cleanup_process.stop(cleanup, "done")


def _open(run: run_folders.Run, toolbox: tools.Toolbox, port: int, cluster: ClusterOptions | None) -> Stage:
    shims = run.folder / "shims"
    for name in ("home", "shims"):
        (run.folder / name).mkdir()
    _link_installed_plugins(run.folder / "home")
    # A file in place of the folder stops the engine from writing a second, encrypted log
    (run.folder / "home" / "logs").touch()
    (run.folder / "passphrase").write_text(secrets.token_urlsafe(24), encoding="utf-8")
    pulumi = toolbox.path("pulumi")
    executor = toolbox.path("language-python-exec")
    plugins.shims(shims, Path(sys.executable), executor=executor, pulumi=pulumi)
    address = _start_cloud(run, port, balancers=cluster is not None and cluster.sandboxes)
    environment = engine_environment(run.id, run.folder, cloud=address, shims=shims)
    if cluster:
        environment |= cluster.environment(address)
    opened = Stage(run, pulumi, address, environment, {})
    opened.baseline = opened.query("census")
    return opened


def _link_installed_plugins(home: Path) -> None:
    """Link the plugins that the user has installed, without sharing anything else of their home."""
    installed = Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi") / "plugins"
    if installed.is_dir():
        (home / "plugins").symlink_to(installed.resolve(), target_is_directory=True)


def _start_cloud(run: run_folders.Run, port: int, *, balancers: bool) -> str:
    ready = run.folder / "cloud.json"
    log = _cloud_log(run)
    server = processes.start(
        [
            *(sys.executable, "-m", "agentenv.rehearsal.cloud", "--port", str(port), "--ready-file", str(ready)),
            *(["--balancers"] if balancers else []),
        ],
        environment={**clean_environment(), processes.MARK: run.id},
        log=log,
        folder=run.folder,
    )
    deadline = time.monotonic() + _CLOUD_SECONDS
    while not ready.exists():
        if server.poll() is not None or time.monotonic() > deadline:
            raise StageError(f"the simulated cloud did not start; the end of its log:\n{_log_tail(log)}")
        time.sleep(0.05)
    return json.loads(ready.read_text(encoding="utf-8"))["url"]


def _cloud_log(run: run_folders.Run) -> Path:
    return run.logs / "cloud.log"


def _log_tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").strip().splitlines()[-10:]) if log.exists() else ""
