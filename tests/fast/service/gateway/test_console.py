"""The console's way into workspaces: the cookie of its own host, from its own pages, and no other credential."""

from __future__ import annotations

from typing import Any

import pytest

from agentenv.core.gateway.hosts import console_target, console_workspace
from agentenv.service.gateway.visitors import PERSON_FOR
from agentenv.service.http.auth.callers import owner_id
from tests.fast.service.gateway.browser import API, CONSOLE, Browser, Page, World, in_world
from tests.fast.service.gateway.entrance import MINE, NOBODYS, THEIRS

FETCH = {"sec-fetch-mode": "cors", "sec-fetch-dest": "empty", "sec-fetch-site": "same-origin"}
START = {**FETCH, "origin": f"https://{CONSOLE}"}


def way(id_: str = MINE, path: str = "/process.Process/Start") -> str:
    return f"https://{CONSOLE}/sandbox/{id_}{path}"


async def signed_in(world: World, user: str = "alice") -> Browser:
    world.gate.directory.put(MINE, owner_id(world.issuer.url, "alice"))
    browser = Browser(world, user)
    await browser.open(f"https://{CONSOLE}/v1/sign-in?then=/after")
    return browser


async def sent(browser: Browser, id_: str = MINE, method: str = "POST", **headers: Any) -> Page:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await browser.send(way(id_), method, {key: value for key, value in {**START, **named}.items() if value})


def test_a_page_of_the_console_reaches_workspaced_with_the_cookie_of_its_host() -> None:
    async def act(world: World) -> None:
        browser = await signed_in(world)
        assert set(browser.jars[CONSOLE]) == {"__Host-session"}
        assert API not in browser.jars, "the sign-in stays at one host"
        page = await sent(browser, authorization="Bearer other")
        assert page.allow is not None
        assert page.allow.headers["x-gateway-destination"] == "10.0.0.7:49983"
        assert "/api/" in page.allow.headers["x-workspace-token"]
        assert {"cookie", "authorization", "x-api-key", "x-access-token"} <= set(page.allow.remove)
        download = await browser.send(way(path="/files?path=a"), "GET", FETCH)
        assert download.allow is not None

    in_world(act)


@pytest.mark.parametrize(
    "headers",
    [
        {"sec_fetch_site": "cross-site", "origin": "https://evil.example.org"},
        {"sec_fetch_site": "same-site", "origin": f"https://3000-{MINE}.workspaces.example.net"},
        {"sec_fetch_site": "none"},
        {"sec_fetch_site": None},
        {"origin": None},
        {"origin": f"http://{CONSOLE}"},
        {"origin": "null"},
    ],
)
def test_no_other_page_sends_requests_with_the_cookie(headers: dict[str, Any]) -> None:
    async def act(world: World) -> None:
        browser = await signed_in(world)
        page = await sent(browser, **headers)
        assert (page.allow, page.status) == (None, 401)
        # Nor does a link that a person follows, which would wake it or store a file.
        link = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document", "sec-fetch-site": "cross-site"}
        assert (await browser.send(way(path="/files?path=a"), "GET", link)).allow is None

    in_world(act)


def test_other_credentials_and_other_cookies_do_not_count_there() -> None:
    async def act(world: World) -> None:
        browser = await signed_in(world)
        nobody = Browser(world)
        token = world.gate.access_token(MINE)
        for header in ({"authorization": "Bearer x"}, {"x-access-token": token}, {"x-api-key": "e2b_" + "0" * 52}):
            assert (await nobody.send(way(), "POST", {**START, **header})).status == 401
        # The cookie of the API's host is one of the same kind: a browser has each for its host alone.
        await browser.open(f"https://{API}/v1/sign-in?then=/after")
        assert browser.jars[API] != browser.jars[CONSOLE]

    in_world(act)


def test_what_is_not_the_persons_is_not_found() -> None:
    async def act(world: World) -> None:
        browser = await signed_in(world)
        answers = [await sent(browser, id_) for id_ in (THEIRS, NOBODYS)]
        assert [(page.status, page.body) for page in answers] == [(404, answers[0].body)] * 2
        for path in ("/sandbox/", f"/sandbox/{MINE}", "/sandbox/../x/y", "/sandbox/W-A/x"):
            assert (await browser.send(f"https://{CONSOLE}{path}", "POST", START)).status == 404

    in_world(act)


def test_a_session_that_has_ended_or_expired_opens_nothing() -> None:
    async def act(world: World) -> None:
        browser, other = await signed_in(world), await signed_in(world)
        admitted = (await sent(browser)).allow
        assert admitted is not None
        cookies = dict(browser.jars[CONSOLE])
        await browser.send(f"https://{CONSOLE}/v1/sign-out", "POST", START)
        browser.jars[CONSOLE] = cookies
        assert (await sent(browser)).status == 401
        assert (await sent(other)).allow is not None
        world.gate.clock.seconds = PERSON_FOR.total_seconds() + 1
        assert (await sent(other)).status == 401

    in_world(act)


def test_a_path_of_the_console_is_a_workspace_and_a_path_of_workspaced() -> None:
    assert console_workspace(f"/sandbox/{MINE}/files") == MINE
    assert console_workspace(f"/sandbox/{MINE}") is None
    assert console_workspace(f"/sandboxes/{MINE}/files") is None
    assert console_workspace(f"/x/sandbox/{MINE}/files") is None
    assert console_target(f"/sandbox/{MINE}/files?path=/sandbox/") == "/files?path=/sandbox/"
