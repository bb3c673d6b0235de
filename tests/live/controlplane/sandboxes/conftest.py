"""A control plane whose sandboxes run, separate from the one of the other live tests."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agentenv.local import processes
from agentenv.rehearsal.controlplane.client import Client, until
from agentenv.rehearsal.controlplane.nodes.kwok_nodes import NodeShape
from agentenv.rehearsal.controlplane.plane import PROGRAMS, ControlPlane, control_plane
from agentenv.rehearsal.controlplane.sandboxes.launcher import TOOLS
from agentenv.rehearsal.scenario.command_probe import Output
from agentenv.rehearsal.tools import ensure
from agentenv.rehearsal.tools.progress import Lines
from tests.live.controlplane.objects import TIMEOUT, create_namespace, is_ready
from tests.live.controlplane.sandboxes.pods import UID, Signer, keys_configmap, run, sandbox_pod

Object = dict[str, Any]

SPACE = "sandbox-live"
SYSTEM = "fs-0123456789abcdef0"


@dataclass
class SandboxCluster:
    """The plane, the namespace of a class in it, and the service's key."""

    plane: ControlPlane
    run_id: str
    signer: Signer

    @property
    def client(self) -> Client:
        return self.plane.client

    def path(self, name: str, namespace: str = SPACE) -> str:
        return f"/api/v1/namespaces/{namespace}/pods/{name}"

    def start(self, name: str, *command: str, **more: Any) -> Object:
        """Create a sandbox and return its pod once it is Ready."""
        self.client.create(sandbox_pod(SPACE, name, *command, **more))
        return self.ready(name)

    def ready(self, name: str, namespace: str = SPACE) -> Object:
        path = self.path(name, namespace)
        assert until(lambda: is_ready(self.client, path), TIMEOUT), self.client.find(path)
        return self.client.get(path)

    def delete(self, name: str) -> None:
        """Delete a pod, and wait until it is gone."""
        self.client.delete(self.path(name))
        assert until(lambda: self.client.find(self.path(name)) is None, TIMEOUT)

    def home(self, name: str) -> tuple[Object, Path]:
        """Return the volume source of a new home on EFS, and its folder on this machine."""
        access = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
        source = {"driver": "efs.csi.aws.com", "volumeHandle": f"{SYSTEM}:/classes/live/{name}"}
        volume = {"accessModes": ["ReadWriteMany"], "capacity": {"storage": "1Gi"}, "csi": source}
        metadata = {"name": name}
        self.client.create({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": volume})
        spec = {**access, "storageClassName": "", "volumeName": name}
        claim = {"metadata": {"name": name, "namespace": SPACE}, "spec": spec}
        self.client.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim", **claim})
        folder = self.plane.layout.folder / "file-systems" / SYSTEM / "classes" / "live" / name
        folder.mkdir(parents=True)
        os.chown(folder, UID, UID)
        return {"persistentVolumeClaim": {"claimName": name}}, folder

    def run(self, pod: Object, script: str, seconds: float = TIMEOUT) -> Output:
        return run(pod, self.signer, script, seconds=seconds)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    run_id = f"test-{secrets.token_hex(4)}"
    toolbox = ensure(PROGRAMS, Lines(sys.stderr), TOOLS)
    environment = {**{k: v for k, v in os.environ.items() if not k.startswith("AWS_")}, processes.MARK: run_id}
    folder: Path = tmp_path_factory.mktemp("sandboxes") / "plane"
    try:
        with control_plane(toolbox, folder, environment, sandboxes=True) as plane:
            plane.add_nodes([NodeShape("n1", "us-east-1a", "m7g.xlarge", "4", "14Gi", pods=100)])
            create_namespace(plane.client, SPACE)
            signer = Signer()
            plane.client.create(keys_configmap(SPACE, signer))
            yield SandboxCluster(plane, run_id, signer)
    finally:
        processes.end(run_id)
