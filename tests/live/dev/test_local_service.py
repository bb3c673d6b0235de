"""The local service holds the contract with sandboxes that run, and homes outlive their sandboxes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest

from agentenv.dev.machine import Machine
from agentenv.dev.serve import Local, local_service
from agentenv.dev.settings import default_settings
from agentenv.dev.state import State
from agentenv.rehearsal.scenario.command_probe import Output, run_script
from agentenv.service.workspaced.tokens import Grant
from tests.fast.service.workspaces.backend_contract import CONTRACT, RETENTION, Subject
from tests.fast.service.workspaces.swarms_contract import CONTRACT as CONTRACT_OF_SWARMS
from tests.fast.service.workspaces.swarms_contract import LIFECYCLE, SwarmSubject

SECONDS = 60.0


def serving(state: State, on: Machine, act: Callable[[Local, Subject], Awaitable[None]]) -> None:
    async def run() -> None:
        async with (
            local_service(default_settings(), state, lambda keys: on.sandboxes(state.homes, keys)) as local,
            asyncio.timeout(SECONDS * 2),
        ):
            await act(local, Subject(local.backend, "standard", SECONDS))

    asyncio.run(run())


async def run_in(local: Local, id_: str, script: str) -> Output:
    """Run a script in a workspace, through its workspaced."""
    endpoint = local.backend.endpoint(id_)
    assert endpoint is not None
    token = await local.signer.sign(Grant(endpoint.pod_uid, "api", endpoint.claim_uid))
    ports = [{"name": "workspaced", "containerPort": endpoint.port}]
    pod = {"status": {"podIP": endpoint.address}, "spec": {"containers": [{"ports": ports}]}}
    return await asyncio.to_thread(run_script, pod, token, script)


@pytest.mark.parametrize("holds", CONTRACT, ids=lambda holds: holds.__name__)
def test_backend_fulfills_the_contract(holds: Callable[[Subject], Awaitable[None]], state: State, on: Machine) -> None:
    async def act(_: Local, subject: Subject) -> None:
        await holds(subject)

    serving(state, on, act)


@pytest.mark.parametrize("holds", [*CONTRACT_OF_SWARMS, *LIFECYCLE], ids=lambda holds: holds.__name__)
def test_swarms_fulfill_the_contract(
    holds: Callable[[SwarmSubject], Awaitable[None]], state: State, on: Machine
) -> None:
    async def act(local: Local, _: Subject) -> None:
        await holds(swarm_subject(local))

    serving(state, on, act)


def test_members_of_a_swarm_share_a_folder(state: State, on: Machine) -> None:
    async def act(local: Local, _: Subject) -> None:
        subject = swarm_subject(local)
        await subject.swarm()
        first, second = subject.names(2)
        assert (await run_in(local, first, "echo ours > /shared/notes; echo mine > ~/notes")).code == 0
        output = await run_in(local, second, "cat /shared/notes; ls ~/notes || touch /shared/second")
        assert output.stdout == "ours\n"
        await subject.swarms.end(subject.owner, "crawl")
        await subject.reach_end()
        await subject.swarm()
        assert (await run_in(local, first, "ls /shared; cat ~/notes")).stdout == "notes\nsecond\nmine\n"

    serving(state, on, act)


def swarm_subject(local: Local) -> SwarmSubject:
    swarms = local.dependencies.swarms
    return SwarmSubject(local.backend, "standard", SECONDS, "u-1", swarms=swarms, other_class="base")


def test_files_survive_suspension_deletion_and_restart(state: State, on: Machine) -> None:
    ids: list[str] = []

    async def before(local: Local, subject: Subject) -> None:
        id_ = (await subject.create()).id
        ids.append(id_)
        output = await run_in(local, id_, "id -u; echo kept > ~/notes; pwd; sleep 600 >/dev/null 2>&1 &")
        assert output.code == 0
        assert output.stdout.splitlines()[0] != "0"
        await local.backend.suspend(id_, "asked")
        assert (await local.backend.resume(id_, wait=SECONDS)).ready
        assert (await run_in(local, id_, "cat ~/notes; pgrep sleep")).stdout == "kept\n"
        await local.backend.delete(id_, keep_for=RETENTION)
        await subject.reach(id_, "deleted")
        assert (await local.backend.resume(id_, wait=SECONDS)).ready
        assert (await run_in(local, id_, "cat ~/notes")).stdout == "kept\n"

    async def after(local: Local, _: Subject) -> None:
        assert (await local.backend.resume(ids[0], wait=SECONDS)).ready
        assert (await run_in(local, ids[0], "cat ~/notes")).stdout == "kept\n"
        await local.backend.delete(ids[0], keep_for=RETENTION * 0)
        assert await local.backend.settled(ids[0], wait=SECONDS) is None
        assert not (state.homes / ids[0]).exists()

    serving(state, on, before)
    serving(state, on, after)


def test_requests_to_workspaced_count_as_activity(state: State, on: Machine) -> None:
    async def act(local: Local, subject: Subject) -> None:
        created = await subject.create()
        await run_in(local, created.id, "true")
        [source] = local.upkeep.context.sources
        seen = (await source.seen([created], {}, datetime.now(UTC)))[created.id]
        assert seen.known
        assert seen.at is not None
        assert created.created is not None
        assert seen.at > created.created

    serving(state, on, act)
