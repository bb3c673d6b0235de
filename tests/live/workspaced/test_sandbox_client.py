"""Both clients of a sandbox against the real program: processes, terminals and files."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from agentenv.client.connect_json import SandboxError
from agentenv.client.sandbox import AsyncSandbox, Command, Ended, Entry, Event, Output, Size, Started
from agentenv.client.sandbox import Sandbox as Client
from tests.live.workspaced.conftest import Sandbox


def _options(sandbox: Sandbox) -> dict[str, Any]:
    """Return the options of an HTTP client that the sandbox itself admits, without a proxy between them."""
    program, *_, keys = sandbox.control
    token = subprocess.run([program, "token", keys], check=True, capture_output=True, text=True).stdout.strip()
    return {"base_url": sandbox.direct, "headers": {"X-Workspace-Token": token}, "trust_env": False, "timeout": 60}


@pytest.fixture
def client(sandbox: Sandbox) -> Iterator[Client]:
    with httpx2.Client(**_options(sandbox)) as http:
        yield Client(http)


def _text(events: list[Event], channel: str) -> str:
    return b"".join(each.data for each in events if isinstance(each, Output) and each.channel == channel).decode()


def test_command_has_output_and_exit_code(client: Client, sandbox: Sandbox) -> None:
    command = Command.shell("pwd; echo $X >&2; exit 3", directory="/usr", environment={"X": "y"})
    events = list(client.start(command))
    assert isinstance(events[0], Started)
    assert (_text(events, "stdout"), _text(events, "stderr"), events[-1]) == (
        "/usr\n",
        "y\n",
        Ended(3, "exit status 3"),
    )


def test_second_reader_gets_the_output(client: Client) -> None:
    events = client.start(Command(["cat"], stdin=True, tag="copy"))
    started = next(events)
    assert isinstance(started, Started)
    assert [(each.pid, each.command, each.tag) for each in client.processes()] == [(started.pid, ("cat",), "copy")]
    client.send_input(started.pid, b"one ")
    events.close()  # the process runs on
    client.send_input(started.pid, b"two")
    client.close_input(started.pid)
    assert _text(list(client.attach(started.pid)), "stdout") == "one two"


def test_timeout_and_signal_end_a_process(client: Client) -> None:
    with pytest.raises(SandboxError) as raised:
        list(client.start(Command(["sleep", "600"], timeout=0.2)))
    assert raised.value.code == "deadline_exceeded"
    events = client.start(Command(["sleep", "600"]))
    started = next(events)
    assert isinstance(started, Started)
    client.signal(started.pid, signal.SIGTERM)
    assert [each.exit_code for each in events if isinstance(each, Ended)] == [-1]
    with pytest.raises(SandboxError) as gone:
        client.signal(1 << 22, signal.SIGKILL)
    assert gone.value.code == "not_found"


def test_terminal_works(client: Client) -> None:
    events = client.start(Command(["/bin/sh"], terminal=Size(80, 24)))
    started = next(events)
    assert isinstance(started, Started)
    client.resize(started.pid, Size(100, 30))
    client.send_input(started.pid, b"stty size; exit 5\n", terminal=True)
    rest = list(events)
    assert "30 100" in _text(rest, "pty")
    assert rest[-1] == Ended(5, "exit status 5")


def test_files_are_written_read_and_listed(client: Client, sandbox: Sandbox) -> None:
    client.write("a/b", b"0123456789")
    assert (client.read("a/b"), b"".join(client.download("a/b", start=2, end=4))) == (b"0123456789", b"234")
    client.write("a/c", (piece for piece in (b"x" * 100_000, b"y")))
    assert (sandbox.home / "a/c").stat().st_size == 100_001
    entry = client.stat("a/b")
    assert (entry.name, entry.kind, entry.size, entry.mode & 0o777) == ("b", "file", 10, 0o644)
    client.make_directory("a/d/e")
    with pytest.raises(SandboxError) as existing:
        client.make_directory("a/d/e")
    assert existing.value.code == "already_exists"
    assert client.move("a/b", "a/d/b").path.endswith("/a/d/b")
    assert [(each.name, each.kind) for each in client.list("a", 2)] == [
        ("c", "file"), ("d", "directory"), ("b", "file"), ("e", "directory"),
    ]  # fmt: skip
    client.remove("a")
    with pytest.raises(SandboxError) as missing:
        client.read("a/c")
    assert (missing.value.code, missing.value.status) == ("not_found", 404)
    assert client.metrics()["mem_total"] > 0


def test_asynchronous_client_works(sandbox: Sandbox) -> None:
    async def scenario() -> tuple[list[Event], bytes, Entry, list[str]]:
        async with httpx2.AsyncClient(**_options(sandbox)) as http:
            client = AsyncSandbox(http)
            await client.write("f", b"text")
            events = [event async for event in client.start(Command.shell("cat f"))]
            listed = [each.name for each in await client.list(".") if not each.name.startswith(".")]
            return events, await client.read("f"), await client.stat("f"), listed

    events, content, entry, listed = asyncio.run(scenario())
    assert (_text(events, "stdout"), events[-1]) == ("text", Ended(0, "exit status 0"))
    assert (content, entry.size, listed) == (b"text", 4, ["f"])
