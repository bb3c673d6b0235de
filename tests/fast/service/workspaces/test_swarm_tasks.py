"""The swarms of a cluster do what those of every backend do; what needs its controllers is in `tests/live`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.fast.service.workspaces.stage import Stage, staged
from tests.fast.service.workspaces.swarms_contract import CONTRACT, FAILURES, SwarmSubject

SECONDS = 20.0
SHARED = {"kind": "shared", "size": "5Gi"}


def subject_of(stage: Stage) -> SwarmSubject:
    def set_ready(ready: bool) -> None:
        stage.fills = ready
        for (kind, _, _), document in list(stage.server.objects.items()) if ready else ():
            if kind == "sandboxclaims" and "status" not in document:
                stage.fill(document)

    return SwarmSubject(
        stage.backend,
        "standard",
        SECONDS,
        swarms=stage.swarms,
        other_class="other",
        set_ready=set_ready,
    )


def on_stage(holds: Callable[[SwarmSubject], Awaitable[None]]) -> None:
    async def run() -> None:
        classes = [{"name": name, "storage": SHARED} for name in ("standard", "other")]
        async with staged(*classes) as stage, asyncio.timeout(SECONDS):
            await holds(subject_of(stage))

    asyncio.run(run())


@pytest.mark.parametrize("holds", CONTRACT, ids=lambda holds: holds.__name__)
def test_the_contract_of_swarms(holds: Callable[[SwarmSubject], Awaitable[None]]) -> None:
    on_stage(holds)


@pytest.mark.parametrize("holds", FAILURES, ids=lambda holds: holds.__name__)
def test_the_contract_of_swarms_that_do_not_become_ready(
    holds: Callable[[SwarmSubject], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentenv.service.workspaces.swarm_tasks.CREATE_TIMEOUT", 0.2)
    on_stage(holds)
