"""Replicas of the service as processes, which may reach the API server and AWS through proxies.

They have a `ReplicaConfig` instead of a command line, because their issuer is reached by HTTP. They are forked from a
process that has imported the service already, because a test kills a dozen of them.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx2

from agentenv.rehearsal.controlplane.client import until
from agentenv.rehearsal.controlplane.ports import Ports
from agentenv.service.__main__ import EXIT_FAILED, serve, serve_loops
from agentenv.service.http import app as service_app
from agentenv.service.kube.informer import Informer
from agentenv.service.telemetry import logs
from agentenv.service.telemetry.metrics import Metrics
from tests.fast.service.http.auth.issuer import FakeIssuer
from tests.live.controlplane.objects import TIMEOUT
from tests.live.service.serving import configuration_of

assert service_app  # imported before the first fork
FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload([__name__])


@dataclass(frozen=True)
class ReplicaConfig:
    """The configuration of a replica."""

    kubeconfig: Path
    issuer: str
    classes: list[dict[str, Any]]
    table: str | None = None
    defect: bool = False  # its informer of claims raises an error at the next event
    loops: bool = False  # whether it runs the loops, and not the API


class Replica:
    """One replica."""

    def __init__(self, config: ReplicaConfig, environment: Mapping[str, str], folder: Path) -> None:
        self._ports = Ports(["api"])
        port = self._ports["api"]
        self._log = folder / f"replica-{port}.log"
        self._process = FORKED.Process(target=_run, args=(config, port, dict(environment), self._log), daemon=True)
        self._process.start()
        self.url = f"http://127.0.0.1:{port}"

    def ready(self) -> Replica:
        """Wait until the replica is ready, and return it."""
        assert until(self._is_ready, TIMEOUT, failed=lambda: self.log_tail if self.has_ended else None), self.log_tail
        return self

    def client(self, issuer: FakeIssuer, subject: str, seconds: float = 90.0) -> httpx2.Client:
        """Return the client of a user whom the class of the tests admits."""
        headers = {"Authorization": f"Bearer {issuer.token(subject, team='vetted')}"}
        return httpx2.Client(base_url=self.url, headers=headers, timeout=seconds, trust_env=False)

    def kill(self) -> None:
        """Kill the process with `kill -9`, and wait for its end."""
        self._process.kill()
        self._process.join()

    @property
    def has_ended(self) -> bool:
        """Return whether the process has ended."""
        return not self._process.is_alive()

    @property
    def exit_code(self) -> int | None:
        """Return the exit code of the process; None while it runs."""
        return self._process.exitcode

    @property
    def log_tail(self) -> str:
        """The end of its log."""
        return self._log.read_text()[-4000:] if self._log.exists() else ""

    def close(self) -> None:
        """End the process if it still runs."""
        if not self.has_ended:
            self.kill()
        self._ports.close()

    def _is_ready(self) -> bool:
        try:
            return httpx2.get(f"{self.url}/readyz", trust_env=False).status_code == 200
        except httpx2.HTTPError:
            return False


def _run(config: ReplicaConfig, port: int, environment: Mapping[str, str], log: Path) -> None:
    os.environ.clear()
    os.environ.update(environment)
    with log.open("ab") as sink:
        for descriptor in (1, 2):
            os.dup2(sink.fileno(), descriptor)
    threading.Thread(target=_exit_with_parent, args=(os.getppid(),), daemon=True).start()
    configuration = configuration_of(config.kubeconfig, config.issuer, config.classes)
    configuration = replace(configuration, replica=f"replica-{port}", namespace="default", loops=config.loops)
    if config.defect:
        _inject_defect(Informer)
    logs.set_up("info")
    configuration = replace(configuration, host="127.0.0.1", port=port, ledger_table=config.table)
    broken = asyncio.run((serve_loops if config.loops else serve)(configuration, Metrics()))
    sys.exit(EXIT_FAILED if broken else 0)


def _inject_defect(informer: type[Informer]) -> None:
    """Make the informer of claims raise an error at its next event, as a defect would."""
    happened = informer._handle_event

    def broken(self: Informer, what: str, document: dict[str, Any]) -> None:
        if self.kind == "SandboxClaim" and what != "BOOKMARK":
            raise RuntimeError("a defect")
        happened(self, what, document)

    informer._handle_event = broken  # type: ignore[method-assign]


def _exit_with_parent(parent: int) -> None:
    """End this process when its parent ends."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


@dataclass
class Replicas:
    """The replicas of a test, and their common configuration."""

    config: ReplicaConfig
    environment: Mapping[str, str]
    issuer: FakeIssuer
    folder: Path
    replicas: list[Replica] = field(default_factory=list[Replica])

    def replica(self, kubeconfig: Path | None = None, aws: str | None = None, *, loops: bool = False) -> Replica:
        """Start another replica, without waiting for it."""
        config = replace(self.config, kubeconfig=kubeconfig or self.config.kubeconfig, loops=loops)
        environment = {**self.environment, **({"AWS_ENDPOINT_URL": aws} if aws else {})}
        replica = Replica(config, environment, self.folder)
        self.replicas.append(replica)
        return replica

    def close(self) -> None:
        """End all replicas."""
        for replica in self.replicas:
            replica.close()
