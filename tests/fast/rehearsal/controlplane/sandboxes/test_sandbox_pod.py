"""A pod's runner reports what goes wrong, and lets the pod be deleted whatever that was."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from agentenv.local.sandboxes.bundle import Bundle
from agentenv.local.sandboxes.limits import Monitor
from agentenv.local.sandboxes.relay import Relay
from agentenv.rehearsal.controlplane.client import Client, until
from agentenv.rehearsal.controlplane.sandboxes.homes import FileSystems
from agentenv.rehearsal.controlplane.sandboxes.sandbox_pod import Host, SandboxPod

Object = dict[str, Any]
SECONDS = 20.0


class FakeApi:
    """An API server that keeps the statuses of one pod, until it is deleted."""

    def __init__(self) -> None:
        self.statuses: list[Object] = []
        self.reported = threading.Event()
        self.deleted = threading.Event()

    def find(self, _path: str) -> Object | None:
        return None

    def request(self, method: str, path: str, body: Object, *, content: str) -> Object:
        assert (method, path) == ("PATCH", "/api/v1/namespaces/n/pods/p/status")
        assert content == "application/strategic-merge-patch+json"
        self.statuses.append(body["status"])
        self.reported.set()
        return {}

    def delete(self, path: str, **options: Any) -> None:
        assert path == "/api/v1/namespaces/n/pods/p"
        assert options["preconditions"] == {"uid": "u-1"}
        self.deleted.set()


class FakeRuntime:
    """A runtime whose sandboxes are one command, or an error."""

    name = "fake"
    own_network = True
    not_simulated = ()

    def __init__(self, command: list[str] | Exception) -> None:
        self._command = command
        self.started = threading.Event()

    def command(self, bundle: Bundle) -> list[str]:
        assert bundle.hostname == "p"
        self.started.set()
        if isinstance(self._command, Exception):
            raise self._command
        return self._command

    def terminate(self, bundle: Bundle, process: subprocess.Popen[bytes]) -> None:
        assert bundle.id == "u-1-0"
        process.terminate()


def pod(**spec: Any) -> Object:
    container = {
        "name": "sandbox",
        "image": "image",
        "command": ["/opt/workspaced/workspaced", "run"],
        "ports": [{"name": "workspaced", "containerPort": 49983}],
    }
    metadata = {"name": "p", "namespace": "n", "uid": "u-1"}
    return {"metadata": metadata, "spec": {"nodeName": "node", "containers": [container], **spec}}


@pytest.fixture
def relay() -> Iterator[Relay]:
    relay = Relay()
    yield relay
    relay.stop()


def runner(api: FakeApi, runtime: FakeRuntime, folder: Path, relay: Relay, **spec: Any) -> SandboxPod:
    (folder / "logs").mkdir()
    client = cast("Client", api)
    host = Host(client, folder, folder / "no-program", runtime, relay, Monitor(), FileSystems(client, folder, None))
    return SandboxPod(host, pod(**spec))


def test_a_pod_that_fails_in_an_unforeseen_way_can_be_deleted(
    tmp_path: Path, relay: Relay, caplog: pytest.LogCaptureFixture
) -> None:
    api, runtime = FakeApi(), FakeRuntime(KeyError("unforeseen"))
    running = runner(api, runtime, tmp_path, relay)
    running.start()
    assert until(lambda: "does not run" in caplog.text, SECONDS)
    running.stop()
    running.wait()
    assert api.deleted.is_set()


def test_why_a_pod_waits_is_in_its_status(tmp_path: Path, relay: Relay) -> None:
    api = FakeApi()
    running = runner(api, FakeRuntime(["true"]), tmp_path, relay, volumes=[{"name": "v", "nfs": {}}])
    running.start()
    assert api.reported.wait(SECONDS)
    running.stop()
    running.wait()
    [waiting] = [row["state"]["waiting"] for row in api.statuses[0]["containerStatuses"]]
    assert waiting["reason"] == "CreateContainerConfigError"
    assert "kind nfs" in waiting["message"]
    assert api.statuses[0]["phase"] == "Pending"


def test_a_pod_that_is_stopped_silently_is_not_deleted(tmp_path: Path, relay: Relay) -> None:
    api, runtime = FakeApi(), FakeRuntime(["sleep", "600"])
    running = runner(api, runtime, tmp_path, relay)
    running.start()
    assert runtime.started.wait(SECONDS)
    running.stop(silently=True)
    running.wait()
    assert not api.deleted.is_set()
    assert not list((tmp_path / "sandboxes").iterdir())


def test_the_status_of_a_container_that_failed(tmp_path: Path, relay: Relay) -> None:
    api = FakeApi()
    running = runner(api, FakeRuntime(["sh", "-c", "exit 9"]), tmp_path, relay, restartPolicy="Never")
    running.start()
    assert api.reported.wait(SECONDS)
    running.stop()
    running.wait()
    assert api.statuses[-1]["phase"] == "Failed"
    assert api.statuses[-1]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 9
