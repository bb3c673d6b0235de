"""The `e2b` client, unchanged, runs commands, files, terminals and watches in a sandbox."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from e2b import CommandExitException, FileNotFoundException, InvalidArgumentException, TimeoutException
from e2b import Sandbox as Client
from e2b.exceptions import AuthenticationException
from e2b.sandbox.commands.command_handle import PtySize

from tests.live.workspaced.conftest import TIMEOUT, Sandbox


@pytest.fixture
def client(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setenv("E2B_DEBUG", "true")  # no API: the client goes to the sandbox alone
    monkeypatch.setenv("E2B_SANDBOX_URL", sandbox.url)
    return Client.create()


def _eventually(what: str, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def _runs(pid: int) -> bool:
    """Return whether a process runs; one that has ended and waits to be reaped by the machine does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


def test_command_has_output_and_exit_code(client: Client, sandbox: Sandbox) -> None:
    assert client.is_running()
    result = client.commands.run("echo $HOME; echo $X >&2; pwd", envs={"X": "y"}, cwd="/usr")
    assert (result.stdout, result.stderr, result.exit_code) == (f"{sandbox.home}\n/usr\n", "y\n", 0)
    with pytest.raises(CommandExitException) as failed:
        client.commands.run("echo out; exit 3")
    assert (failed.value.exit_code, failed.value.stdout, failed.value.error) == (3, "out\n", "exit status 3")


def test_programs_of_the_home_are_in_the_path_of_login_shells(client: Client) -> None:
    client.files.write(".local/bin/mine", "#!/bin/sh\necho mine\n")
    assert client.commands.run("chmod +x .local/bin/mine && mine").stdout == "mine\n"


def test_background_command_outlives_its_caller(client: Client) -> None:
    handle = client.commands.run("echo first; while [ ! -e go ]; do sleep 0.05; done; echo second", background=True)
    assert [process.pid for process in client.commands.list()] == [handle.pid]
    handle.disconnect()
    client.files.write("go", "")
    assert client.commands.connect(handle.pid).wait().stdout == "first\nsecond\n"


def test_command_is_killed_with_its_children(client: Client, sandbox: Sandbox) -> None:
    handle = client.commands.run("sleep 600 & sleep 600", background=True)
    assert handle.kill()
    with pytest.raises(CommandExitException) as killed:
        handle.wait()
    assert killed.value.exit_code == -1
    assert not client.commands.kill(handle.pid)
    _eventually("a process is left", lambda: sandbox.status()["processes"]["total"] == 0)


def test_input_is_sent_and_closed(client: Client) -> None:
    handle = client.commands.run("cat", background=True, stdin=True)
    handle.send_stdin("one ")
    client.commands.stream_input(handle.pid, ["two ", b"three"])
    handle.close_stdin()
    assert handle.wait().stdout == "one two three"


def test_timeout_ends_a_command(client: Client) -> None:
    with pytest.raises(TimeoutException):
        client.commands.run("sleep 600", timeout=0.5)
    _eventually("the command runs on", lambda: not client.commands.list())


def test_large_output_arrives_whole(client: Client) -> None:
    assert len(client.commands.run("head -c 20000000 /dev/zero | tr '\\0' x").stdout) == 20_000_000


def test_errors_have_the_types_of_the_client(client: Client) -> None:
    with pytest.raises(InvalidArgumentException, match="working directory"):
        client.commands.run("true", cwd="/no/such")
    with pytest.raises(AuthenticationException, match="unknown user"):
        client.commands.run("true", user="nobody-here")
    with pytest.raises(FileNotFoundException):
        client.files.read("nope")
    with pytest.raises(InvalidArgumentException, match="is a directory"):
        client.files.read("/usr")
    with pytest.raises(FileNotFoundException):
        client.files.list("nope")


def test_files_are_written_and_read(client: Client, sandbox: Sandbox) -> None:
    assert client.files.write("new/a.txt", "text").path == str(sandbox.home / "new/a.txt")
    assert client.files.read("new/a.txt") == client.files.read("new/a.txt", gzip=True) == "text"
    entries = client.files.write_files([{"path": "b", "data": "1"}, {"path": "c/d", "data": b"2"}])
    assert [entry.name for entry in entries] == ["b", "d"]
    data = bytes(range(256)) * 20_000
    client.files.write("streamed", io.BytesIO(data))
    client.files.write("packed", data, gzip=True)
    assert client.files.read("streamed", format="bytes") == client.files.read("packed", format="bytes") == data
    assert b"".join(client.files.read("streamed", format="stream")) == data


def test_folders_are_listed_moved_and_removed(client: Client) -> None:
    assert client.files.make_dir("a/b")
    assert not client.files.make_dir("a/b")
    client.files.write("a/b/c", "x")
    assert [entry.path.rsplit("/", 2)[-1] for entry in client.files.list("a", depth=2)] == ["b", "c"]
    info = client.files.get_info("a/b/c")
    assert (info.size, info.mode & 0o777, info.permissions[:4]) == (1, 0o644, "-rw-")
    assert client.files.rename("a/b/c", "moved/c").path.endswith("/moved/c")
    assert client.files.exists("moved/c")
    client.files.remove("moved")
    assert not client.files.exists("moved")
    client.files.write("file", "x")
    assert not client.files.exists("file/below")


def test_watch_reports_file_events(client: Client) -> None:
    client.files.make_dir("watched")
    handle = client.files.watch_dir("watched", recursive=True, include_entry=True)
    client.files.write("watched/new/file", "x")
    seen: dict[str, str] = {}

    def file_is_seen() -> bool:
        for event in handle.get_new_events():
            assert ".part" not in event.name
            seen[event.name] = event.entry.path if event.entry else ""
        return "new/file" in seen

    _eventually("the file is not seen", file_is_seen)
    assert seen["new/file"].endswith("/watched/new/file")
    handle.stop()


def test_terminal_works(client: Client) -> None:
    terminal = client.pty.create(PtySize(24, 80))
    client.pty.resize(terminal.pid, PtySize(30, 100))
    client.pty.send_stdin(terminal.pid, b"stty size; exit 5\n")
    shown: list[bytes] = []
    with pytest.raises(CommandExitException) as ended:
        terminal.wait(on_pty=shown.append)
    assert ended.value.exit_code == 5
    assert b"30 100" in b"".join(shown)


def test_nothing_is_left_when_the_sandbox_stops(client: Client, sandbox: Sandbox) -> None:
    client.commands.run("setsid sh -c 'echo $$ > fled; trap \"\" TERM; sleep 600; true' >/dev/null 2>&1 &")
    _eventually(
        "it has not started", lambda: (sandbox.home / "fled").exists() and bool((sandbox.home / "fled").read_text())
    )
    pid = int((sandbox.home / "fled").read_text())
    sandbox.program.terminate()
    sandbox.program.wait(TIMEOUT)
    assert not _runs(pid)
