"""The client of the service: what it sends, what it makes of answers, and how it enters a workspace."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest

from agentenv.cli.main import FAILED, OK, CommandError, dispatch
from agentenv.cli.workspaces.client import Client

TOKEN = "a-token-of-somebody"


@dataclass
class Stub:
    """A service that remembers what it was asked, and has one workspace."""

    address: str = ""
    asked: list[tuple[str, str, dict[str, list[str]], Any, str]] = field(default_factory=list)
    state: str = "running"
    refusal: dict[str, Any] | None = None
    page: bytes | None = None  # what something else than the service answers

    def workspace(self) -> dict[str, Any]:
        return {
            **dict.fromkeys(("why", "cold", "suspended_because", "created"), None),
            "id": "w-1",
            "class": "standard",
            "mode": "user",
            "state": self.state,
            "owner": "u-1",
            "sandbox": "standard-abc12",
            "leases": [],
            "labels": {},
        }

    def paths(self, method: str) -> list[str]:
        return [path for said, path, *_ in self.asked if said == method]


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    made = Stub()

    class Handler(BaseHTTPRequestHandler):
        stub: ClassVar[Stub] = made

        def _answer(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            query = parse_qs(parts.query)
            made.asked.append((self.command, parts.path, query, body, self.headers.get("authorization") or ""))
            found: Any = made.workspace()
            if made.refusal is not None:
                found = made.refusal
            elif parts.path.endswith("/resume"):
                made.state = "running"
                found = made.workspace()
            elif parts.path == "/v1/workspaces" and self.command == "GET":
                last = "after" in query
                found = {
                    "items": [found, {**found, "id": "w-3"}] if last else [found],
                    "after": None if last else "w-1",
                }
            elif parts.path.endswith("/events"):
                found = {"items": []}
            said = json.dumps(found).encode() if made.page is None else made.page
            self.send_response(200 if made.refusal is None else 402)
            self.send_header("content-length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815 - as the library calls them

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name it has there
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    made.address = f"http://127.0.0.1:{server.server_address[1]}"
    monkeypatch.setenv("AGENTENV_SERVICE", made.address)
    monkeypatch.setenv("AGENTENV_TOKEN", TOKEN)
    yield made
    server.shutdown()
    server.server_close()


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kubectl that writes down how it was called, and ends as it is told to."""
    called = tmp_path / "called"
    program = tmp_path / "kubectl"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {called}\necho a-token-of-an-account\nexit ${{ENDS:-0}}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return called


def ask(*words: str) -> int:
    return dispatch(["workspace", *words])


def test_a_workspace_is_asked_for_with_what_was_said_and_nothing_else(
    stub: Stub, capsys: pytest.CaptureFixture[str]
) -> None:
    said = ("--class", "standard", "--key", "k", "--label", "team=a", "--budget", "2.50", "--wait", "5", "--json")
    assert ask("create", *said) == OK
    [(method, path, query, body, bearer)] = stub.asked
    assert (method, path, query) == ("POST", "/v1/workspaces", {"wait": ["5"]})
    assert body == {"class": "standard", "mode": "user", "key": "k", "labels": {"team": "a"}, "budget": "2.50"}
    assert bearer == f"Bearer {TOKEN}"
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["id"] == "w-1"


def test_a_list_is_read_to_its_last_page(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask("list", "--class", "standard", "--everybody", "--json") == OK
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [one["id"] for one in found["workspaces"]] == ["w-1", "w-1", "w-3"]
    assert [query.get("after") for _, _, query, _, _ in stub.asked] == [None, ["w-1"]]
    assert all(query["everybody"] == ["true"] and query["class"] == ["standard"] for _, _, query, _, _ in stub.asked)
    assert ask("list") == OK
    assert "w-3" in capsys.readouterr().out


def test_what_is_not_said_is_not_changed_and_none_takes_away(stub: Stub) -> None:
    assert ask("update", "w-1", "--budget", "none", "--idle-after", "600", "--share", "u-2=ro") == OK
    assert stub.asked[-1][3] == {"budget": None, "idle_after": 600, "shared": {"u-2": "ro"}}
    assert ask("update", "w-1") == FAILED
    assert ask("update", "w-1", "--label", "team") == FAILED
    assert len(stub.asked) == 1


@pytest.mark.parametrize(
    ("words", "method", "path"),
    [
        (("suspend", "w-1"), "POST", "/v1/workspaces/w-1/suspend"),
        (("resume", "w-1"), "POST", "/v1/workspaces/w-1/resume"),
        (("delete", "w-1", "--destroy"), "DELETE", "/v1/workspaces/w-1"),
        (("show", "w-1"), "GET", "/v1/workspaces/w-1"),
        (("show", "../../admin"), "GET", "/v1/workspaces/..%2F..%2Fadmin"),
    ],
)
def test_each_verb_is_one_call(stub: Stub, words: tuple[str, ...], method: str, path: str) -> None:
    assert ask(*words) == OK
    assert stub.asked[0][:2] == (method, path)


def test_a_refusal_is_told_with_what_to_do(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    stub.refusal = {"title": "The budget is spent", "detail": "3.00 of 3.00", "way_out": "ask an admin to raise it"}
    assert ask("resume", "w-1") == FAILED
    told = capsys.readouterr().err
    assert "The budget is spent; 3.00 of 3.00; ask an admin to raise it" in told
    assert TOKEN not in told


@pytest.mark.parametrize("address", ["http://workspaces.example.com", "ftp://127.0.0.1", "workspaces.example.com"])
def test_no_token_is_sent_in_clear_or_to_no_service(address: str) -> None:
    with pytest.raises(CommandError):
        Client(address, TOKEN)


def test_what_is_no_port_no_token_or_no_service_is_told(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CommandError, match="is not a service address"):
        Client("https://127.0.0.1:workspaces", TOKEN)
    for token in ("t\u00f6ken", "two\nlines"):
        with pytest.raises(CommandError, match="the token contains invalid characters") as refused:
            Client(stub.address, token)
        assert token not in str(refused.value)
    stub.page = b"<html>a proxy's page</html>"
    assert ask("list") == FAILED
    assert "the response with status 200 is not from the workspace service" in capsys.readouterr().err


def test_a_token_comes_from_a_file_or_from_the_cluster(
    stub: Stub, kubectl: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text("from-a-file\n")
    assert ask("show", "w-1", "--token-file", str(file)) == OK
    assert stub.asked[-1][4] == "Bearer from-a-file"
    assert ask("show", "w-1", "--account", "team/bot", "--context", "prod") == OK
    assert stub.asked[-1][4] == "Bearer a-token-of-an-account"
    words = kubectl.read_text().splitlines()
    assert words == [
        *("--context=prod", "create", "token", "bot", "-n", "team"),
        *("--audience=agent-environment", "--duration=1h"),
    ]
    monkeypatch.delenv("AGENTENV_TOKEN")
    assert ask("show", "w-1") == FAILED


def test_the_service_is_reached_through_the_cluster(stub: Stub, kubectl: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port = stub.address.rpartition(":")[2]
    script = kubectl.with_name("kubectl")
    script.write_text(f"{script.read_text().rpartition('echo')[0]}echo Forwarding from 127.0.0.1:{port} -\\> 8080\n")
    monkeypatch.delenv("AGENTENV_SERVICE")
    assert ask("show", "w-1") == OK
    assert kubectl.read_text().splitlines() == [
        *("port-forward", "-n", "workspace-service", "service/workspace-service", ":http")
    ]


def test_a_command_runs_in_a_workspace_that_is_awake_and_held(
    stub: Stub, kubectl: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub.state = "suspended"
    monkeypatch.setenv("ENDS", "7")
    assert ask("exec", "w-1", "-i", "--", "git", "checkout", "--", "a") == 7
    words, git = kubectl.read_text().splitlines(), ["git", "checkout", "--", "a"]
    assert words == ["exec", "-i", "-n", "sandbox-standard", "standard-abc12", "-c", "sandbox", "--", *git]
    assert stub.paths("POST") == ["/v1/workspaces/w-1/resume"]
    [write_file], [gone] = stub.paths("PUT"), stub.paths("DELETE")
    assert write_file == gone
    assert write_file.startswith("/v1/workspaces/w-1/leases/cli-")


def test_ports_and_files_go_by_the_callers_own_rights(stub: Stub, kubectl: Path) -> None:
    assert ask("port-forward", "w-1", "8080:3000", "5173") == OK
    assert kubectl.read_text().splitlines() == [
        *("port-forward", "-n", "sandbox-standard", "standard-abc12", "8080:3000", "5173")
    ]
    assert ask("port-forward", "w-1", "99999") == FAILED
    assert ask("cp", "w-1", "notes.txt", ":/home/agent/notes.txt") == OK
    assert kubectl.read_text().splitlines() == [
        *("cp", "-c", "sandbox", "notes.txt", "sandbox-standard/standard-abc12:/home/agent/notes.txt")
    ]
    assert stub.asked[-2][3] == {"mode": "rw", "seconds": 120}
    assert ask("cp", "w-1", "a", "b") == FAILED


def test_what_cannot_be_entered_is_not(stub: Stub, kubectl: Path) -> None:
    stub.state = "failed"
    assert ask("ssh", "w-1") == FAILED
    assert not kubectl.exists()
    assert not stub.paths("PUT")
