"""A process that does one thing to a workspace and is killed at a step of it: `kill -9`, with nothing tidied up.

Run as `python -m tests.live.service.killed_process KUBECONFIG ACTION NAMESPACE NAME STEP [more]`; step 0 lets it live.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from agentenv.config import read
from agentenv.core.classes.plan import plans
from agentenv.core.classes.releases import releases_of
from agentenv.core.workspaces.swarms import swarm
from agentenv.service.kube.sync_client import CLAIMS, Document, Kind, SyncKubeClient
from agentenv.service.workspaces import change_class as moving
from agentenv.service.workspaces import swarms
from agentenv.service.workspaces.delete import delete_workspace
from agentenv.service.workspaces.repair_home import repair_home
from agentenv.service.workspaces.restore import restore_workspace, retained_volume
from agentenv.service.workspaces.retain_volume import retain_volume
from agentenv.service.workspaces.suspend import resume, suspend

OWNER = "u-4711"


class Dying(SyncKubeClient):
    """An API server after whose nth change this process is no more; what somebody overtook was none."""

    left = 0

    def create(self, kind: Kind, document: Document) -> bool:
        return self._counted(super().create(kind, document))

    def patch(self, kind: Kind, existing: Document, changes: Document) -> bool:
        return self._counted(super().patch(kind, existing, changes))

    def delete(self, kind: Kind, existing: Document) -> bool:
        return self._counted(super().delete(kind, existing))

    def _counted(self, done: bool) -> bool:
        self.left -= done
        if done and self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return done


def main(arguments: list[str]) -> int:
    kubeconfig, action, space, name, step, *more = arguments
    api = Dying.from_kubeconfig(Path(kubeconfig))
    assert isinstance(api, Dying)
    api.left = int(step)
    if action == "swarm":
        # Its class as a stack file has it, and how many.
        config = {"aws:region": "us-east-1", "agent-environment:sandboxClasses": [json.loads(more[0])]}
        (plan,) = plans(read(config, "dev"))
        swarms.create_swarm(api, swarm(plan, releases_of(plan)[0], name, int(more[1]), owner=OWNER), timeout=60)
        return 0
    if action == "end-swarm":
        swarms.delete_swarm(api, space, name, timedelta(days=30))
        return 0
    if action == "restart":
        volume = retained_volume(api, OWNER, name)
        assert volume is not None
        restore_workspace(api, volume, more[0] if more else None)
        return 0
    for _ in range(100):
        claim = api.find(CLAIMS, name, space)
        if claim is None:
            return 3
        # Whoever asks tries again what its controller overtook; a change that was made is not made twice.
        if once(api, action, claim, more) not in {"overtaken", "waiting"}:
            return 0
        time.sleep(0.1)
    return 4


def once(api: SyncKubeClient, action: str, claim: Document, more: list[str]) -> str:
    """Try it once; what came of it."""
    now = datetime.now(UTC)
    match action:
        case "keep":
            return retain_volume(api, claim).outcome
        case "suspend":
            return suspend(api, claim, "idle")
        case "wake":
            return resume(api, claim, now)
        case "delete" | "destroy":
            return delete_workspace(api, claim, timedelta(days=30 if action == "delete" else 0), now)
        case "move":
            return moving.start_class_change(api, claim, more[0], now).outcome
        case "restore":
            return "done" if repair_home(api, claim, more[0], more[1], now) else "overtaken"
        case _:
            raise ValueError(action)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
