"""A client of E2B that knows nothing of this project works through the gateway: create, run, files, pause, kill."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from e2b import (
    AsyncSandbox,
    CommandExitException,
    FileNotFoundException,
    FilesystemEventType,
    Sandbox,
    SandboxQuery,
    SandboxState,
)
from e2b.exceptions import AuthenticationException, SandboxNotRunningException
from e2b.sandbox.commands.command_handle import PtySize

from agentenv.dev.gateway import DOMAIN
from tests.live.service.e2b.conftest import SECONDS, Served


def _eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_commands_and_files_work(gateway: dict[str, Any]) -> None:
    with Sandbox.create(timeout=120, envs={"TOKEN": "of the sandbox"}, metadata={"run": "1"}, **gateway) as sandbox:
        result = sandbox.commands.run("echo $TOKEN; echo $X >&2; pwd", envs={"X": "y"}, cwd="/usr")
        assert (result.stdout, result.stderr, result.exit_code) == ("of the sandbox\n/usr\n", "y\n", 0)
        with pytest.raises(CommandExitException) as failed:
            sandbox.commands.run("exit 3")
        assert failed.value.exit_code == 3
        sandbox.files.write("a/b.txt", "text")
        assert sandbox.files.read("a/b.txt") == "text"
        assert [each.name for each in sandbox.files.list("a")] == ["b.txt"]
        with pytest.raises(FileNotFoundException):
            sandbox.files.read("nothing")
        handle = sandbox.commands.run("cat", background=True, stdin=True)
        handle.send_stdin("given")
        handle.close_stdin()
        assert handle.wait().stdout == "given"
        [metric] = sandbox.get_metrics()
        assert metric.mem_total > 0
        listed = Sandbox.list(SandboxQuery(metadata={"run": "1"}), **gateway).next_items()
        assert [each.sandbox_id for each in listed] == [sandbox.sandbox_id]
        assert sandbox.is_running()


def test_kill_of_a_sandbox_ends_the_wait_for_its_commands(gateway: dict[str, Any]) -> None:
    sandbox = Sandbox.create(timeout=120, **gateway)
    running = [sandbox.commands.run("sleep 600", background=True), sandbox.pty.create(PtySize(24, 80))]
    assert sandbox.kill()
    for each in running:
        with pytest.raises(SandboxNotRunningException, match="sandbox was killed or reached its end of life"):
            each.wait()


def test_terminal_and_file_watch_work(gateway: dict[str, Any]) -> None:
    with Sandbox.create(timeout=120, **gateway) as sandbox:
        terminal = sandbox.pty.create(PtySize(24, 80))
        sandbox.pty.send_stdin(terminal.pid, b"stty size; exit 5\n")
        shown: list[bytes] = []
        with pytest.raises(CommandExitException) as ended:
            terminal.wait(on_pty=shown.append)
        assert ended.value.exit_code == 5
        assert b"24 80" in b"".join(shown)
        sandbox.files.make_dir("watched")
        watch = sandbox.files.watch_dir("watched")
        sandbox.files.write("watched/new", "x")
        seen: list[tuple[str, FilesystemEventType]] = []
        _eventually(lambda: seen.extend((each.name, each.type) for each in watch.get_new_events()) or len(seen) >= 3)
        kinds = FilesystemEventType.CREATE, FilesystemEventType.CHMOD, FilesystemEventType.WRITE
        assert seen == [("new", kind) for kind in kinds]


def test_signed_links_upload_and_download(gateway: dict[str, Any]) -> None:
    with Sandbox.create(timeout=120, **gateway) as sandbox, httpx.Client(proxy=gateway["proxy"]) as http:
        sandbox.files.write("shared", "text")
        # The client has a fixed address for the data API, so the host of the link has to name the sandbox.
        link = sandbox.download_url("shared", use_signature_expiration=60).partition("?")[2]
        url = f"http://49983-{sandbox.sandbox_id}.{DOMAIN}/files"
        assert http.get(f"{url}?{link}").text == "text"
        assert http.get(f"{url}?{link.replace('shared', 'other')}").json() == {
            "code": 401,
            "message": "invalid signature",
        }
        expired = sandbox.download_url("shared", use_signature_expiration=-120).partition("?")[2]
        refused = http.get(f"{url}?{expired}")
        assert refused.status_code == 401
        assert refused.json() == {"code": 401, "message": "signature is already expired"}
        upload = sandbox.upload_url("sent", use_signature_expiration=60).partition("?")[2]
        assert http.post(f"{url}?{upload}", files={"file": b"content"}).is_success
        assert sandbox.files.read("sent") == "content"


def test_ports_are_private(gateway: dict[str, Any]) -> None:
    with Sandbox.create(timeout=120, **gateway) as sandbox, httpx.Client(proxy=gateway["proxy"]) as http:
        sandbox.commands.run("echo page > index.html; exec python3 -m http.server 8080", background=True)
        url = f"http://{sandbox.get_host(8080)}/index.html"
        headers = {"e2b-traffic-access-token": sandbox.traffic_access_token or ""}
        _eventually(lambda: http.get(url, headers=headers).status_code == 200)
        assert http.get(url, headers=headers).text == "page\n"
        assert not http.get(url).is_success
        assert not http.get(url, headers={"e2b-traffic-access-token": "0" * 64}).is_success


def test_paused_sandbox_keeps_its_files_and_variables(gateway: dict[str, Any]) -> None:
    sandbox = Sandbox.create(timeout=120, envs={"TOKEN": "of the sandbox"}, **gateway)
    sandbox.files.write("kept", "yes")
    assert sandbox.pause()
    # Traffic does not resume it: that was not requested.
    assert not sandbox.is_running()
    with pytest.raises(SandboxNotRunningException):
        sandbox.commands.run("true")
    assert sandbox.get_info().state == SandboxState.PAUSED
    same = Sandbox.connect(sandbox.sandbox_id, **gateway)
    assert same.files.read("kept") == "yes"
    assert same.commands.run("echo $TOKEN").stdout == "of the sandbox\n"
    assert same.kill()
    assert not same.is_running()


def test_traffic_resumes_a_sandbox_if_requested(gateway: dict[str, Any]) -> None:
    lifecycle: Any = {"on_timeout": "pause", "auto_resume": True}
    sandbox = Sandbox.create(timeout=120, lifecycle=lifecycle, **gateway)
    sandbox.files.write("kept", "yes")
    sandbox.pause()
    assert sandbox.files.read("kept") == "yes"
    assert sandbox.get_info().state == SandboxState.RUNNING
    sandbox.kill()


def test_timeout_ends_a_sandbox(gateway: dict[str, Any], environment: Served) -> None:
    sandbox = Sandbox.create(timeout=900, **gateway)
    assert sandbox.is_running()
    began = time.monotonic()
    sandbox.set_timeout(1)
    _eventually(lambda: not sandbox.is_running())
    assert time.monotonic() - began > 0.9
    backend = environment.local.backend
    _eventually(lambda: environment.run(backend.get(sandbox.sandbox_id)) is None)


def test_other_callers_are_refused(gateway: dict[str, Any]) -> None:
    with Sandbox.create(timeout=120, **gateway) as sandbox, httpx.Client(proxy=gateway["proxy"]) as http:
        path, headers = f"http://sandbox.{DOMAIN}/files?path=x", {"E2b-Sandbox-Id": sandbox.sandbox_id}
        assert not http.get(path, headers=headers).is_success
        assert not http.get(path, headers={**headers, "X-Access-Token": "0" * 64}).is_success
        with pytest.raises(AuthenticationException):
            Sandbox.connect(sandbox.sandbox_id, api_key="e2b_" + "0" * 52, **gateway)


def test_asynchronous_client_works(gateway: dict[str, Any]) -> None:
    async def scenario() -> None:
        sandbox = await AsyncSandbox.create(timeout=120, **gateway)
        try:
            results = await asyncio.gather(*(sandbox.commands.run(f"echo {n}") for n in range(10)))
            assert [each.stdout for each in results] == [f"{n}\n" for n in range(10)]
        finally:
            assert await sandbox.kill()

    asyncio.run(scenario())
