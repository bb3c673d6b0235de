"""A replica that starts ends what one that is gone had let in, once the right to it ends."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from agentenv.core.workspaces.workspace import PortSharing
from agentenv.service.gateway.admissions import Admissions
from agentenv.service.gateway.authorize import Authorizer, Domains
from agentenv.service.gateway.open_sessions import KEEP_DAYS, OVERLAP, OpenSessions
from agentenv.service.gateway.waking import Waker
from tests.fast.service.gateway.browser import Browser, World, in_world
from tests.fast.service.gateway.entrance import DOMAIN, MINE, THEIRS, WORKSPACES, Entrance, entrance
from tests.fast.service.gateway.test_admissions import ME, enter, port, session
from tests.fast.service.gateway.test_links import URL, shared


def noted(gate: Entrance) -> OpenSessions:
    """Have a replica note what it admits, in the table that all share."""
    sessions = OpenSessions(gate.store, gate.clock.now)
    gate.admissions.on_enter = sessions.note
    return sessions


async def successor(gate: Entrance, sessions: OpenSessions) -> Admissions:
    """Return the admissions of a replica that starts when the first is gone."""
    await sessions.write()
    visitors = gate.authorizer._visitors
    admissions = Admissions(gate.pods, gate.pods, monotonic=gate.clock.monotonic)
    Authorizer(
        gate.directory,
        Domains(DOMAIN, WORKSPACES),
        visitors,
        admissions,
        Waker(gate.directory.resume),
        now=gate.clock.now,
        sharing_of=lambda _: ("private", "team", "link", "public"),
        break_glass=lambda workspace, owner: (workspace, owner) in gate.glass,
    )
    admissions.adopt(await OpenSessions(gate.store, gate.clock.now).read(visitors.restored))
    return admissions


def ended(gate: Entrance, sessions: OpenSessions, change: object = None) -> list[str]:
    """Return what the successor ends after a change."""

    async def run() -> list[str]:
        admissions = await successor(gate, sessions)
        await admissions.sweep()
        assert gate.pods.ended == [], "nothing ends while its right holds"
        if callable(change):
            change()
        await admissions.sweep()
        await admissions.sweep()
        return gate.pods.ended

    return asyncio.run(run())


def test_shares_that_end_after_the_restart_close_what_they_opened() -> None:
    gate = entrance()
    sessions = noted(gate)
    gate.directory.change(THEIRS, shared={"u-me": "rw", "team:research": "rw"}, ports={4000: PortSharing("public")})
    by_person = enter(gate, port(THEIRS), **gate.bearer("u-me"))
    by_team = enter(gate, port(THEIRS), **gate.bearer("u-7", groups=["research"]))
    public = enter(gate, port(THEIRS, 4000))
    own = enter(gate, port(THEIRS), **gate.bearer("u-other"))
    closed = ended(gate, sessions, lambda: gate.directory.change(THEIRS, shared={}, ports={}))
    assert sorted(closed) == sorted([by_person, by_team, public])
    assert own not in closed


def test_keys_tokens_and_break_glass_that_end_after_the_restart() -> None:
    gate = entrance()
    sessions = noted(gate)
    key = asyncio.run(gate.keys.create(ME, "k", ["use"], timedelta(hours=1), []))[1]
    gate.glass.add((THEIRS, "u-ops"))
    opened = [
        enter(gate, port(MINE), x_api_key=key),
        enter(gate, port(MINE), x_access_token=gate.access_token(MINE)),
        enter(gate, port(THEIRS), **gate.bearer("u-ops", groups=["ops"])),
    ]

    def change() -> None:
        gate.clock.seconds = 3601
        gate.directory.change(MINE, token_generation=1)
        gate.glass.clear()

    # The key has expired by then.
    gate.cache._read_at = float("inf")
    assert sorted(ended(gate, sessions, change)) == sorted(opened)


def test_a_right_that_had_ended_while_no_replica_ran() -> None:
    gate = entrance()
    sessions = noted(gate)
    gate.directory.change(THEIRS, shared={"u-me": "rw"})
    session = enter(gate, port(THEIRS), **gate.bearer("u-me"))
    gate.directory.change(THEIRS, shared={})

    async def run() -> None:
        await (await successor(gate, sessions)).sweep()

    asyncio.run(run())
    assert gate.pods.ended == [session]


def test_people_and_links_are_followed_too() -> None:
    async def act(world: World) -> None:
        sessions = noted(world.gate)
        link = await shared(world)
        world.gate.directory.put(MINE, "u-me", ports={5000: PortSharing("team", ("ops",))})
        assert (await Browser(world).open(URL)).allow
        person = Browser(world, "olga")
        assert (await person.open(f"https://5000-{MINE}.{WORKSPACES}/")).allow
        admissions = await successor(world.gate, sessions)
        await admissions.sweep()
        assert world.gate.pods.ended == []
        world.gate.clock.seconds = (link.expires - link.created).total_seconds() + 1
        await admissions.sweep()
        assert len(world.gate.pods.ended) == 1
        api = {"origin": f"https://api.{DOMAIN}"}
        await person.send(f"https://api.{DOMAIN}/v1/sign-out", "POST", api)
        await admissions.sweep()
        assert len(world.gate.pods.ended) == 2

    in_world(act)


def test_sessions_of_pods_that_are_gone_and_old_ones_are_not_followed() -> None:
    gate = entrance()
    sessions = noted(gate)
    enter(gate, port(MINE), **gate.bearer("u-me"))
    gate.directory.put(MINE, "u-me", "suspended")
    assert ended(gate, sessions) == []
    gate.clock.seconds = timedelta(days=KEEP_DAYS + 1).total_seconds()
    read = asyncio.run(OpenSessions(gate.store, gate.clock.now).read(gate.authorizer._visitors.restored))
    assert read == []


def test_sessions_of_a_replica_that_is_gone_later_are_followed_too() -> None:
    gate = entrance()
    sessions = noted(gate)
    gate.directory.change(THEIRS, shared={"u-me": "rw"})

    async def run() -> None:
        admissions = await successor(gate, sessions)
        later = OpenSessions(gate.store, gate.clock.now)
        restored = gate.authorizer._visitors.restored
        assert await later.read(restored) == []
        gate.clock.seconds = 3600
        opened = session(await gate.check(port(THEIRS), **gate.bearer("u-me")))
        await sessions.write()
        for _ in range(2):
            admissions.adopt(await later.read(restored))
        gate.clock.seconds += OVERLAP.total_seconds() + 1
        await later.read(restored)
        assert await later.read(restored) == [], "each is read for a while alone"
        await admissions.sweep()
        assert gate.pods.ended == []
        gate.directory.change(THEIRS, shared={})
        await admissions.sweep()
        assert gate.pods.ended == [opened]

    asyncio.run(run())


def test_a_replica_does_not_adopt_its_own_sessions() -> None:
    gate = entrance()
    sessions = noted(gate)
    enter(gate, port(MINE), **gate.bearer("u-me"))

    async def run() -> None:
        await sessions.write()
        gate.admissions.adopt(await sessions.read(gate.authorizer._visitors.restored))
        assert not gate.admissions._others

    asyncio.run(run())


@pytest.mark.parametrize("secret", ["hush", "Bearer", "e2b_"])
def test_no_credential_is_stored(secret: str) -> None:
    async def act(world: World) -> None:
        sessions = noted(world.gate)
        await shared(world)
        await Browser(world).open(URL)
        await sessions.write()
        assert world.gate.store.trail
        assert secret not in repr(world.gate.store.trail)

    in_world(act)
