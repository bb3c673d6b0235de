"""Pods with real programs: a kubelet for the few images that a rehearsal can run as processes.

A Deployment is applied, scheduled and bound as any other, and kwok excludes its pods
(`agentenv/rehearsal/controlplane/nodes/kwok_stages.py`). Here the program is started with the pod's arguments,
environment, files, service account and AWS role, and its probes decide whether the pod is Ready. Simplified: one
container a pod, no resource limits, and other ports on loopback (recorded by `listen_addresses.py`).
"""

from __future__ import annotations

import logging
import re
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from agentenv.rehearsal.controlplane.auth.account import Account
from agentenv.rehearsal.controlplane.client import Client
from agentenv.rehearsal.controlplane.pods.pod_process import PodProcess
from agentenv.rehearsal.controlplane.ports import HOST

Object = dict[str, Any]

_LOG = logging.getLogger(__name__)
PYTHON = "python"


@dataclass(frozen=True)
class ProcessImage:
    """An image whose program can run as a process."""

    program: str  # its name in the tool catalog
    image: str  # a pattern of its image, in any registry
    address_flags: tuple[str, ...]  # the flags for listen addresses, each set to a free loopback port
    ready_flag: str  # the one of them that serves the probes
    ready_path: str
    in_cluster_flags: tuple[str, ...] = ()  # values that it would detect inside a pod; {namespace} is filled in
    module: str | None = None  # a Python module; the program is then the interpreter
    ports_only: bool = False  # whether its address flags take a port only
    optional_flags: tuple[str, ...] = ()  # further address flags, for pods that have them

    def flags_of(self, pod: Object) -> tuple[str, ...]:
        """Return the flags for listen addresses of a pod."""
        arguments = pod["spec"]["containers"][0].get("args") or ()
        names = {text.partition("=")[0] for text in arguments}
        return (*self.address_flags, *(flag for flag in self.optional_flags if flag in names))

    def command(self, program: Path) -> list[str]:
        """Return the command that starts its program."""
        return [str(program)] if self.module is None else [str(program), "-m", self.module]


PROCESS_IMAGES = (
    ProcessImage(
        program="agent-sandbox-controller",
        image=r"(^|/)agent-sandbox-controller([:@]|$)",
        address_flags=("--metrics-bind-address", "--health-probe-bind-address"),
        ready_flag="--health-probe-bind-address",
        ready_path="/readyz",
        in_cluster_flags=("--leader-election-namespace={namespace}",),
    ),
    ProcessImage(
        program=PYTHON,
        module="agentenv.service",
        image=r"(^|/)workspace-service([:@]|$)",
        address_flags=("--port", "--metrics-port"),
        ready_flag="--port",
        ready_path="/readyz",
        in_cluster_flags=(f"--host={HOST}",),
        ports_only=True,
        optional_flags=("--authorizer-port",),
    ),
)
# The tools to build for these programs; Python is present already.
TOOLS = tuple(row.program for row in PROCESS_IMAGES if row.program != PYTHON)


def process_image(pod: Object) -> ProcessImage | None:
    """Return the row of a pod's image, or None; a container with a command of its own runs another program."""
    containers = [container for container in pod["spec"].get("containers") or () if not container.get("command")]
    images = [container.get("image", "") for container in containers]
    for row in PROCESS_IMAGES:
        if any(re.search(row.image, image) for image in images):
            return row
    return None


class PodRunner(Protocol):
    """Runs one pod."""

    def start(self) -> None:
        """Start in the background."""
        ...

    def stop(self, *, silently: bool = False, grace: float | None = None) -> None:
        """End the pod's process within a grace period; unless silently, the pod is then deleted."""
        ...

    def update(self, pod: Object) -> None:
        """Take a changed specification."""
        ...

    def wait(self) -> None:
        """Wait until the process has ended."""
        ...


class ProcessManager:
    """Starts and stops the pod processes of one plane; `sandbox` returns the runner of a pod that is a sandbox."""

    def __init__(
        self,
        client: Client,
        folder: Path,
        programs: Mapping[str, Path],
        ca: Path,
        account: Account | None = None,
        *,
        sandbox: Callable[[Object], PodRunner | None] = lambda _: None,
    ) -> None:
        self._client = client
        self._folder = folder
        self._programs = {**programs, PYTHON: Path(sys.executable)}
        self._account = account
        self._ca = ca
        self._sandbox = sandbox
        self._runners: dict[str, PodRunner] = {}

    def run(self, ended: threading.Event) -> None:
        """Watch the pods that are bound to a node until told to end."""
        for kind, pod in self._client.watch("/api/v1/pods", ended, fieldSelector="spec.nodeName!="):
            metadata = pod["metadata"]
            leaving = kind == "DELETED" or "deletionTimestamp" in metadata
            runner = self._runners.get(metadata["uid"])
            if runner is not None and leaving:
                runner.stop(grace=metadata.get("deletionGracePeriodSeconds"))
                if kind == "DELETED":
                    del self._runners[metadata["uid"]]
            elif runner is not None and kind == "MODIFIED":
                runner.update(pod)
            elif runner is None and kind != "DELETED" and (runner := self._runner(pod)) is not None:
                if leaving:
                    # Bound and deleted before it was seen: only this kubelet can complete the deletion
                    self._client.delete(pod_path(pod), gracePeriodSeconds=0)
                    continue
                self._runners[metadata["uid"]] = runner
                runner.start()

    def _runner(self, pod: Object) -> PodRunner | None:
        """Return a new runner of the pod; None for a pod that kwok simulates."""
        row = process_image(pod)
        if row is None:
            return self._sandbox(pod)
        program = self._programs.get(row.program)
        if program is None:
            _LOG.error("%s runs %s, which this plane does not have", pod["metadata"]["name"], row.program)
            return None
        return PodProcess(
            self._client, row, pod, program=program, folder=self._folder, ca=self._ca, account=self._account
        )

    def close(self) -> None:
        """Stop every process; the pods remain until the server ends."""
        for runner in self._runners.values():
            runner.stop(silently=True)
        for runner in self._runners.values():
            runner.wait()


def pod_path(pod: Object) -> str:
    """Return the path of a pod."""
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
