"""The end of all sandboxes includes those that are being stopped."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from agentenv.core.workspaces.workspace import Workspace
from agentenv.dev import sandboxes as module
from agentenv.dev.sandboxes import Sandboxes
from agentenv.dev.settings import default_settings
from agentenv.rehearsal.controlplane.sandboxes.sandbox_pod import Host
from agentenv.service.catalog import Catalog

if TYPE_CHECKING:
    import pytest

SECONDS = 180.0


class FakePod:
    """A pod that ends only when everything ends, and then uses the relay once more, as every pod does."""

    def __init__(self, host: Host, _: dict[str, Any]) -> None:
        self._host, self.ends, self.stopping = host, threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, *, silently: bool = False, grace: float | None = None) -> None:  # noqa: ARG002 - the real one's
        (self.ends if silently else self.stopping).set()

    def wait(self) -> None:
        # The relay may be gone as soon as one of the waiting threads has returned.
        self._thread.join()

    def _run(self) -> None:
        if self.ends.wait(SECONDS):
            self._host.relay.close(self._host.relay.open("127.0.0.1", 0))


def test_the_end_of_all_waits_for_a_sandbox_that_is_being_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pods: list[FakePod] = []

    def create(host: Host, document: dict[str, Any]) -> FakePod:
        pods.append(FakePod(host, document))
        return pods[0]

    monkeypatch.setattr(module, "SandboxPod", create)
    of_class = Catalog(default_settings()).get("standard")

    async def run() -> None:
        runtime = cast("Any", None)
        sandboxes = Sandboxes(tmp_path, tmp_path / "homes", runtime=runtime, workspaced=tmp_path, keys="")
        await sandboxes.start(Workspace("w-1", "u-1", "standard", "user", "creating"), of_class, lambda *_: None)
        stopped = asyncio.create_task(sandboxes.stop("w-1"))
        assert await asyncio.to_thread(pods[0].stopping.wait, SECONDS)
        await sandboxes.stop_all()
        assert pods[0].ends.is_set()
        await stopped

    asyncio.run(run())
