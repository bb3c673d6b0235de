"""A backend over a small API server in which claims of a class become ready by themselves."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from agentenv.config import read
from agentenv.service.catalog import Catalog
from agentenv.service.kube.client import KubeClient
from agentenv.service.kube.view import ClusterView
from agentenv.service.telemetry.metrics import Metrics
from agentenv.service.workspaces.backend import KubernetesBackend, running_backend
from agentenv.service.workspaces.swarm_tasks import SwarmTasks
from tests.fast.config.stack_samples import ACCESS
from tests.fast.service.kube.apiserver import ApiServer, Object

TIMEOUT = 30.0
IMAGE = "registry.example.com/sandbox@sha256:" + "0" * 64
BY = {"roles": ["operator"], "tokens": [{"name": "team", "value": "vetted"}]}


@dataclass
class Stage:
    """A backend, its API server, its catalog and its metrics."""

    server: ApiServer
    kube: KubeClient
    catalog: Catalog
    backend: KubernetesBackend
    metrics: Metrics
    warm: list[str] = field(default_factory=list[str])
    fills: bool = True  # whether new claims get a sandbox

    @property
    def swarms(self) -> SwarmTasks:
        """The swarms of the backend."""
        return SwarmTasks(self.kube.without_retries(), self.catalog, self.backend.view, now=self.kube.clock.now)

    def fill(self, claim: Object) -> None:
        """Do the work of the controller: bind a warm sandbox, or a cold one of the claim's name."""
        about = claim["metadata"]
        sandbox = self.warm.pop(0) if self.warm else about["name"]
        space = about["namespace"]
        owner = {"uid": about["uid"], "kind": "SandboxClaim", "name": about["name"]}
        known = {"name": sandbox, "namespace": space, "ownerReferences": [owner]}
        self.server.put("sandboxes", {"metadata": known, "spec": {"operatingMode": "Running"}})
        if ("persistentvolumeclaims", space, f"home-{sandbox}") not in self.server.objects:
            self.home(space, sandbox)
        claim = deepcopy(claim)
        ready = {"type": "Ready", "status": "True"}
        claim["status"] = {"conditions": [ready], "sandbox": {"name": sandbox, "podIPs": ["10.40.0.9"]}}
        self.server.put("sandboxclaims", claim)

    async def wait_until(self, of: Callable[[ClusterView], object]) -> None:
        """Wait until a condition on the cached view holds; callers set the timeout."""
        while not of(self.backend.view):
            await asyncio.sleep(0)

    def home(self, space: str, sandbox: str) -> None:
        """A sandbox's volume."""
        about = {"name": f"home-{sandbox}", "namespace": space}
        volume_claim = self.server.put(
            "persistentvolumeclaims", {"metadata": about, "spec": {"volumeName": f"pvc-{sandbox}"}}
        )
        spec = {
            "claimRef": {**about, "uid": volume_claim["metadata"]["uid"]},
            "persistentVolumeReclaimPolicy": "Delete",
        }
        self.server.put(
            "persistentvolumes", {"metadata": {"name": f"pvc-{sandbox}"}, "spec": spec, "status": {"phase": "Bound"}}
        )

    def slot(self, sandbox: str, class_name: str = "standard") -> None:
        """A warm sandbox."""
        self.home(f"sandbox-{class_name}", sandbox)
        self.warm.append(sandbox)


def settings_of(*classes: Object, **service: Any) -> Any:
    """Settings with some classes."""
    class_settings = [{"tier": "verified", "image": IMAGE, "claimableBy": BY, **class_} for class_ in classes]
    config = {"aws:region": "us-east-1", **ACCESS, "agent-environment:sandboxClasses": class_settings}
    return read({**config, "agent-environment:service": service}, "dev")


@contextlib.asynccontextmanager
async def staged(*classes: Object, **service: Any) -> AsyncGenerator[Stage]:
    """A backend that has seen everything."""
    server, metrics = ApiServer(), Metrics()
    catalog = Catalog(settings_of(*(classes or ({"name": "standard"},)), **service))
    async with server.client() as client:
        kube = KubeClient(client, pause=lambda _: asyncio.sleep(0))
        backend = KubernetesBackend(kube, catalog, metrics, now=kube.clock.now)
        stage = Stage(server, kube, catalog, backend, metrics)

        def on_create(created: Object) -> None:
            if created.get("kind") == "SandboxClaim" and stage.fills:
                stage.fill(created)

        server.on_create = on_create
        async with running_backend(backend):
            while not backend.is_synced():
                await asyncio.sleep(0)
            yield stage


def on_stage(act: Callable[[Stage], Awaitable[None]], *classes: Object, **service: Any) -> None:
    """Run a function with a backend that has seen everything."""

    async def run() -> None:
        async with staged(*classes, **service) as stage, asyncio.timeout(TIMEOUT):
            await act(stage)

    asyncio.run(run())
