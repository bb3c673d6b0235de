"""The console's pages: their policy, their caching, their host, and the sign-in by an API key."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agentenv.service.console import packages
from agentenv.service.console.assets import STATIC, assets_of
from tests.fast.dev.served import Served, serving

CONSOLE = "console.os.localhost"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("console") / "state") as started:
        yield started


@pytest.fixture
def http(served: Served) -> Iterator[httpx2.Client]:
    headers = {"Host": CONSOLE, "Origin": f"http://{CONSOLE}", "Sec-Fetch-Site": "same-origin"}
    with httpx2.Client(base_url=served.address, headers=headers, trust_env=False) as client:
        yield client


class _Page(HTMLParser):
    """Collects what a page loads, and what it has inline."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.inline: list[str] = []
        self._in = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        own = dict(attrs)
        self._in = tag
        self.inline += [f"{tag} {name}" for name in own if name.startswith("on") or name == "style"]
        if tag == "script" and "src" not in own:
            self.inline.append("script")
        if tag == "style":
            self.inline.append("style")
        self.loads += [str(own[name]) for name in ("src", "href") if own.get(name) and tag in {"script", "link", "img"}]


def test_the_page_has_nothing_inline_and_loads_only_from_its_host(http: httpx2.Client) -> None:
    response = http.get("/")
    page = _Page()
    page.feed(response.text)
    assert page.inline == []
    assert page.loads
    for path in page.loads:
        loaded = http.get(path)
        assert (loaded.status_code, loaded.headers["cache-control"]) == (
            200,
            "public, max-age=31536000, immutable",
        ), path
    assert response.headers["cache-control"] == "no-cache"
    policy = response.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "*" not in policy
    assert policy.startswith("default-src 'none'; ")
    # Not all of the host: a file of a workspace is on it, and must not be a script of the page.
    scripts = re.search(r"script-src ([^;]+)", policy)
    assert scripts is not None
    assert re.fullmatch(rf"http://{CONSOLE}/assets/[0-9a-f]{{16}}/", scripts[1])
    for part in (
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "require-trusted-types-for 'script'",
        "connect-src 'self'",
    ):
        assert part in policy


def test_scripts_build_no_markup_and_load_only_what_is_beside_them() -> None:
    for path in STATIC.glob("*.js"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text), (
            path
        )
        imported = re.findall(r"""(?:from |import\(|import )["']([^"']+)["']""", text)
        assert all(re.fullmatch(r"\./[a-z-]+\.js", name) for name in imported), path
        own = {name.removeprefix("./") for name in imported}
        assert own <= {each.name for each in STATIC.iterdir()} | {"xterm.js", "addon-fit.js"}, path


def test_files_are_compressed_for_those_who_take_it(http: httpx2.Client) -> None:
    prefix = assets_of(packages.folder()).prefix
    with httpx2.Client(base_url=str(http.base_url), trust_env=False) as plain:
        raw = plain.get(f"{prefix}console.css", headers={"Host": CONSOLE, "Accept-Encoding": "identity"})
    compressed = http.get(f"{prefix}console.css")
    assert "content-encoding" not in raw.headers
    assert compressed.headers["content-encoding"] == "gzip"
    assert raw.content == compressed.content == (STATIC / "console.css").read_bytes()
    assert raw.headers["vary"] == "Accept-Encoding"


@pytest.mark.parametrize(
    "path", ["/assets/0000000000000000/app.js", "/assets/x/../app.js", "{}index.html", "{}..%2fassets.py"]
)
def test_other_files_are_not_found(http: httpx2.Client, path: str) -> None:
    assert http.get(path.format(assets_of(packages.folder()).prefix)).status_code == 404


def test_the_pages_are_at_the_console_alone(http: httpx2.Client) -> None:
    prefix = assets_of(packages.folder()).prefix
    for host in ("api.os.localhost", "localhost", "console.example.com", "x"):
        for path in ("/", f"{prefix}app.js"):
            assert http.get(path, headers={"Host": host}).status_code == 404, host


def signed_in(http: httpx2.Client, key: str) -> Any:
    http.cookies.clear()
    response = http.post("/v1/sign-in/key", headers={"X-API-Key": key})
    cookie = response.headers.get("set-cookie", "").partition(";")[0]
    http.headers["Cookie"] = cookie
    return response


def test_a_key_signs_in_a_page_and_its_session_ends_with_it(served: Served, http: httpx2.Client) -> None:
    assert http.get("/v1/me").status_code == 401
    response = signed_in(http, served.key)
    assert response.status_code == 204
    for part in ("__Host-session=", "Secure", "HttpOnly", "SameSite=Lax", "Path=/"):
        assert part in response.headers["set-cookie"]
    me = http.get("/v1/me").json()
    assert "admin" in me["roles"]
    assert http.get("/v1/classes").json()["items"][0]["kept_for"]["user"] > 0
    created = http.post("/v1/keys", json={"name": "console", "scopes": ["read"]}).json()
    own = http.headers["Cookie"]
    assert signed_in(http, created["key"]).status_code == 204
    assert http.get("/v1/me").json()["owner"] == me["owner"]
    assert http.post("/v1/workspaces", json={"class": "standard"}).status_code == 403
    assert http.post("/v1/keys", json={"name": "more", "scopes": ["read"]}).status_code == 403
    limited, http.headers["Cookie"] = http.headers["Cookie"], own
    assert http.delete(f"/v1/keys/{created['id']}").status_code == 200
    http.headers["Cookie"] = limited
    assert http.get("/v1/me").status_code == 401


def test_a_sign_out_ends_the_session(served: Served, http: httpx2.Client) -> None:
    signed_in(http, served.key)
    assert http.post("/v1/sign-out").status_code == 303
    assert http.get("/v1/me").status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example.org"},
        {"Origin": "http://3000-w-a.os.localhost"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": f"https://{CONSOLE}"},
    ],
)
def test_another_page_neither_signs_in_nor_uses_a_session(
    served: Served, http: httpx2.Client, headers: dict[str, str]
) -> None:
    assert http.post("/v1/sign-in/key", headers={"X-API-Key": served.key, **headers}).status_code == 401
    signed_in(http, served.key)
    assert http.post("/v1/workspaces", json={"class": "standard"}, headers=headers).status_code == 401


def test_operators_see_pools_releases_and_failures(served: Served, http: httpx2.Client) -> None:
    signed_in(http, served.key)
    found = http.get("/v1/operations").json()
    assert (found["pools"], found["failures"]) == ([], [])
    assert [row["class"] for row in found["releases"]] == ["standard", "base"]
    reader = http.post("/v1/keys", json={"name": "reader", "scopes": ["read"]}).json()["key"]
    assert signed_in(http, reader).status_code == 204
    assert http.get("/v1/operations").status_code == 403


def test_packages_are_taken_only_with_their_pinned_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Answer:
        def __enter__(self) -> Answer:
            return self

        def __exit__(self, *_: object) -> None: ...

        def read(self, _: int) -> bytes:
            return b"another archive"

    monkeypatch.setattr("urllib.request.urlopen", lambda *_args, **_options: Answer())
    with pytest.raises(packages.PackageError, match="and not the pinned"):
        packages.fetch(tmp_path / "vendor")
    assert list(tmp_path.iterdir()) == []
