"""The sandboxes of workspaces on this machine: the pods of their classes, run as the rehearsal runs them.

What a pod reads of a cluster and reports to it is here a key and a call.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import uuid
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentenv.core.capabilities.cluster_facts import DAEMON_PORT
from agentenv.core.classes.names import HOME, USER_LABEL, WORKSPACE_LABEL
from agentenv.core.classes.pods.daemon import KEYS, KEYS_FILE
from agentenv.core.classes.pods.pod import pod_spec
from agentenv.core.classes.sizes import in_size
from agentenv.core.classes.swarm import mount_shared, shared_claim
from agentenv.core.classes.template import pod_labels
from agentenv.local.sandboxes.bundle import CannotStart, Runtime
from agentenv.local.sandboxes.limits import Monitor
from agentenv.local.sandboxes.relay import Relay
from agentenv.rehearsal.controlplane.sandboxes.homes import Home, Owner
from agentenv.rehearsal.controlplane.sandboxes.sandbox_pod import Host, SandboxPod
from agentenv.service.workspaces.backend_protocol import Endpoint

if TYPE_CHECKING:
    from agentenv.core.workspaces.workspace import Workspace
    from agentenv.service.catalog import Class

Object = dict[str, Any]
# Called with the id of a workspace and the status of its pod.
Report = Callable[[str, Object], None]

_NODE = "this-machine"


@dataclass(frozen=True)
class _Running:
    """The pod of a workspace, and the uid of the claim that its tokens name."""

    pod: SandboxPod
    uid: str
    claim_uid: str
    grace: float
    started: datetime


class _LocalHomes:
    """The homes and shared volumes: a folder each, with the files of the user of their class."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def of(self, id_: str) -> Path:
        """Return the folder of a workspace's home."""
        return self._folder / id_

    def prepare(self, id_: str, uid: int) -> None:
        """Create the home, or give it to the user of another class."""
        folder = self.of(id_)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.geteuid() != 0 or folder.stat().st_uid == uid:
            return
        for path, folders, files in os.walk(folder):
            for name in (*folders, *files):
                os.lchown(Path(path, name), uid, uid)
        os.chown(folder, uid, uid)

    def home(self, namespace: str, claim: str) -> Home:  # noqa: ARG002 - ids are unique in all namespaces
        """Return the folder of a volume claim: of a home, which is named after its workspace, or of a task."""
        folder = self.of(claim.removeprefix(f"{HOME}-"))
        status = folder.stat()
        return Home(folder, Owner(status.st_uid, status.st_gid))


class _LocalPodApi:
    """A replacement for the API server, for pods on this machine."""

    def __init__(self, keys: str, report: Callable[[Object], None]) -> None:
        self._keys, self._report = keys, report

    def request(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        content: str = "application/json",  # noqa: ARG002 - the protocol's
        query: Mapping[str, str] | None = None,  # noqa: ARG002 - the protocol's
    ) -> Any:
        """Pass a pod's status on; there are no other requests without a cluster."""
        if method != "PATCH" or not path.endswith("/status") or body is None:
            raise CannotStart("identities of AWS need an environment in AWS")
        self._report(body["status"])

    def find(self, path: str) -> Object | None:
        """Return the ConfigMap of the public keys."""
        return {"data": {KEYS_FILE: self._keys}} if path.endswith(f"/configmaps/{KEYS}") else None

    def delete(self, path: str, **options: Any) -> None:
        """Do nothing: the pod has ended."""


class Sandboxes:
    """Starts and stops the sandboxes of workspaces."""

    def __init__(self, run_folder: Path, homes: Path, *, runtime: Runtime, workspaced: Path, keys: str) -> None:
        self._homes = _LocalHomes(homes)
        self._pods: dict[str, _Running] = {}
        self._stopping: set[SandboxPod] = set()
        self.runtime = runtime
        (run_folder / "logs").mkdir(parents=True, exist_ok=True)
        self._relay, self._monitor = Relay(), Monitor()
        self._folder, self._workspaced, self._keys = run_folder, workspaced, keys

    async def start(self, workspace: Workspace, of_class: Class, report: Report) -> None:
        """Start the sandbox of a workspace; `report` is called in this event loop when its status changes."""
        loop = asyncio.get_running_loop()
        await self.stop(workspace.id)
        uid = str(uuid.uuid4())
        if of_class.has_homes:
            await asyncio.to_thread(self._homes.prepare, workspace.id, of_class.plan.uid)
        if task := _task_with_shared_volume(workspace, of_class):
            await asyncio.to_thread(self._homes.prepare, shared_claim(task), of_class.plan.uid)
        pod = pod_of(workspace, of_class, uid)

        def reported(status: Object) -> None:
            # From the thread of the pod
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._pass_on, workspace.id, uid, status, report)

        api = _LocalPodApi(self._keys, reported)
        host = Host(api, self._folder, self._workspaced, self.runtime, self._relay, self._monitor, self._homes)
        grace = float(pod["spec"]["terminationGracePeriodSeconds"])
        running = _Running(SandboxPod(host, pod), uid, workspace.claim_uid, grace, datetime.now(UTC))
        self._pods[workspace.id] = running
        running.pod.start()

    async def stop(self, id_: str) -> None:
        """End the sandbox of a workspace, if it has one, within its grace period."""
        running = self._pods.pop(id_, None)
        if running is not None:
            self._stopping.add(running.pod)
            running.pod.stop(grace=running.grace)
            await asyncio.to_thread(running.pod.wait)
            self._stopping.remove(running.pod)

    async def stop_all(self) -> None:
        """End every sandbox, those that are being stopped included, and then the relay, which they use until then."""
        pods = [*self._stopping, *(running.pod for running in self._pods.values())]
        self._pods.clear()
        for pod in pods:
            pod.stop(silently=True)
        await asyncio.gather(*(asyncio.to_thread(pod.wait) for pod in pods))
        self._relay.stop()

    def destroy_home(self, id_: str) -> None:
        """Delete the files of a workspace, or of a shared volume by its claim."""
        shutil.rmtree(self._homes.of(id_), ignore_errors=True)

    def endpoint(self, id_: str, address: str) -> Endpoint | None:
        """Return where the workspaced of a workspace is reached, at the address that its sandbox reported."""
        running = self._pods.get(id_)
        return Endpoint(running.uid, running.claim_uid, address, DAEMON_PORT) if running is not None else None

    def started(self, id_: str) -> tuple[str, datetime] | None:
        """Return the uid of the pod of a workspace, and when it was started."""
        running = self._pods.get(id_)
        return (running.uid, running.started) if running is not None else None

    def _pass_on(self, id_: str, uid: str, status: Object, report: Report) -> None:
        """Pass a status on, unless its pod was stopped meanwhile."""
        running = self._pods.get(id_)
        if running is not None and running.uid == uid:
            report(id_, status)


def pod_of(workspace: Workspace, of_class: Class, uid: str) -> Object:
    """Return the pod of a workspace, from the template of its class."""
    plan = replace(of_class.plan, settings=in_size(of_class.plan.settings, workspace.size))
    spec: Object = deepcopy(pod_spec(plan, of_class.release("stable").image))
    if of_class.has_homes:
        spec["volumes"].append({"name": HOME, "persistentVolumeClaim": {"claimName": f"{HOME}-{workspace.id}"}})
    labels = {**pod_labels(plan), USER_LABEL: workspace.owner, WORKSPACE_LABEL: workspace.id}
    metadata = {"name": workspace.id, "namespace": of_class.namespace, "uid": uid, "labels": labels}
    pod = {"metadata": metadata, "spec": {**spec, "nodeName": _NODE}}
    if task := _task_with_shared_volume(workspace, of_class):
        mount_shared(pod, task)
    return pod


def _task_with_shared_volume(workspace: Workspace, of_class: Class) -> str | None:
    return workspace.task if of_class.plan.settings.storage.kind == "shared" else None
