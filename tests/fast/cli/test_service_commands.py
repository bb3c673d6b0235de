"""The commands that speak to the service, against a served one: their output, their JSON and their errors."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentenv.cli.commands import workspace as workspace_command
from agentenv.cli.main import FAILED, OK, dispatch
from agentenv.cli.workspaces.tools import Connection, tool_of
from agentenv.client import Client
from tests.fast.dev.served import Served, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("dev") / "state") as started:
        yield started


@pytest.fixture(autouse=True)
def user(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without a login, who knows the service and its key."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("AGENTENV_SERVICE", served.address)
    monkeypatch.setenv("AGENTENV_TOKEN", served.key)


class Terminal:
    """Runs commands and reads what they print."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def run(self, *words: str) -> str:
        assert dispatch(words) == OK, self._capsys.readouterr().err
        return self._capsys.readouterr().out

    def json(self, *words: str) -> Any:
        return json.loads(self.run(*words, "--json").splitlines()[-1])

    def fail(self, *words: str) -> str:
        assert dispatch(words) == FAILED
        return self._capsys.readouterr().err


@pytest.fixture
def terminal(capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(capsys)


def test_classes_are_listed(terminal: Terminal) -> None:
    assert [row["name"] for row in terminal.json("classes")["classes"]] == ["standard", "base"]
    assert "standard  standard" in terminal.run("classes")


def test_a_key_is_created_used_and_revoked(terminal: Terminal, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    key = terminal.run("keys", "create", "ci", "--scope", "read", "--days", "1").strip()
    [row] = terminal.json("keys", "list")["keys"]
    assert (row["name"], row["scopes"]) == ("ci", ["read"])
    assert key not in terminal.run("keys", "list")
    monkeypatch.setenv("AGENTENV_TOKEN", key)
    assert terminal.json("classes")["classes"]
    assert "lacks the scope 'create'" in terminal.fail("workspace", "create", "--class", "standard")
    monkeypatch.setenv("AGENTENV_TOKEN", served.key)
    assert terminal.run("keys", "revoke", row["id"]) == f"revoked {row['id']} (ci)\n"
    assert "see `agentenv keys list`" in terminal.fail("keys", "revoke", row["id"])


def test_a_workspace_is_attached_to_by_a_link(
    terminal: Terminal, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    id_ = terminal.json("workspace", "create", "--class", "standard", "--key", "linked")["id"]
    other = terminal.json("workspace", "create", "--class", "standard", "--key", "other")["id"]
    link = terminal.json("workspace", "attach", id_, "--link", "--rights", "use", "--hours", "2")
    assert link["url"].startswith(f"{served.address}/attach/{id_}?rights=read,use&until=")
    assert [row["workspace"] for row in terminal.json("keys", "list")["keys"]] == [id_]
    assert f"{id_[:8]}" in terminal.run("keys", "list")
    # Whoever has the link has no login.
    monkeypatch.delenv("AGENTENV_TOKEN")
    monkeypatch.delenv("AGENTENV_SERVICE")
    attached: list[tuple[str, list[str]]] = []

    sleep, command = time.sleep, threading.current_thread()

    def interrupt(seconds: float) -> None:
        if threading.current_thread() is not command:
            return sleep(seconds)  # of the service, whose threads are in this process
        with Client(served.address, served.key) as owner:
            holders = [lease["holder"] for lease in owner.get_workspace(id_)["leases"]]
        attached.append((id_, holders))
        raise KeyboardInterrupt

    monkeypatch.setattr(workspace_command.time, "sleep", interrupt)
    monkeypatch.setattr("sys.stdin", io.StringIO(link["url"] + "\n"))
    for text in (link["url"], "-"):
        with pytest.raises(KeyboardInterrupt):
            dispatch(["workspace", "attach", "--link", text])
    assert [(name, len(holders)) for name, holders in attached] == [(id_, 1), (id_, 1)]
    assert "leave out the id" in terminal.fail("workspace", "attach", other, "--link", link["url"])
    assert "a link to one workspace" in terminal.fail("workspace", "attach", "--link", link["url"].replace(id_, other))
    assert "not a link" in terminal.fail("workspace", "attach", "--link", served.address)
    monkeypatch.setenv("AGENTENV_SERVICE", served.address)
    monkeypatch.setenv("AGENTENV_TOKEN", served.key)
    terminal.run("keys", "revoke", link["id"])
    assert "revoked" in terminal.fail("workspace", "attach", "--link", link["url"])


def test_a_workspace_shows_its_events_and_usage(terminal: Terminal) -> None:
    id_ = terminal.json("workspace", "create", "--class", "standard", "--key", "events")["id"]
    assert "Created" in terminal.run("events", id_)
    assert {event["reason"] for event in terminal.json("events", id_)["events"]} == {"Created", "Running"}
    assert "name a workspace, or add --follow" in terminal.fail("events")
    terminal.run("workspace", "suspend", id_)
    usage = terminal.json("workspace", "usage")
    assert usage["month"]["spent"] is not None
    assert "spent this month" in terminal.run("workspace", "usage")


def test_errors_are_in_words_of_the_command_line(terminal: Terminal) -> None:
    assert "choose one that `agentenv classes` lists" in terminal.fail("workspace", "create", "--class", "none")
    assert "see `agentenv workspace list`" in terminal.fail("workspace", "show", "w-" + "a" * 26)
    created = terminal.json("workspace", "create", "--class", "standard", "--key", "words")
    again = terminal.fail("workspace", "create", "--class", "standard", "--key", "words", "--budget", "3")
    assert "change it with `agentenv workspace update`" in again
    assert "--idle-after" in terminal.fail("workspace", "update", created["id"], "--idle-after", "1")
    terminal.run("workspace", "delete", created["id"])
    assert terminal.json("swarm", "list")["swarms"] == []
    negative = terminal.fail("workspace", "create", "--class", "standard", "--budget", "-5")
    assert "--budget: dollars are a number from 0, with cents as a text such as 2.50; correct" in negative
    assert "Value error" not in negative
    assert "there is nothing of this name" in terminal.fail("workspace", "show", "../../x")


def test_a_login_is_used_and_deleted(
    terminal: Terminal, served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AGENTENV_SERVICE")
    monkeypatch.delenv("AGENTENV_TOKEN")
    key_file = tmp_path / "key"
    key_file.write_text(f"{served.key}\n")
    shown = terminal.run("login", "--service", served.address, "--key-file", str(key_file))
    assert served.key not in shown
    file = tmp_path / "config" / "agentenv" / "login.json"
    assert file.stat().st_mode & 0o777 == 0o600
    assert terminal.json("classes")["classes"]
    assert terminal.json("login", "--show")["service"] == served.address
    # A login is that of its service alone.
    assert "there is no token" in terminal.fail("classes", "--service", "https://other.example.com")
    terminal.run("login", "--forget")
    assert "nobody is signed in" in terminal.fail("login", "--show")


def test_invalid_key_is_not_stored(terminal: Terminal, served: Served, tmp_path: Path) -> None:
    key_file = tmp_path / "key"
    key_file.write_text("e2b_" + "0" * 52)
    error = terminal.fail("login", "--service", served.address, "--key-file", str(key_file))
    assert "the API key is unknown, expired or revoked; sign in with `agentenv login`" in error
    assert not (tmp_path / "config").exists()


def test_the_running_dev_service_is_found(
    terminal: Terminal, served: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from agentenv.dev import state

    monkeypatch.setattr(state, "folder", lambda: tmp_path / "nothing")
    nothing = tmp_path / "nothing"
    assert f"`agentenv dev` does not run with the folder {nothing}" in terminal.fail("login", "--dev")
    assert not nothing.exists()
    assert served.address in terminal.run("login", "--dev", "--state", str(served.folder))
    monkeypatch.setattr(state, "folder", lambda: served.folder)
    assert served.address in terminal.run("login", "--dev")


def test_a_secret_is_read_from_standard_input(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("value"))
    error = terminal.fail("secrets", "put", "name")
    assert "secrets" in error
    assert "value" not in error


@pytest.mark.parametrize(
    "place",
    [
        ("claude", ".claude.json", "mcpServers"),
        ("cursor", ".cursor/mcp.json", "mcpServers"),
        ("vscode", ".config/Code/User/mcp.json", "servers"),
    ],
    ids=lambda place: place[0],
)
def test_a_tool_gets_an_entry_with_a_key_of_its_own_until_it_is_undone(
    terminal: Terminal, served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: tuple[str, str, str]
) -> None:
    tool, path, section = place
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"theme": "dark", section: {"other": {}}}))
    shown = "".join([terminal.run("connect", tool) for _ in range(2)])
    document = json.loads(file.read_text())
    entry = document[section]["agentenv"]
    key = entry["headers"]["Authorization"].removeprefix("Bearer ")
    assert entry["url"] == f"{served.address}/mcp"
    assert key not in shown
    assert key != served.key
    assert file.stat().st_mode & 0o777 == 0o600
    assert (document["theme"], document[section]["other"]) == ("dark", {})
    assert len([row for row in terminal.json("keys", "list")["keys"] if row["name"] == f"connect {tool}"]) == 1
    assert terminal.json("connect", tool, "--undo")["done"] == "removed"
    assert json.loads(file.read_text()) == {"theme": "dark", section: {"other": {}}}
    assert not terminal.json("keys", "list")["keys"]
    assert terminal.json("connect", tool, "--undo")["done"] == "absent"


def test_a_configuration_that_cannot_be_read_stays_as_it_is(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".claude.json").write_text("{ broken")
    assert "stays as it is" in terminal.fail("connect", "claude")
    assert (tmp_path / ".claude.json").read_text() == "{ broken"


def test_openssh_includes_our_file_and_keeps_its_own(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    config = tmp_path / ".ssh" / "config"
    config.parent.mkdir()
    config.write_text("Host own\n  User me\n")
    terminal.run("connect", "ssh")
    terminal.run("connect", "ssh")
    own = tmp_path / "config" / "agentenv" / "ssh_config"
    assert config.read_text() == f"Include {own}\nHost own\n  User me\n"
    assert "ProxyCommand" in own.read_text()
    terminal.run("connect", "ssh", "--undo")
    assert config.read_text() == "Host own\n  User me\n"
    assert not own.exists()


def test_the_e2b_clients_need_a_gateway(terminal: Terminal) -> None:
    assert "has no gateway" in terminal.fail("connect", "e2b")


@pytest.mark.parametrize("domain", ["os.example.com", None])
def test_links_of_the_e2b_client_name_their_sandbox(domain: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    from e2b import Sandbox
    from e2b.connection_config import ConnectionConfig
    from packaging.version import Version

    sandboxes = f"https://sandbox.{domain}" if domain else "http://127.0.0.1:8000"
    monkeypatch.delenv("E2B_SANDBOX_URL", raising=False)
    tool = tool_of("e2b")
    tool.write(Connection("https://api.os.example.com", "e2b_x", {"sandboxes": sandboxes, "ports": ""}))
    for line in tool.file.read_text().splitlines():
        monkeypatch.setenv(*line.split("=", 1))
    sandbox = Sandbox(
        sandbox_id="w-a0x",
        envd_version=Version("0.6.4"),
        envd_access_token="token",
        sandbox_domain="apps.example.com",
        connection_config=ConnectionConfig(),
        traffic_access_token=None,
    )
    expected = "https://49983-w-a0x.apps.example.com/" if domain else f"{sandboxes}/"
    assert sandbox.download_url("a").startswith(expected)
    assert ConnectionConfig().api_url == "https://api.os.example.com/e2b"


def test_events_are_followed_from_a_number_on(terminal: Terminal, served: Served) -> None:
    id_ = terminal.json("workspace", "create", "--class", "standard", "--key", "followed")["id"]
    command = [sys.executable, "-m", "agentenv", "events", id_, "--follow", "--after", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        lines = (json.loads(line) for line in following.stdout)
        assert [next(lines).get("reason") for _ in range(2)] == ["Created", "Running"]
        assert next(lines)["kind"] == "ready"
        terminal.run("workspace", "suspend", id_)
        seen = [next(lines) for _ in range(2)]
        assert {(row["kind"], row.get("reason") or row["state"]) for row in seen} == {
            ("event", "Suspended"),
            ("workspace", "suspended"),
        }
        following.kill()


def test_reasons_are_those_of_the_state(terminal: Terminal) -> None:
    id_ = terminal.run("workspace", "create", "--class", "standard").split()[0]
    assert terminal.run("workspace", "suspend", id_).endswith("suspended  (on request)\n")
    assert "Suspended  on request\n" in terminal.run("events", id_)
    assert terminal.json("workspace", "show", id_)["suspended_because"] == "asked"
    assert "on request" in terminal.run("workspace", "show", id_)
    assert "  on request\n" in terminal.run("workspace", "list")
    deleted = terminal.run("workspace", "delete", id_)
    assert "(" not in deleted


def test_tables_in_a_pipe_are_not_wrapped(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    terminal.run("keys", "create", "a name of so many words that no line of forty columns could hold it")
    for words in (["classes"], ["keys", "list"], ["workspace", "list"], ["workspace", "usage"]):
        head, *rows = terminal.run(*words).splitlines()
        assert all(line == line.rstrip() for line in (head, *rows))
        assert all(line.split() for line in rows)
    [row] = [line for line in terminal.run("keys", "list").splitlines() if "forty" in line]
    assert "no line of forty columns could hold it  read, use, create, wake" in row
    heads = terminal.run("classes").splitlines()[0]
    assert heads.split("  ")[-1].strip() == "FILES"
