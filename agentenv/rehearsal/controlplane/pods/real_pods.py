"""Pods whose program runs for real: a kubelet for the few images that a rehearsal has as programs.

A Deployment is applied, scheduled and bound as any other; kwok leaves its pods alone
(`agentenv/rehearsal/controlplane/nodes/kwok_stages.py`), and here the program is started with the pod's arguments,
environment, files and service account, to AWS as whatever role that has, and its probes decide whether the pod is
Ready. Simplified: one container a pod, no resource limits, its ports are other ones on loopback (`listen_addresses.py`
says which).
"""

from __future__ import annotations

import logging
import re
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentenv.rehearsal.controlplane.auth.account import Account
from agentenv.rehearsal.controlplane.client import Client
from agentenv.rehearsal.controlplane.pods.pod_process import Tenancy
from agentenv.rehearsal.controlplane.ports import HOST

Object = dict[str, Any]

_LOG = logging.getLogger(__name__)
PYTHON = "python"


@dataclass(frozen=True)
class Resident:
    """An image that is a program of ours."""

    program: str  # its name among the tools
    image: str  # a pattern that its image matches, wherever it is pulled from
    address_flags: tuple[str, ...]  # the flags that say where it listens, each given a free port of loopback
    ready_flag: str  # the one of them where probes are answered
    ready_path: str
    in_cluster_flags: tuple[str, ...] = ()  # what it would find out by itself in a pod; {namespace} is filled in
    module: str | None = None  # of Python: the program is then the interpreter, which runs it
    ports_only: bool = False  # whether its flags for addresses take a port, and the host is said beside them

    def command(self, program: Path) -> list[str]:
        """What a process of it is started with."""
        return [str(program)] if self.module is None else [str(program), "-m", self.module]


RESIDENTS = (
    Resident(
        program="agent-sandbox-controller",
        image=r"(^|/)agent-sandbox-controller([:@]|$)",
        address_flags=("--metrics-bind-address", "--health-probe-bind-address"),
        ready_flag="--health-probe-bind-address",
        ready_path="/readyz",
        in_cluster_flags=("--leader-election-namespace={namespace}",),
    ),
    Resident(
        program=PYTHON,
        module="agentenv.service",
        image=r"(^|/)workspace-service([:@]|$)",
        address_flags=("--port", "--metrics-port"),
        ready_flag="--port",
        ready_path="/readyz",
        in_cluster_flags=(f"--host={HOST}",),
        ports_only=True,
    ),
)
# The tools that residents are; Python is there already.
TOOLS = tuple(row.program for row in RESIDENTS if row.program != PYTHON)


def resident_of(pod: Object) -> Resident | None:
    """The row that a pod's image belongs to; one that is told to run something else of the image is none of them."""
    containers = [one for one in pod["spec"].get("containers") or () if not one.get("command")]
    images = [container.get("image", "") for container in containers]
    for row in RESIDENTS:
        if any(re.search(row.image, image) for image in images):
            return row
    return None


class Keeper:
    """Starts and ends the residents of one plane."""

    def __init__(
        self, client: Client, folder: Path, programs: Mapping[str, Path], ca: Path, account: Account | None = None
    ) -> None:
        self._client = client
        self._folder = folder
        self._programs = {**programs, PYTHON: Path(sys.executable)}
        self._account = account
        self._ca = ca
        self._tenants: dict[str, Tenancy] = {}

    def attend(self, ended: threading.Event) -> None:
        """Watch the pods that are bound to a node until told to end."""
        for kind, pod in self._client.watch("/api/v1/pods", ended, fieldSelector="spec.nodeName!="):
            row = resident_of(pod)
            if row is None:
                continue
            uid = pod["metadata"]["uid"]
            tenant = self._tenants.get(uid)
            leaving = kind == "DELETED" or "deletionTimestamp" in pod["metadata"]
            if tenant is not None and leaving:
                tenant.leave()
                if kind == "DELETED":
                    del self._tenants[uid]
            elif tenant is None and not leaving:
                program = self._programs.get(row.program)
                if program is None:
                    _LOG.error("%s runs %s, which this plane was not given", pod["metadata"]["name"], row.program)
                    continue
                self._tenants[uid] = Tenancy(
                    self._client,
                    row,
                    pod,
                    program=program,
                    folder=self._folder,
                    ca=self._ca,
                    account=self._account,
                )
                self._tenants[uid].move_in()
            elif tenant is None and kind != "DELETED":
                # Bound and given up before we saw it: nobody but us lets it go
                self._client.delete(pod_path(pod), gracePeriodSeconds=0)

    def close(self) -> None:
        """End every resident; their pods are left to whoever ends the server."""
        for tenant in self._tenants.values():
            tenant.leave(silently=True)
        for tenant in self._tenants.values():
            tenant.wait()


def pod_path(pod: Object) -> str:
    """Where a pod lives."""
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
