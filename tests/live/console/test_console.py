"""The console in a real browser: what people do with it, and what hostile names and answers do not."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from agentenv.client.sandbox import Command
from tests.live.console.conftest import Console

# A full-screen program: it has the alternate screen, and draws its size again when that changes.
FULL_SCREEN = (
    "draw() { printf '\\033[2J\\033[3;5HFULL %s\\033[1;1H' \"$(stty size)\"; }; trap draw WINCH;"
    " printf '\\033[?1049h'; draw; while ! read -rsn1 -t 0.2 key; do :; done; printf '\\033[?1049l'; trap - WINCH;"
    " echo left-$((40 + 2))\n"
)
HOSTILE = (
    "<img src=x onerror=document.title='hacked'>",
    "annual\u202etxt.exe",
    "line\nbreak",
    "${alert(1)}",
    " leading",
    "&lt;b&gt;",
)


def rows(console: Console) -> str:
    """Return what the terminal shows."""
    return console.browser.text(".xterm-rows")


def type_in(console: Console, text: str) -> None:
    console.browser.driver.find_element(By.CSS_SELECTOR, ".xterm-helper-textarea").send_keys(text)


def terminal(console: Console, id_: str) -> None:
    """Open a terminal, and wait for its shell."""
    console.open(f"w/{id_}/terminal")
    console.browser.until(lambda: console.browser.text(".terminal-foot").startswith("connected"))


def test_a_person_signs_in_with_a_key_and_another_text_is_refused(console: Console) -> None:
    console.browser.driver.get(console.address)
    console.sign_in("e2b_" + "0" * 52)
    console.browser.shows("the API key is unknown", ".error")
    console.sign_in()
    console.browser.shows("Workspaces", "h1")
    assert console.browser.log() == []
    cookie = console.browser.driver.get_cookie("__Host-session")
    assert cookie is not None
    assert (cookie["httpOnly"], cookie["secure"], cookie["sameSite"]) == (True, True, "Lax")
    assert console.browser.script("return document.cookie") == ""
    assert console.browser.script("return localStorage.length + sessionStorage.length") == 0


def test_a_workspace_is_created_suspended_and_deleted_with_retained_files(console: Console) -> None:
    console.open()
    console.browser.click("button", "New workspace")
    console.browser.find("dialog input").send_keys("made-here")
    console.browser.click("dialog button", "Create")
    console.browser.shows("running", ".state")
    console.browser.shows("made-here", "h1")
    [workspace] = [row for row in console.client.list_workspaces()["items"] if row["labels"].get("name") == "made-here"]
    console.browser.click("button", "Suspend")
    console.browser.shows("asleep", ".state")
    console.browser.click("button", "Delete")
    console.browser.shows("Its files are kept for 30 days", "dialog")
    console.browser.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    console.browser.until(lambda: not console.browser.driver.find_elements(By.CSS_SELECTOR, "dialog"))
    console.browser.click("button", "Delete")
    console.browser.click("dialog button", "Delete")
    console.browser.until(lambda: console.client.get_workspace(workspace["id"])["state"] == "deleted")
    console.browser.shows("Workspaces", "h1")


def test_a_terminal_follows_its_size_also_in_a_full_screen_program(console: Console) -> None:
    terminal(console, console.created("terminal"))
    console.browser.size(1280, 860)
    type_in(console, FULL_SCREEN)
    console.browser.until(lambda: "FULL" in rows(console))
    before = rows(console)
    console.browser.size(900, 700)

    def redrawn() -> bool:
        return "FULL" in rows(console) and rows(console) != before

    console.browser.until(redrawn)
    assert "draw()" not in rows(console), "the alternate screen hides the shell"
    type_in(console, "q")
    console.browser.until(lambda: "left-42" in rows(console))
    type_in(console, "stty size\n")
    size = console.browser.script("const row = document.querySelector('.xterm-rows'); return row.children.length")
    console.browser.until(lambda: f"\n{size} " in rows(console))
    # Colours beyond the palette, which need styles of their own.
    type_in(console, "printf '\\033[38;2;10;200;100mgreen-%s\\033[0m\\n' $((40 + 2))\n")
    console.browser.until(lambda: "green-42" in rows(console))
    assert console.browser.script(
        "return [...document.querySelectorAll('.xterm-rows span')].some((each) => each.style.color.includes('200'))"
    )
    assert console.browser.log() == [], "the policy of the page refuses nothing that the terminal does"


def test_a_shell_outlives_the_page_and_the_keyboard_leaves_it(console: Console) -> None:
    terminal(console, console.created("terminal"))
    pid = console.browser.script("return document.getElementById('terminal').dataset.pid")
    type_in(console, "marker=here-$((40 + 2)); echo stored-$((40 + 2))\n")
    console.browser.until(lambda: "stored-42" in rows(console))
    console.browser.driver.refresh()
    console.browser.until(lambda: console.browser.text(".terminal-foot").startswith("connected"))
    assert console.browser.script("return document.getElementById('terminal').dataset.pid") == pid
    type_in(console, "echo $marker\n")
    console.browser.until(lambda: "\nhere-42" in rows(console))
    type_in(console, Keys.CONTROL + Keys.F6)
    assert console.browser.driver.switch_to.active_element.get_attribute("id") == "tab-terminal"
    console.browser.driver.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    assert console.browser.driver.switch_to.active_element.get_attribute("id") == "tab-files"


def test_hostile_names_of_files_are_text_and_their_files_are_never_shown(console: Console) -> None:
    id_ = console.created("files")
    sandbox = console.client.sandbox(id_)
    for name in HOSTILE:
        sandbox.write(f"/home/agent/hostile/{name}", b"content")
    page = b"<script>document.title='hacked'</script>"
    sandbox.write("/home/agent/hostile/evil.html", page)
    console.open(f"w/{id_}/files")
    console.browser.click("button.name", "hostile")
    console.browser.shows("evil.html", "tbody")
    shown = console.browser.text("tbody")
    assert "<img src=x onerror=document.title='hacked'>" in shown
    assert "annual\\u{202e}txt.exe" in shown
    assert "line\\u{a}break" in shown
    assert "\\u{20}leading" in shown
    assert "&lt;b&gt;" in shown
    assert console.browser.script("return document.querySelectorAll('tbody img, tbody script, tbody b').length") == 0
    console.browser.click('button[aria-label="Download evil.html"]')
    stored = console.browser.downloads / "evil.html"
    console.browser.until(lambda: stored.exists() and stored.read_bytes() == page)
    assert console.browser.driver.current_url.startswith(f"{console.address}#/w/{id_}")
    assert "hacked" not in console.browser.driver.title
    # Nor is it a script or a page of this host, however it is asked for.
    path = f"/sandbox/{id_}/files?path=/home/agent/hostile/evil.html"
    headers = console.browser.script(
        "const response = await fetch(arguments[0]); return [response.status, ...['content-disposition',"
        " 'content-security-policy', 'set-cookie'].map((name) => response.headers.get(name))]",
        path,
    )
    assert headers == [200, "attachment", "sandbox; default-src 'none'", None]
    with console.browser.tab(console.address.rstrip("/") + path):
        assert "hacked" not in console.browser.driver.title


def test_files_are_uploaded_and_deleted(console: Console, tmp_path: Path) -> None:
    id_ = console.created("uploads")
    content = bytes(range(256)) * 5_000
    (tmp_path / "up load.bin").write_bytes(content)
    console.open(f"w/{id_}/files")
    console.browser.find("button", "Upload")
    console.browser.driver.find_element(By.CSS_SELECTOR, 'input[type="file"]').send_keys(str(tmp_path / "up load.bin"))
    console.browser.shows("up load.bin", "tbody")
    assert console.client.sandbox(id_).read("/home/agent/up load.bin") == content
    console.browser.click('button[aria-label="Delete up load.bin"]')
    console.browser.click("dialog button", "Delete")
    console.browser.until(lambda: "up load.bin" not in console.browser.text("tbody"))


def test_a_port_is_shared_by_a_link_that_wakes_and_is_revoked(console: Console) -> None:
    id_ = console.created("shared")
    sandbox = console.client.sandbox(id_)
    sandbox.write("/home/agent/.profile", b"cd ~; (python3 -m http.server 8080 >/dev/null 2>&1 &)\n")
    sandbox.write("/home/agent/index.html", b"<title>shared page</title>")
    console.open(f"w/{id_}/ports")
    console.browser.find("form select").send_keys("Link")
    console.browser.click("label", "They also wake it")
    console.browser.click("form button", "Apply")
    console.browser.click("tbody button", "New link")
    link = console.browser.until(
        lambda: console.browser.find('input[aria-label="The new link"]').get_attribute("value")
    )
    assert link is not None
    assert f"8080-{id_}.os.localhost" in link
    console.browser.click("button", "Suspend")
    console.browser.shows("asleep", ".state")
    host = f"8080-{id_}.os.localhost"
    with console.browser.tab(link):
        # The page waits until it is awake; nothing listens in it yet.
        console.browser.until(lambda: console.client.get_workspace(id_)["state"] == "running")
        assert "token=" not in console.browser.driver.current_url
        list(console.client.sandbox(id_).start(Command.shell("true")))

        def served() -> bool:
            console.browser.driver.get(f"http://{host}:{console.address.rsplit(':', 1)[1]}")
            return console.browser.driver.title == "shared page"

        console.browser.until(served)
        console.browser.other_tab(0)
        console.browser.shows("running", ".state")
        console.browser.click("tbody button", "Revoke")
        console.browser.until(lambda: not console.client.list_links(id_)["items"])
        console.browser.click("tbody button", "Make private")
        console.browser.shows("No port is shared")
        console.browser.other_tab(1)
        console.browser.until(lambda: not served())
    assert console.client.list_ports(id_)["items"] == []


def test_two_tabs_show_the_same_and_one_sign_out_ends_both(console: Console) -> None:
    id_ = console.created("two-tabs")
    console.open(f"w/{id_}/terminal")
    console.browser.until(lambda: console.browser.text(".terminal-foot").startswith("connected"))
    first = console.browser.script("return document.getElementById('terminal').dataset.pid")
    with console.browser.tab(f"{console.address}#/w/{id_}/terminal"):
        console.browser.until(lambda: console.browser.text(".terminal-foot").startswith("connected"))
        assert console.browser.script("return document.getElementById('terminal').dataset.pid") != first
        console.browser.click("button", "Suspend")
        console.browser.shows("asleep", ".state")
        console.browser.other_tab(0)
        console.browser.shows("asleep", ".state")
        console.browser.click("button", "Wake")
        console.browser.shows("running", ".state")
        console.browser.other_tab(1)
        console.browser.shows("running", ".state")
        console.browser.click("button", "Sign out")
        console.browser.shows("Sign in", "h1")
        console.browser.other_tab(0)
        console.browser.shows("Sign in", "h1")
        console.browser.other_tab(1)


def test_an_expired_session_returns_to_the_page_after_the_sign_in(console: Console) -> None:
    id_ = console.created("two-tabs")
    console.open(f"w/{id_}/details")
    console.browser.shows("Owner")
    cookie = console.browser.driver.get_cookie("__Host-session")
    assert cookie is not None
    own = console.address.rstrip("/")
    with httpx2.Client(base_url=console.served.facts["service"], trust_env=False) as http:
        host = own.removeprefix("http://")
        headers = {"Host": host, "Origin": own, "Cookie": f"__Host-session={cookie['value']}"}
        assert http.post("/v1/sign-out", headers=headers).status_code == 303
    console.browser.click("button", "Suspend")
    console.browser.shows("Your session has ended")
    console.sign_in()
    console.browser.shows("Owner")
    assert console.browser.driver.current_url.endswith(f"#/w/{id_}/details")


def test_a_key_is_created_shown_once_and_revoked(console: Console) -> None:
    console.open("keys")
    console.browser.click("button", "New key")
    console.browser.find("dialog input").send_keys("<b>ci</b>")
    console.browser.click("dialog button", "Create")
    key = console.browser.find('input[aria-label="The new key"]').get_attribute("value")
    assert key is not None
    assert key.startswith("e2b_")
    console.browser.shows("<b>ci</b>", "tbody")
    console.browser.click("tbody button", "Revoke")
    console.browser.click("dialog button", "Revoke")
    console.browser.shows("You have no API key")


def test_a_person_approves_what_a_tool_waits_for(console: Console) -> None:
    id_ = console.created("careful", "careful")
    key = console.client.create_key({"name": "agent", "scopes": ["read", "use", "wake"]})["key"]
    results: list[Any] = []

    async def call() -> None:
        headers = {"Authorization": f"Bearer {key}"}
        url = f"{console.served.facts['service']}/mcp"
        async with (
            httpx2.AsyncClient(headers=headers, timeout=180, trust_env=False) as http,
            Client(streamable_http_client(url, http_client=http)) as agent,
        ):
            results.append(
                await agent.call_tool("run", {"workspace": id_, "command": "echo '<i>done</i>'-$((40 + 2))"})
            )

    console.open("approvals")
    console.browser.shows("Nothing waits for an approval")
    caller = threading.Thread(target=lambda: asyncio.run(call()), daemon=True)
    caller.start()
    console.browser.shows("command: echo '<i>done</i>'-$((40 + 2))")
    assert results == []
    console.browser.click("article button", "Approve once")
    caller.join(90)
    [result] = results
    assert "<i>done</i>-42" in str(result)
    console.browser.shows("approved")
    reasons = [event["reason"] for event in console.client.list_events(id_)["items"]]
    assert {"ApprovalRequested", "Approved"} <= set(reasons)


def test_operators_see_the_environment(console: Console) -> None:
    console.open("operations")
    console.browser.shows("There is no warm pool")
    console.browser.shows("standard", "tbody")


@pytest.mark.parametrize("page", ["", "keys", "approvals", "operations"])
def test_pages_have_names_for_all_that_is_used_and_one_heading(console: Console, page: str) -> None:
    console.open(page)
    console.browser.find("h1")
    assert console.browser.script("return document.querySelectorAll('h1').length") == 1
    assert console.browser.script("return document.documentElement.lang") == "en"
    nameless = console.browser.script(
        "return [...document.querySelectorAll('button, a[href], input, select, [role=region], table')].filter((each) =>"
        " each.offsetParent && !(each.innerText || each.getAttribute('aria-label') || each.labels?.length ||"
        " each.querySelector('caption, img[alt]'))).map((each) => each.outerHTML)"
    )
    assert nameless == []


@pytest.mark.parametrize("on", [True, False])
def test_texts_have_contrast_in_dark_and_in_light(console: Console, *, on: bool) -> None:
    console.browser.dark(on=on)
    console.open()
    ratio = console.browser.script(
        """
        const canvas = new OffscreenCanvas(1, 1).getContext("2d");
        const light = (color) => {
          canvas.fillStyle = color;
          canvas.fillRect(0, 0, 1, 1);
          const part = (v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
          const [red, green, blue] = [...canvas.getImageData(0, 0, 1, 1).data].map(part);
          return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
        };
        const style = getComputedStyle(document.documentElement);
        const value = (name) => light(style.getPropertyValue(name).trim());
        const ratio = (one, other) => (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
        const pairs = [["--text", "--page"], ["--muted", "--page"], ["--muted", "--surface"],
          ["--accent", "--surface"], ["--accent-text", "--accent"], ["--danger", "--surface"], ["--ok", "--raised"],
          ["--accent", "--accent-soft"]];
        return Math.min(...pairs.map(([one, other]) => ratio(value(one), value(other))));
        """
    )
    assert ratio >= 4.5
    console.browser.dark(on=False)
