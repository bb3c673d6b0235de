"""The pods that empty homes, run as processes on the folders that stand for the file systems.

Such a pod mounts its volume as a node does, by its access point and with the verdict of the file system policy. Its
program is that of the image, on the folder of the home.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from typing import Any

from agentenv.core.service.home_emptying import COMMAND
from agentenv.local.sandboxes.bundle import CannotStart
from agentenv.rehearsal.controlplane.client import ApiError, Client
from agentenv.rehearsal.controlplane.pods import status
from agentenv.rehearsal.controlplane.sandboxes.homes import Homes

Object = dict[str, Any]

_RETRY_SECONDS = 2.0
_LOG = logging.getLogger(__name__)


def empties_homes(pod: Object) -> bool:
    """Return whether the pod's container runs the program that empties a home."""
    return tuple(pod["spec"]["containers"][0].get("command") or ()) == COMMAND


class EmptyingPod:
    """A pod that empties a home once, and then succeeds or fails."""

    def __init__(self, client: Client, pod: Object, homes: Homes) -> None:
        self._client, self._pod, self._homes = client, pod, homes
        metadata = pod["metadata"]
        self._path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        self._stopping = threading.Event()
        self._silent = False
        self._thread = threading.Thread(target=self._live, name=metadata["name"], daemon=True)

    def start(self) -> None:
        """Start in the background."""
        self._thread.start()

    def stop(self, *, silently: bool = False, grace: float | None = None) -> None:
        """Complete the deletion of the pod; a removal that was begun is finished first, whatever the grace period."""
        del grace
        self._silent = silently
        self._stopping.set()

    def update(self, pod: Object) -> None:
        """Ignore a changed specification: nothing of it can change."""

    def wait(self) -> None:
        """Wait until it has ended."""
        self._thread.join()

    def _live(self) -> None:
        while not self._stopping.is_set():
            try:
                self._run()
                break
            except (CannotStart, ApiError, OSError) as error:
                _LOG.warning("%s: %s", self._path, error)
                self._report("Pending", status.waiting("ContainerCreating", str(error)))
            self._stopping.wait(_RETRY_SECONDS)
        self._stopping.wait()
        if not self._silent:
            status.delete(self._client, self._path, self._pod)

    def _run(self) -> None:
        claim = self._pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"]
        home = self._homes.home(self._pod["metadata"]["namespace"], claim)
        self._report("Running", status.running())
        command = [sys.executable, *COMMAND[1:], str(home.folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        state = status.terminated(done.returncode, message=(done.stderr or done.stdout)[-1000:])
        self._report("Failed" if done.returncode else "Succeeded", state)

    def _report(self, phase: str, state: Object) -> None:
        main = status.container(self._pod["spec"]["containers"][0], state)
        document = status.pod(phase, "", [main], ready=False)
        # It has no network, and no address is reported.
        without_address = {key: value for key, value in document.items() if key not in {"podIP", "podIPs"}}
        status.report(self._client, self._path, without_address)
