"""Links open a port until they expire or are revoked, aliases leave nothing of a former owner, and entries are kept."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from agentenv.core.gateway.access_records import Alias, Link
from agentenv.core.gateway.api_keys import digest
from agentenv.core.workspaces.workspace import PortSharing
from agentenv.service.gateway.entry import OWN_PATHS
from tests.fast.service.gateway.browser import Browser, World, in_world
from tests.fast.service.gateway.entrance import MINE, THEIRS, WORKSPACES

HOST = f"3000-{THEIRS}.{WORKSPACES}"
URL = f"https://{HOST}{OWN_PATHS}link?token=abc.hush&path=%2Fpage%3Fa%3Db"


async def shared(world: World, **changes: Any) -> Link:
    now = world.gate.clock.now()
    sharing = PortSharing("link", wake=True)
    world.gate.directory.change(THEIRS, ports={3000: sharing, 4000: sharing})
    values = {"id": "abc", "digest": digest("hush"), "workspace": THEIRS, "port": 3000, "wake": False}
    values |= {"created_by": "u-other", "created": now, "expires": now + timedelta(minutes=5)}
    link = Link(**{**values, **changes})
    await world.gate.cache.put(link)
    return link


def test_a_link_opens_its_port_and_leaves_the_address() -> None:
    async def act(world: World) -> None:
        await shared(world)
        browser = Browser(world)
        page = await browser.open(URL)
        assert page.allow is not None
        assert browser.visited[-1] == f"https://{HOST}/page?a=b"
        assert set(browser.jars[HOST]) == {"__Host-link"}
        assert "hush" not in repr(browser.jars)
        cookie = browser.jars[HOST]["__Host-link"]
        for host in (f"4000-{THEIRS}.{WORKSPACES}", f"49983-{THEIRS}.{WORKSPACES}", f"3000-{MINE}.{WORKSPACES}"):
            other = Browser(world, jars={host: {"__Host-link": cookie}})
            assert (await other.send(f"https://{host}/", headers={})).allow is None

    in_world(act)


def test_altered_and_foreign_links_open_nothing() -> None:
    async def act(world: World) -> None:
        await shared(world)
        for token in ("abc.", "abc.hush2", "abd.hush", "abc", ".hush", "", "abc.hus", "abc..hush"):
            page = await Browser(world).send(f"https://{HOST}{OWN_PATHS}link?token={token}")
            assert page.status == 404, token
        for path in ("//evil.example", "https://evil.example", "/\\evil"):
            page = await Browser(world).send(f"https://{HOST}{OWN_PATHS}link?token=abc.hush&path={path}")
            assert page.header("location") == "/"

    in_world(act)


def test_a_revoked_or_expired_link_closes_what_it_opened() -> None:
    async def act(world: World) -> None:
        link = await shared(world)
        browser = Browser(world)
        assert (await browser.open(URL)).allow
        world.gate.clock.seconds = 301
        await world.gate.cache.poll()
        assert (await browser.send(f"https://{HOST}/", headers={})).status == 404
        await world.gate.admissions.sweep()
        assert len(world.gate.pods.ended) == 1
        await shared(world, id="def")
        again = Browser(world)
        assert (await again.open(URL.replace("abc", "def"))).allow
        await world.gate.cache.put(
            Link(
                **{name: getattr(link, name) for name in link.__slots__}
                | {"id": "def", "revoked": True, "expires": world.gate.clock.now() + timedelta(minutes=5)}
            )
        )
        assert (await again.send(f"https://{HOST}/", headers={})).status == 404
        await world.gate.admissions.sweep()
        assert len(world.gate.pods.ended) == 2

    in_world(act)


def test_link_may_resume_only_if_it_was_created_so() -> None:
    async def act(world: World) -> None:
        await shared(world)
        browser = Browser(world)
        await browser.open(URL)
        ports = world.gate.directory.workspaces[THEIRS].ports
        world.gate.directory.put(THEIRS, "u-other", "suspended", ports=ports)
        assert (await browser.send(f"https://{HOST}/", headers={})).status == 409
        await shared(world, wake=True)
        world.gate.directory.put(THEIRS, "u-other", "suspended", ports=ports)
        assert (await browser.send(f"https://{HOST}/", headers={})).allow

    in_world(act)


SHOP = f"shop.{WORKSPACES}"
CLEARED = '"cache", "cookies", "storage"'


async def taken_over(world: World) -> None:
    """Give an alias that was freed to another owner."""
    now = world.gate.clock.now()
    world.gate.directory.change(MINE, ports={8000: PortSharing("public")})
    assert await world.gate.cache.take_alias(Alias("shop", "u-me", MINE, 8000, now, freed=now))


def test_a_browser_deletes_what_it_holds_of_a_former_owner_once() -> None:
    async def act(world: World) -> None:
        await taken_over(world)
        browser = Browser(world, jars={SHOP: {"planted": "by-the-former-owner"}})
        first = await browser.send(f"https://{SHOP}/a?b")
        assert first.header("clear-site-data") == CLEARED
        page = await browser.open(f"https://{SHOP}/a?b")
        assert page.allow is not None
        assert page.header("clear-site-data") == ""
        assert browser.visited[-1] == f"https://{SHOP}/a?b"
        assert (await browser.send(f"https://{SHOP}/", headers={})).header("clear-site-data") == ""
        world.gate.clock.seconds = timedelta(days=31).total_seconds()
        await world.gate.cache.poll()
        late = await Browser(world).send(f"https://{SHOP}/")
        assert late.allow is not None
        assert late.header("clear-site-data") == ""

    in_world(act)


def test_a_service_worker_of_a_former_owner_is_removed() -> None:
    async def act(world: World) -> None:
        await taken_over(world)
        script = await Browser(world).send(f"https://{SHOP}/sw.js", headers={"service-worker": "script"})
        assert script.status == 404
        assert script.header("clear-site-data") == CLEARED
        fetched = await Browser(world).send(f"https://{SHOP}/data", headers={"sec-fetch-mode": "cors"})
        assert fetched.allow is not None
        assert fetched.header("clear-site-data") == CLEARED

    in_world(act)


@pytest.mark.parametrize("sharing", ["private", "public"])
@pytest.mark.parametrize("freed_alone", [False, True])
def test_worker_of_a_former_owner_is_removed_for_every_caller(sharing: Any, *, freed_alone: bool) -> None:
    async def act(world: World) -> None:
        now = world.gate.clock.now()
        alias = Alias("shop", "u-me", MINE, 8000, now, freed=now)
        await world.gate.cache.put(replace(alias, owner="", workspace="") if freed_alone else alias)
        world.gate.directory.change(MINE, ports={8000: PortSharing(sharing)})
        for headers in ({"service-worker": "script"}, {"sec-fetch-mode": "cors"}, {"authorization": "Bearer x"}):
            for host in (SHOP, f"3000-{SHOP}"):
                page = await Browser(world).send(f"https://{host}/sw.js", headers=headers)
                assert page.header("clear-site-data") == CLEARED
        browser = Browser(world)
        first = await browser.send(f"https://{SHOP}/")
        assert (first.status, first.header("clear-site-data")) == (303, CLEARED)
        marked = await browser.send(f"https://{SHOP}{first.header('location')}")
        assert marked.header("clear-site-data") == ""
        assert (await browser.send(f"https://{SHOP}/")).header("clear-site-data") == "", "once for a browser"

    in_world(act)


def test_browsers_are_cleaned_for_thirty_days_after_the_next_owner_came() -> None:
    async def act(world: World) -> None:
        now = world.gate.clock.now()
        later = now + timedelta(days=29)
        world.gate.directory.change(MINE, ports={8000: PortSharing("public")})
        await world.gate.cache.put(Alias("shop", "u-me", MINE, 8000, later, freed=now))
        for days, cleared in ((29, CLEARED), (58, CLEARED), (60, "")):
            world.gate.clock.seconds = timedelta(days=days).total_seconds()
            await world.gate.cache.poll()
            page = await Browser(world).send(f"https://{SHOP}/", headers={})
            assert page.header("clear-site-data") == cleared

    in_world(act)


def test_an_alias_without_a_former_owner_clears_nothing() -> None:
    async def act(world: World) -> None:
        world.gate.directory.change(MINE, ports={8000: PortSharing("public")})
        await world.gate.cache.take_alias(Alias("shop", "u-me", MINE, 8000, world.gate.clock.now()))
        page = await Browser(world).send(f"https://{SHOP}/")
        assert page.allow is not None
        assert page.headers == []

    in_world(act)


def test_an_entry_is_recorded_once_an_hour_with_who_and_from_where() -> None:
    async def act(world: World) -> None:
        await shared(world)
        browser = Browser(world)
        await browser.open(URL)
        for _ in range(5):
            await browser.send(f"https://{HOST}/", headers={})
        await world.trail.write()
        (entry,) = world.gate.store.trail
        assert {name: entry[name] for name in ("workspace", "who", "by", "opened", "source")} == {
            "workspace": THEIRS,
            "who": "link:abc",
            "by": "link",
            "opened": "port 3000",
            "source": "192.0.2.9",
        }
        assert "hush" not in repr(entry)
        await Browser(world).send(f"https://{HOST}/")
        await world.trail.write()
        assert len(world.gate.store.trail) == 1, "who was refused has not entered"

    in_world(act)


def test_entries_wait_for_a_table_that_does_not_answer() -> None:
    async def act(world: World) -> None:
        await shared(world)
        await Browser(world).open(URL)
        world.gate.store.away = True
        await world.trail.write()
        world.gate.store.away = False
        await world.trail.write()
        await world.trail.write()
        assert len(world.gate.store.trail) == 1

    in_world(act)
