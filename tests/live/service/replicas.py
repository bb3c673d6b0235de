"""Replicas of the service as processes of their own, through whatever is in front of the API server and of AWS.

What a pod has on its command line they are told in a `Told`, for their issuer is reached in clear. They are forked from
a process that has read the service's modules already: a test kills a dozen of them.
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
from tests.live.controlplane.things import PATIENCE
from tests.live.service.serving import configuration_of

assert service_app  # read before anybody is forked
FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload([__name__])


@dataclass(frozen=True)
class ReplicaConfig:
    """The configuration of a replica."""

    kubeconfig: Path
    issuer: str
    classes: list[dict[str, Any]]
    table: str | None = None
    defect: bool = False  # in its informer of claims, which then ends at what it is next told
    loops: bool = False  # whether it runs the loops, and not the API


class Replica:
    """One process."""

    def __init__(self, config: ReplicaConfig, environment: Mapping[str, str], folder: Path) -> None:
        self._ports = Ports(["api"])
        port = self._ports["api"]
        self._log = folder / f"replica-{port}.log"
        self._process = FORKED.Process(target=_run, args=(config, port, dict(environment), self._log), daemon=True)
        self._process.start()
        self.url = f"http://127.0.0.1:{port}"

    def ready(self) -> Replica:
        """The same, once it answers."""
        assert until(self._answers, PATIENCE, failed=lambda: self.log_tail if self.dead else None), self.log_tail
        return self

    def client(self, issuer: FakeIssuer, subject: str, seconds: float = 90.0) -> httpx2.Client:
        """Somebody of those who may have what tests have."""
        headers = {"Authorization": f"Bearer {issuer.token(subject, team='vetted')}"}
        return httpx2.Client(base_url=self.url, headers=headers, timeout=seconds, trust_env=False)

    def kill(self) -> None:
        """`kill -9`, and nothing of it is left when this is over."""
        self._process.kill()
        self._process.join()

    @property
    def dead(self) -> bool:
        """Return whether it is no more."""
        return not self._process.is_alive()

    @property
    def exit_code(self) -> int | None:
        """Return the exit code of the process; None while it runs."""
        return self._process.exitcode

    @property
    def log_tail(self) -> str:
        """The last that it told."""
        return self._log.read_text()[-4000:] if self._log.exists() else ""

    def close(self) -> None:
        """End it, if it is there still."""
        if not self.dead:
            self.kill()
        self._ports.close()

    def _answers(self) -> bool:
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
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    configuration = configuration_of(config.kubeconfig, config.issuer, config.classes)
    configuration = replace(configuration, replica=f"replica-{port}", namespace="default", loops=config.loops)
    if config.defect:
        _break(Informer)
    logs.set_up("info")
    configuration = replace(configuration, host="127.0.0.1", port=port, ledger_table=config.table)
    broken = asyncio.run((serve_loops if config.loops else serve)(configuration, Metrics()))
    sys.exit(EXIT_FAILED if broken else 0)


def _break(informer: type[Informer]) -> None:
    """Have the informer of claims end at what it is told of them, as a defect of its own would."""
    happened = informer._handle_event

    def broken(self: Informer, what: str, document: dict[str, Any]) -> None:
        if self.kind == "SandboxClaim" and what != "BOOKMARK":
            raise RuntimeError("a defect")
        happened(self, what, document)

    informer._handle_event = broken  # type: ignore[method-assign]


def _end_with(parent: int) -> None:
    """Outlive nobody who could end us."""
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
        """One more, that is on its way."""
        config = replace(self.config, kubeconfig=kubeconfig or self.config.kubeconfig, loops=loops)
        environment = {**self.environment, **({"AWS_ENDPOINT_URL": aws} if aws else {})}
        replica = Replica(config, environment, self.folder)
        self.replicas.append(replica)
        return replica

    def close(self) -> None:
        """End all of them."""
        for replica in self.replicas:
            replica.close()
