"""A process that applies one action to a workspace, and is killed with `kill -9` after one of its writes.

Run as `python -m tests.live.service.killed_process KUBECONFIG ACTION NAMESPACE NAME STEP [more]`; step 0 kills nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from agentenv.config import read
from agentenv.core.classes.plan import plans
from agentenv.core.classes.releases import releases_of
from agentenv.core.workspaces.swarms import swarm
from agentenv.service.kube.client import CLAIMS, Document, Kind, KubeClient
from agentenv.service.workspaces import change_class, swarms
from agentenv.service.workspaces.delete import delete_workspace
from agentenv.service.workspaces.repair_home import repair_home
from agentenv.service.workspaces.restore import restore_workspace, retained_volume
from agentenv.service.workspaces.retain_volume import retain_volume
from agentenv.service.workspaces.suspend import resume, suspend

Result = TypeVar("Result")
OWNER = "u-4711"


class KilledClient(KubeClient):
    """A client that kills this process after its nth write; a write that conflicted does not count."""

    left = 0

    async def create(self, kind: Kind, document: Mapping[str, Any]) -> Document | None:
        return self._counted(await super().create(kind, document))

    async def patch(self, kind: Kind, existing: Mapping[str, Any], changes: Mapping[str, Any]) -> Document | None:
        return self._counted(await super().patch(kind, existing, changes))

    async def delete(self, kind: Kind, existing: Mapping[str, Any], **options: Any) -> bool:
        return self._counted(await super().delete(kind, existing, **options))

    def _counted(self, done: Result) -> Result:
        self.left -= bool(done)
        if done and self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return done


async def main(arguments: list[str]) -> int:
    kubeconfig, action, namespace, name, step, *more = arguments
    api = KilledClient.from_kubeconfig(Path(kubeconfig), attempts=1)
    assert isinstance(api, KilledClient)
    api.left = int(step)
    if action == "swarm":
        # The settings of its class, and the number of members
        config = {
            "aws:region": "us-east-1",
            "agent-environment:cluster": {"publicAccessCidrs": ["203.0.113.0/24"]},
            "agent-environment:sandboxClasses": [json.loads(more[0])],
        }
        (plan,) = plans(read(config, "dev"))
        await swarms.create_swarm(api, swarm(plan, releases_of(plan)[0], name, int(more[1]), owner=OWNER), timeout=60)
        return 0
    if action == "end-swarm":
        await swarms.delete_swarm(api, namespace, name, timedelta(days=30))
        return 0
    if action == "restart":
        volume = await retained_volume(api, OWNER, name)
        assert volume is not None
        await restore_workspace(api, volume, more[0] if more else None)
        return 0
    for _ in range(100):
        claim = await api.find(CLAIMS, name, namespace)
        if claim is None:
            return 3
        # As a caller does after a conflict with a controller; an applied change is not repeated.
        if await apply_action(api, action, claim, more) not in {"overtaken", "waiting"}:
            return 0
        await asyncio.sleep(0.1)
    return 4


async def apply_action(api: KubeClient, action: str, claim: Document, more: list[str]) -> str:
    """Apply the action once, and return its outcome."""
    now = datetime.now(UTC)
    match action:
        case "keep":
            return (await retain_volume(api, claim)).outcome
        case "suspend":
            return await suspend(api, claim, "idle")
        case "wake":
            return await resume(api, claim, now)
        case "delete" | "destroy":
            return await delete_workspace(api, claim, timedelta(days=30 if action == "delete" else 0), now)
        case "move":
            return (await change_class.start_class_change(api, claim, more[0], now)).outcome
        case "restore":
            return "done" if await repair_home(api, claim, more[0], more[1], now) else "overtaken"
        case _:
            raise ValueError(action)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
