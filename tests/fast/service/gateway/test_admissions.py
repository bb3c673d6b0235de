"""Open sessions end when their right is revoked; a visitor keeps one session and one token for a while."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from agentenv.core.workspaces.workspace import PortSharing, Timeout
from agentenv.service.gateway.access_cache import VALID_SECONDS
from agentenv.service.gateway.admissions import MOST_OPEN, REUSE_SECONDS, UNUSED_SECONDS
from agentenv.service.gateway.entry import Decision
from agentenv.service.http.auth.callers import Caller, with_implied_roles
from agentenv.service.http.problems import Problem
from tests.fast.service.gateway.entrance import MINE, THEIRS, WORKSPACES, Entrance, allowed, denied, entrance

ME = Caller("u-me", with_implied_roles("user"), "token")


def port(id_: str, number: int = 3000) -> str:
    return f"{number}-{id_}.{WORKSPACES}"


def session(decision: Decision) -> str:
    return allowed(decision).headers["x-workspace-token"].split("/")[3]


def enter(gate: Entrance, host: str, **headers: str) -> str:
    return session(asyncio.run(gate.check(host, **headers)))


def use_tools(gate: Entrance, caller: Caller, id_: str) -> str:
    """Return the session of a caller of the service's own tools."""
    workspace, endpoint = gate.directory.workspaces[id_], gate.directory.endpoints[id_]
    return asyncio.run(gate.authorizer.admit(workspace, caller, endpoint)).split("/")[3]


def sweep(gate: Entrance) -> list[str]:
    asyncio.run(gate.admissions.sweep())
    ended, gate.pods.ended = gate.pods.ended, []
    return ended


def test_visitor_has_a_session_for_each_endpoint_and_others_have_their_own() -> None:
    gate = entrance()
    mine = gate.bearer("u-me")
    first = enter(gate, port(MINE), **mine)
    assert enter(gate, port(MINE), **mine) == first
    gate.clock.seconds = REUSE_SECONDS + 1
    assert enter(gate, port(MINE), **mine) == first
    others = {enter(gate, port(MINE, 3001), **mine), enter(gate, f"49983-{MINE}.{WORKSPACES}", **mine)}
    gate.directory.change(MINE, shared={"u-other": "rw"})
    others.add(enter(gate, port(MINE), **gate.bearer("u-other")))
    assert len(others | {first}) == 4
    assert sweep(gate) == []


def test_tokens_name_each_visitor_by_a_digest_of_its_pod() -> None:
    gate = entrance()
    gate.directory.change(MINE, shared={"u-other": "rw"}, ports={4000: PortSharing("public")})
    for number in (3000, 3001):
        enter(gate, port(MINE, number), **gate.bearer("u-me"))
    enter(gate, port(MINE), **gate.bearer("u-other"))
    enter(gate, port(MINE, 4000))
    gate.directory.change(THEIRS, shared={"u-me": "rw"})
    enter(gate, port(THEIRS), **gate.bearer("u-me"))
    first, second, *others = gate.pods.callers
    assert first == second
    assert len({first, *others}) == 4
    assert all(len(caller) == 32 and "u-" not in caller for caller in gate.pods.callers)


def test_a_share_that_ends_closes_what_it_opened_and_nothing_else() -> None:
    gate = entrance()
    gate.directory.change(THEIRS, shared={"u-me": "rw"}, ports={4000: PortSharing("public")})
    shared = enter(gate, port(THEIRS), **gate.bearer("u-me"))
    own = enter(gate, port(THEIRS), **gate.bearer("u-other"))
    public = enter(gate, port(THEIRS, 4000))
    gate.directory.change(THEIRS, shared={})
    assert sweep(gate) == [shared]
    gate.directory.change(THEIRS, shared={"u-me": "ro"}, ports={})
    assert sweep(gate) == [public]
    gate.directory.change(THEIRS, shared={"u-me": "rw"})
    again = enter(gate, port(THEIRS), **gate.bearer("u-me"))
    assert again != shared
    assert sweep(gate) == []
    assert own not in {shared, public, again}


def test_a_narrower_right_ends_the_wider_session() -> None:
    gate = entrance()
    gate.directory.change(THEIRS, shared={"u-me": "rw"})
    api = enter(gate, f"49983-{THEIRS}.{WORKSPACES}", **gate.bearer("u-me"))
    gate.directory.change(THEIRS, shared={"u-me": "ro"})
    assert sweep(gate) == [api]


def test_a_revoked_key_and_a_raised_generation_close_what_they_opened() -> None:
    gate = entrance()
    key = asyncio.run(gate.keys.create(ME, "k", ["use"], timedelta(hours=1), []))[1]
    by_key = enter(gate, port(MINE), x_api_key=key)
    by_token = enter(gate, port(MINE), x_access_token=gate.access_token(MINE))
    by_owner = enter(gate, port(MINE), **gate.bearer("u-me"))
    asyncio.run(gate.keys.revoke(ME, key[4:16]))
    assert sweep(gate) == [by_key]
    gate.directory.change(MINE, token_generation=1)
    assert sweep(gate) == [by_token]
    gate.directory.change(MINE, owner="u-other")
    assert sweep(gate) == [by_owner]


def test_a_share_that_ends_closes_what_its_tokens_opened() -> None:
    gate = entrance()
    gate.directory.change(THEIRS, shared={"u-me": "rw"})
    by_sharer = enter(gate, port(THEIRS), x_access_token=gate.access_token(THEIRS, shared=True))
    by_owner = enter(gate, port(THEIRS), x_access_token=gate.access_token(THEIRS))
    gate.directory.change(THEIRS, shared={}, share_generation=1)
    assert sweep(gate) == [by_sharer]
    assert by_owner != by_sharer


def test_what_tools_opened_ends_with_the_key() -> None:
    gate = entrance()
    record, secret = asyncio.run(gate.keys.create(ME, "k", ["use"], timedelta(days=1), []))
    caller = gate.keys.caller(secret)
    by_tools = use_tools(gate, caller, MINE)
    assert use_tools(gate, caller, MINE) == by_tools
    assert sweep(gate) == []
    asyncio.run(gate.keys.revoke(ME, record.id))
    assert sweep(gate) == [by_tools]
    with pytest.raises(Problem):
        use_tools(gate, caller, MINE)


def test_what_tools_opened_ends_with_the_share() -> None:
    gate = entrance()
    gate.directory.change(THEIRS, shared={"u-me": "rw"})
    by_owner, by_sharer = use_tools(gate, replace(ME, owner="u-other"), THEIRS), use_tools(gate, ME, THEIRS)
    gate.directory.change(THEIRS, shared={})
    assert sweep(gate) == [by_sharer]
    assert by_owner != by_sharer
    with pytest.raises(Problem):
        use_tools(gate, ME, THEIRS)


def test_what_tools_opened_to_write_ends_when_only_reading_is_left() -> None:
    gate = entrance()
    gate.directory.change(THEIRS, shared={"u-me": "rw"})
    to_write = use_tools(gate, ME, THEIRS)
    gate.directory.change(THEIRS, shared={"u-me": "ro"})
    to_read = use_tools(gate, ME, THEIRS)
    assert to_read != to_write
    assert sweep(gate) == [to_write]
    assert sweep(gate) == []


def test_what_is_open_in_a_killed_sandbox_ends_with_its_pod() -> None:
    """A client that waits for a command learns that its sandbox was killed, and not that its right ended."""
    gate = entrance()
    gate.directory.change(MINE, timeout=Timeout(60, "delete"))
    enter(gate, port(MINE), **gate.bearer("u-me"))
    gate.directory.change(MINE, state="deleting")
    assert sweep(gate) == []


def test_what_is_open_stays_open_while_the_table_hangs() -> None:
    gate = entrance()
    key = asyncio.run(gate.keys.create(ME, "k", ["use"], timedelta(days=1), []))[1]
    enter(gate, port(MINE), x_api_key=key)
    gate.clock.seconds = VALID_SECONDS + 60
    assert sweep(gate) == []


def test_unresponsive_pod_is_retried() -> None:
    gate = entrance()
    gate.directory.change(THEIRS, shared={"u-me": "rw"})
    shared = enter(gate, port(THEIRS), **gate.bearer("u-me"))
    gate.directory.change(THEIRS, shared={})
    gate.pods.away = True
    assert sweep(gate) == []
    gate.pods.away = False
    assert sweep(gate) == [shared]
    assert sweep(gate) == []


def test_a_visitor_who_visits_every_port_is_refused_and_takes_nobodys_session() -> None:
    gate = entrance()
    gate.directory.change(MINE, ports={4000: PortSharing("public")})
    public = enter(gate, port(MINE, 4000))
    mine = gate.bearer("u-me")
    for number in range(MOST_OPEN):
        enter(gate, port(MINE, 5000 + number), **mine)
    refused = denied(asyncio.run(gate.check(port(MINE, 9000), **mine)))
    assert refused.status == 429
    assert dict(refused.headers)["retry-after"] == str(int(UNUSED_SECONDS))
    assert enter(gate, port(MINE, 5000), **mine), "those that are open stay open"
    assert enter(gate, port(MINE, 4000)) == public
    assert sweep(gate) == []


def test_a_session_that_makes_way_is_ended() -> None:
    gate = entrance()
    mine = gate.bearer("u-me")
    first, *_ = [enter(gate, port(MINE, 5000 + number), **mine) for number in range(MOST_OPEN)]
    gate.clock.seconds = UNUSED_SECONDS
    assert enter(gate, port(MINE, 9000), **mine) != first
    gate.pods.away = True
    assert sweep(gate) == []
    gate.pods.away = False
    assert sweep(gate) == [first]
    assert enter(gate, port(MINE, 5001), **mine)
    assert sweep(gate) == []


def test_what_makes_way_for_all_is_ended_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentenv.service.gateway.admissions.MOST_SESSIONS", 2)
    gate = entrance()
    first = enter(gate, port(MINE), **gate.bearer("u-me"))
    others = [enter(gate, port(MINE, 4000), **gate.bearer("u-me")), enter(gate, port(THEIRS), **gate.bearer("u-other"))]
    assert sweep(gate) == [first]
    gate.directory.change(MINE, owner="u-7")
    gate.directory.change(THEIRS, owner="u-7")
    assert sorted(sweep(gate)) == sorted(others)


def test_what_makes_way_is_ended_at_once() -> None:
    async def act() -> list[str]:
        gate.admissions._evict(next(iter(gate.admissions._admissions.values())))
        running = asyncio.create_task(gate.admissions.run())
        while not gate.pods.ended:
            await asyncio.sleep(0)
        running.cancel()
        return gate.pods.ended

    gate = entrance()
    session_ = enter(gate, port(MINE), **gate.bearer("u-me"))
    assert asyncio.run(asyncio.wait_for(act(), 5)) == [session_]


def test_a_right_that_ends_while_the_pod_is_not_ready_closes_what_it_opened() -> None:
    gate = entrance()
    gate.directory.change(THEIRS, shared={"u-me": "rw"})
    shared = enter(gate, port(THEIRS), **gate.bearer("u-me"))
    pod = gate.directory.endpoints.pop(THEIRS)
    for state in ("creating", "running"):
        gate.directory.change(THEIRS, state=state)
        assert sweep(gate) == []
    gate.directory.change(THEIRS, shared={})
    gate.directory.endpoints[THEIRS] = pod
    assert sweep(gate) == [shared]


def test_sessions_of_a_replaced_pod_are_forgotten() -> None:
    gate = entrance()
    enter(gate, port(MINE), **gate.bearer("u-me"))
    gate.directory.endpoints[MINE] = replace(gate.directory.endpoints[MINE], pod_uid="another")
    assert sweep(gate) == []
    assert not gate.admissions._admissions


def test_sessions_of_pods_that_are_gone_are_forgotten() -> None:
    gate = entrance()
    enter(gate, port(MINE), **gate.bearer("u-me"))
    gate.directory.put(MINE, "u-me", "suspended")
    assert sweep(gate) == []
    assert not gate.admissions._admissions
