"""The `e2b` client, unchanged, works with `agentenv dev` as it does with E2B: its home, its links and its hosts."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest
from e2b import Sandbox

from agentenv.dev.gateway import addresses
from agentenv.rehearsal.controlplane.client import until
from tests.live.dev.test_command import SECONDS, Serving, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("dev") / "state") as served:
        yield served


@pytest.fixture
def sandbox(served: Serving, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sandbox]:
    port = urlsplit(served.facts["service"]).port
    assert port is not None
    monkeypatch.setenv("E2B_API_URL", f"{served.facts['service']}/e2b")
    monkeypatch.setenv("E2B_SANDBOX_URL", addresses(port).sandboxes)
    monkeypatch.setenv("E2B_API_KEY", served.key)
    with Sandbox.create(timeout=900) as sandbox:
        yield sandbox


def test_home_is_the_one_that_programs_for_e2b_expect(sandbox: Sandbox) -> None:
    assert sandbox.get_info().template_id == "base"
    assert sandbox.files.write("/home/user/a.txt", "text").path == "/home/user/a.txt"
    assert sandbox.commands.run("whoami; id -Gn; cat ~/a.txt", user="user").stdout == "user\nuser\ntext"
    [entry] = [entry for entry in sandbox.files.list(".") if entry.name == "a.txt"]
    assert (entry.owner, entry.group, entry.permissions) == ("user", "user", "-rw-r--r--")


def test_files_are_moved_between_tmp_and_the_home(sandbox: Sandbox) -> None:
    folder = sandbox.commands.run("mktemp -d").stdout.strip()
    sandbox.files.write(f"{folder}/file", "text")
    assert sandbox.files.rename(folder, "moved").path == "/home/user/moved"
    assert sandbox.commands.run("python -c 'print(open(\"moved/file\").read())'").stdout == "text\n"
    assert not sandbox.files.exists(folder)


def test_files_of_the_kernel_are_read(sandbox: Sandbox) -> None:
    assert sandbox.files.read("/proc/cpuinfo").startswith("processor")
    assert len(sandbox.files.read("/proc/sys/kernel/random/boot_id").strip()) == 36


def test_one_key_serves_suites_of_tests_that_run_at_once(sandbox: Sandbox, served: Serving) -> None:
    default_of_an_environment = 300  # requests a minute
    with httpx.Client(base_url=f"{served.facts['service']}/e2b", headers={"X-API-Key": served.key}) as api:
        codes = [api.get(f"/sandboxes/{sandbox.sandbox_id}").status_code for _ in range(default_of_an_environment + 50)]
    assert set(codes) == {200}


def test_signed_links_work_as_the_client_makes_them(sandbox: Sandbox) -> None:
    sandbox.files.write("shared", "text")
    page = {"Origin": "https://app.example.com"}
    opened = httpx.get(sandbox.download_url("shared", use_signature_expiration=60), headers=page)
    assert (opened.text, opened.headers["access-control-allow-origin"]) == ("text", "*")
    refused = httpx.get(sandbox.download_url("shared", use_signature_expiration=-120))
    assert (refused.status_code, refused.json()["message"]) == (401, "signature is already expired")
    sent = httpx.post(sandbox.upload_url("sent"), files={"file": b"content"}, headers=page)
    assert (sent.status_code, sent.headers["access-control-allow-origin"]) == (200, "*")
    assert sandbox.files.read("sent") == "content"
    link = sandbox.download_url("shared")
    sandbox.kill()
    assert httpx.get(link).status_code == 401


def test_host_of_a_port_has_the_port_of_the_gateway(sandbox: Sandbox, served: Serving) -> None:
    sandbox.commands.run("echo page > index.html; exec python3 -m http.server 8000", background=True)
    host = sandbox.get_host(8000)
    assert urlsplit(f"http://{host}").port == urlsplit(served.facts["service"]).port
    headers = {"Host": host, "e2b-traffic-access-token": sandbox.traffic_access_token or ""}
    # Not every machine resolves names below `localhost`.
    url = f"{served.facts['service']}/index.html"
    assert until(lambda: httpx.get(url, headers=headers).text == "page\n", SECONDS)
