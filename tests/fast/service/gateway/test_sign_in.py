"""People sign in once, and enter by a code for one host and one browser; nobody's code or cookie serves another."""

from __future__ import annotations

import asyncio
import threading
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

import pytest

from agentenv.service.gateway.entry import OWN_PATHS
from agentenv.service.gateway.visitors import PERSON_FOR
from agentenv.service.http.auth.callers import owner_id
from agentenv.service.http.auth.rate_limits import RateLimiter
from tests.fast.service.gateway.browser import API, Browser, Page, World, in_world
from tests.fast.service.gateway.entrance import MINE, NOBODYS, THEIRS, WORKSPACES

HOST, OTHER = f"3000-{MINE}.{WORKSPACES}", f"4000-{MINE}.{WORKSPACES}"
URL = f"https://{HOST}/a/b?c=d%20e"


async def signed_in(world: World, user: str = "alice", url: str = URL) -> Browser:
    world.gate.directory.put(MINE, owner_id(world.issuer.url, "alice"))
    browser = Browser(world, user)
    await browser.open(url)
    return browser


def opened(page: Page) -> bool:
    return page.allow is not None


def test_a_person_comes_back_to_the_page_and_needs_no_second_sign_in() -> None:
    async def act(world: World) -> None:
        browser = await signed_in(world)
        assert browser.visited[-1] == URL
        assert opened(await browser.send(URL))
        issuer = sum("/authorize" in url for url in browser.visited)
        assert opened(await browser.open(f"https://{OTHER}/"))
        assert sum("/authorize" in url for url in browser.visited) == issuer == 1
        # Each host has its own cookies, and the API's are at no other.
        assert set(browser.jars[HOST]) == set(browser.jars[OTHER]) == {"__Host-workspace"}
        assert set(browser.jars[API]) == {"__Host-session"}

    in_world(act)


def test_a_stranger_signs_in_and_learns_nothing() -> None:
    async def act(world: World) -> None:
        browser = await signed_in(world, "mallory")
        theirs = await browser.open(f"https://3000-{THEIRS}.{WORKSPACES}/")
        nobodys = await browser.open(f"https://3000-{NOBODYS}.{WORKSPACES}/")
        assert (theirs.status, theirs.body) == (nobodys.status, nobodys.body)
        assert theirs.status == 404

    in_world(act)


async def code_for(world: World, browser: Browser) -> str:
    """Return the address with the code by which a browser would enter, not opened."""
    page = await browser.send(URL)
    entered = await browser.send(page.header("location"))
    while "/enter?code=" not in entered.header("location"):
        entered = await browser.send(entered.header("location"))
        if entered.header("location").startswith("/"):
            entered = await browser.send(f"https://{API}{entered.header('location')}")
    return entered.header("location")


def test_a_code_serves_once_in_its_browser_at_its_host_for_half_a_minute() -> None:
    async def act(world: World) -> None:
        browser = await signed_in(world)
        del browser.jars[HOST]
        code = await code_for(world, browser)
        thief = Browser(world, "mallory")
        await thief.send(URL)
        assert (await thief.send(code)).status == 401
        elsewhere = code.replace(HOST, OTHER)
        browser.jars[OTHER] = dict(browser.jars[HOST])
        assert (await browser.send(elsewhere)).status == 401
        assert (await browser.send(code)).status == 303
        browser.jars[HOST]["__Host-browser"] = browser.jars[OTHER]["__Host-browser"]
        assert (await browser.send(code)).status == 401
        del browser.jars[HOST]
        late = await code_for(world, browser)
        world.gate.clock.seconds += 31
        assert (await browser.send(late)).status == 401

    in_world(act)


def test_planted_code_does_not_sign_in_another_user() -> None:
    """The attacker sends a victim to the attacker's own code: the victim's browser was not sent by this host."""

    async def act(world: World) -> None:
        attacker = await signed_in(world)
        del attacker.jars[HOST]
        code = await code_for(world, attacker)
        victim = Browser(world, "bob")
        assert (await victim.send(code)).status == 401
        await victim.send(URL)
        assert (await victim.send(code)).status == 401
        assert "__Host-workspace" not in victim.jars[HOST]

    in_world(act)


def test_the_state_is_bound_to_the_browser_that_started() -> None:
    async def act(world: World) -> None:
        attacker, victim = Browser(world, "mallory"), Browser(world, "bob")
        started = await attacker.send(f"https://{API}/v1/sign-in")
        back = (await attacker.send(started.header("location"))).header("location")
        assert (await victim.send(back)).status == 401
        await victim.send(f"https://{API}/v1/sign-in")
        assert (await victim.send(back)).status == 401
        assert "__Host-session" not in victim.jars[API]
        cookies = dict(attacker.jars[API])
        assert (await attacker.send(back)).status == 303
        attacker.jars[API] |= cookies
        assert (await attacker.send(back)).status == 401, "a callback serves once"

    in_world(act)


def test_a_limited_number_of_sign_ins_are_finished_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentenv.service.gateway.sign_in.AT_ONCE", 1)
    released = threading.Event()

    async def act(world: World) -> None:
        used_once = world.gate.store.use_once
        monkeypatch.setattr(
            world.gate.store, "use_once", lambda code, until: released.wait(20) and used_once(code, until)
        )
        browser = Browser(world)
        started = await browser.send(f"https://{API}/v1/sign-in")
        back = (await browser.send(started.header("location"))).header("location")
        first = asyncio.create_task(browser.send(back))
        while world.sign_in._free:
            await asyncio.sleep(0)
        refused = await Browser(world, jars={API: dict(browser.jars[API])}).send(back)
        assert (refused.status, refused.header("retry-after")) == (503, "5")
        released.set()
        assert (await first).status == 303
        assert world.sign_in._free == 1

    in_world(act)


def test_the_gateways_own_paths_count_against_the_limit_of_their_source() -> None:
    async def act(world: World) -> None:
        world.authorizer._requests = RateLimiter(2)
        paths = [f"https://{HOST}{OWN_PATHS}{path}" for path in ("enter?code=x", "link?token=x.y", "enter?code=y")]
        assert [(await Browser(world).send(path)).status for path in paths] == [401, 404, 429]

    in_world(act)


def test_a_token_for_another_sign_in_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(world: World) -> None:
        browser = Browser(world, "bob")
        started = await browser.send(f"https://{API}/v1/sign-in")
        back = (await browser.send(started.header("location"))).header("location")
        tokens = world.issuer.token("bob", audience="console", nonce="another")

        async def post(*_: Any, **__: Any) -> Any:
            import httpx2

            return httpx2.Response(200, json={"id_token": tokens})

        monkeypatch.setattr(world.http, "post", post)
        assert (await browser.send(back)).status == 401

    in_world(act)


@pytest.mark.parametrize(
    "then",
    [
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "\\\\evil",
        "/%5cevil",
        "/%2fevil.example",
        "evil",
        "/a\r\nSet-Cookie: x=y",
        "javascript:alert(1)",
        "/" + "a" * 3000,
    ],
)
def test_sign_in_redirects_to_no_other_site(then: str) -> None:
    async def act(world: World) -> None:
        browser = Browser(world)
        started = await browser.send(f"https://{API}/v1/sign-in?then={quote(then, safe='')}")
        back = await browser.send(started.header("location"))
        finished = await browser.send(back.header("location"))
        assert finished.header("location") in {"/", then} or finished.status == 422
        assert urlsplit(finished.header("location")).netloc == ""
        assert not finished.header("location").startswith(("//", "/\\", "/%2f"))

    in_world(act)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        f"{HOST}.evil.example",
        f"{HOST}:444",
        f"user@{HOST}",
        API,
        f"{HOST}/x",
        f"{HOST}#",
        "",
        f"{HOST}.",
    ],
)
def test_code_is_created_only_for_workspace_hosts(host: str) -> None:
    async def act(world: World) -> None:
        browser = await signed_in(world)
        page = await browser.send(f"https://{API}/v1/sign-in/enter?host={quote(host, safe='')}&browser={'0' * 32}")
        assert page.status == 422
        assert "code=" not in page.header("location")

    in_world(act)


def test_no_code_is_created_for_subresources() -> None:
    async def act(world: World) -> None:
        browser = await signed_in(world)
        url = f"https://{API}/v1/sign-in/enter?host={HOST}&browser={'0' * 32}"
        page = await browser.send(url, headers={"sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"})
        assert page.status == 403

    in_world(act)


ALIEN = f"https://4000-{THEIRS}.{WORKSPACES}"
SAME = {"origin": f"https://{HOST}", "sec-fetch-site": "same-origin"}


@pytest.mark.parametrize(
    ("method", "headers", "enters"),
    [
        ("GET", {"sec-fetch-site": "none", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}, True),
        ("GET", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}, True),
        ("GET", {"sec-fetch-site": "same-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}, False),
        ("GET", {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "script"}, False),
        ("GET", {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors", "origin": ALIEN}, False),
        ("GET", {"sec-fetch-site": "same-origin", "sec-fetch-mode": "cors"}, True),
        ("GET", {}, True),
        ("POST", SAME, True),
        ("POST", {"sec-fetch-site": "same-origin"}, False),
        ("POST", {"origin": ALIEN, "sec-fetch-site": "same-site"}, False),
        ("POST", {"origin": "null"}, False),
        ("POST", {"origin": f"http://{HOST}"}, False),
        ("POST", {"origin": f"https://{HOST}.evil.example"}, False),
        ("POST", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}, False),
        ("DELETE", {}, False),
        ("GET", {**SAME, "upgrade": "websocket"}, True),
        ("GET", {"origin": f"https://{HOST}", "upgrade": "websocket"}, True),
        ("GET", {"origin": ALIEN, "upgrade": "websocket"}, False),
        ("GET", {"upgrade": "websocket"}, False),
        ("CONNECT", {":protocol": "websocket", "origin": ALIEN}, False),
    ],
)
def test_a_cookie_serves_pages_of_its_host_alone(method: str, headers: dict[str, str], *, enters: bool) -> None:
    async def act(world: World) -> None:
        browser = await signed_in(world)
        assert opened(await browser.send(URL, method, headers)) == enters

    in_world(act)


def test_a_cookie_of_another_host_or_planted_beside_serves_nothing() -> None:
    async def act(world: World) -> None:
        browser = await signed_in(world)
        cookie = browser.jars[HOST]["__Host-workspace"]
        other = Browser(world, "mallory", {OTHER: {"__Host-workspace": cookie}})
        assert not opened(await other.send(f"https://{OTHER}/"))
        forged = Browser(world, "mallory", {HOST: {"__Host-workspace": cookie[:-2] + "AA"}})
        assert not opened(await forged.send(URL))
        session = Browser(world, "mallory", {HOST: {"__Host-workspace": browser.jars[API]["__Host-session"]}})
        assert not opened(await session.send(URL))
        twice = {"cookie": f"__Host-workspace={cookie}; __Host-workspace=planted"}
        assert not opened(await Browser(world).send(URL, headers=twice))
        bomb = {"cookie": f"__Host-workspace={'a' * 60_000}"}
        assert not opened(await Browser(world).send(URL, headers=bomb))

    in_world(act)


def test_a_sign_out_closes_every_host_and_what_is_open_there() -> None:
    async def act(world: World) -> None:
        browser = await signed_in(world)
        await browser.open(f"https://{OTHER}/")
        cookies = {host: dict(jar) for host, jar in browser.jars.items()}
        refused = await browser.send(f"https://{API}/v1/sign-out", "POST", {"origin": ALIEN})
        assert refused.status == 303
        assert opened(await Browser(world, "alice", cookies).send(URL)), "another site's form signs nobody out"
        cookies = {host: dict(jar) for host, jar in cookies.items()}
        again = Browser(world, "alice", {host: dict(jar) for host, jar in cookies.items()})
        await again.send(f"https://{API}/v1/sign-out", "POST", {"origin": f"https://{API}"})
        for host in (HOST, OTHER):
            assert not opened(await Browser(world, "alice", cookies).send(f"https://{host}/"))
        await world.gate.admissions.sweep()
        assert len(world.gate.pods.ended) == 2
        assert (
            (
                await Browser(world, "alice", cookies).send(
                    f"https://{API}/v1/sign-in/enter?host={HOST}&browser={'0' * 32}"
                )
            )
            .header("location")
            .startswith(world.issuer.url)
        )

    in_world(act)


def test_a_workspaces_host_signs_out_everywhere_too() -> None:
    async def act(world: World) -> None:
        browser = await signed_in(world)
        cookies = {host: dict(jar) for host, jar in browser.jars.items()}
        await browser.send(f"https://{HOST}{OWN_PATHS}sign-out", "POST", SAME)
        assert "__Host-workspace" not in browser.jars[HOST]
        assert not opened(await Browser(world, "alice", cookies).send(URL))

    in_world(act)


def test_a_session_ends_and_a_host_does_not_outlive_it() -> None:
    async def act(world: World) -> None:
        browser = await signed_in(world)
        world.gate.clock.seconds = PERSON_FOR.total_seconds() - 60
        await world.gate.cache.poll()
        await browser.open(f"https://{OTHER}/")
        assert opened(await browser.send(f"https://{OTHER}/"))
        world.gate.clock.seconds += 61
        await world.gate.cache.poll()
        assert not opened(await browser.send(URL))
        assert not opened(await browser.send(f"https://{OTHER}/"))
        await world.gate.admissions.sweep()
        assert len(world.gate.pods.ended) == 2

    in_world(act)


def test_program_never_receives_a_code_or_a_gateway_cookie() -> None:
    async def act(world: World) -> None:
        browser = await signed_in(world)
        page = await browser.send(URL)
        assert page.allow is not None
        assert "cookie" not in page.allow.headers
        assert page.allow.remove == ("cookie",)
        assert all("code=" not in url for url in browser.visited[-2:])
        for path in ("enter", "link", "other", "enter/../x"):
            assert not opened(await browser.send(f"https://{HOST}{OWN_PATHS}{path}")), path

    in_world(act)


def test_a_redirect_leaks_nothing_in_a_referrer_or_a_cache() -> None:
    async def act(world: World) -> None:
        browser = await signed_in(world)
        del browser.jars[HOST]
        first = await browser.send(URL)
        query = dict(parse_qsl(urlsplit(first.header("location")).query))
        assert browser.jars[HOST]["__Host-browser"] not in first.header("location")
        assert query["host"] == HOST
        for page in (first, await browser.send(first.header("location"))):
            assert page.header("referrer-policy") == "no-referrer"
            assert page.header("cache-control") == "no-store"

    in_world(act)
