"""The service's client against the real program: its tokens admit it to one pod, and it reads the status there."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import urllib3

from agentenv.rehearsal.controlplane.ports import HOST, Ports
from agentenv.service.workspaced.client import TOKEN_HEADER, WorkspacedClient, WorkspacedError
from agentenv.service.workspaced.keys import SigningKey, jwks, new_key
from agentenv.service.workspaced.tokens import Grant, sign_token
from agentenv.service.workspaces.backend_protocol import Endpoint
from tests.live.workspaced.conftest import TIMEOUT, Programs, wait_until_healthy

POD = "0b0a7c2e-5a6e-4d2e-9b0c-6f3c2a1d9e84"
CLAIM = "claim-1"


@dataclass
class Running:
    """A sandbox that was started before the keys were published."""

    pod: Endpoint
    keys: Path
    busy: Path

    def publish(self, *keys: SigningKey) -> None:
        """Write the keys as the kubelet does: in one step."""
        new = self.keys.with_suffix(".new")
        new.write_text(jwks(keys), encoding="utf-8")
        new.replace(self.keys)

    def code(self, token: str, path: str = "/status") -> int:
        """Return the status code that a token gets."""
        headers = {TOKEN_HEADER: token}
        return urllib3.request(
            "GET", f"http://{self.pod.destination}{path}", headers=headers, timeout=TIMEOUT, retries=False
        ).status


@pytest.fixture
def running(programs: Programs, tmp_path: Path) -> Iterator[Running]:
    home, uid, keys = tmp_path / "home", tmp_path / "uid", tmp_path / "keys.json"
    home.mkdir()
    uid.write_text(POD, encoding="utf-8")
    ports = Ports(("workspaced",))
    address = f"{HOST}:{ports['workspaced']}"
    options = ["--listen", address, "--pod-uid-file", uid, "--keys", keys, "--home", home, "--busy-dir", tmp_path / "b"]
    program = subprocess.Popen([programs.workspaced, "run", *options], env={**os.environ, "WORKSPACED_GRACE": "2s"})
    try:
        wait_until_healthy(f"http://{address}/health", program)
        yield Running(Endpoint(POD, "", HOST, ports["workspaced"]), keys, tmp_path / "b")
    finally:
        program.terminate()
        program.wait(TIMEOUT)
        ports.close()


class Signer:
    """Signs with one key, at the current time."""

    def __init__(self, key: SigningKey) -> None:
        self.key = key

    async def sign(self, grant: Grant) -> str:
        return sign_token(self.key, datetime.now(UTC), grant)


def through(signer: Signer, action: Callable[[WorkspacedClient], Coroutine[Any, Any, Any]]) -> Any:
    async def call() -> Any:
        client = WorkspacedClient(signer)
        try:
            return await action(client)
        finally:
            await client.close()

    return asyncio.run(call())


def until_admitted(running: Running, signer: Signer) -> None:
    """Wait until the program has read the published keys, which it does once a second."""
    deadline = time.monotonic() + TIMEOUT
    while running.code(asyncio.run(signer.sign(Grant(POD, "control")))) != 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_service_is_admitted_only_after_its_keys_are_published(running: Running) -> None:
    signer = Signer(new_key(datetime.now(UTC)))
    with pytest.raises(WorkspacedError, match="401"):
        through(signer, lambda client: client.status(running.pod))
    running.publish(signer.key)
    until_admitted(running, signer)
    status = through(signer, lambda client: client.status(running.pod))
    assert status.idle_seconds >= 0
    assert status.busy is False
    running.busy.mkdir(exist_ok=True)
    with (running.busy / "train").open("w") as job, subprocess.Popen(["flock", str(job.name), "cat"], stdin=-1) as lock:
        deadline = time.monotonic() + TIMEOUT
        while not through(signer, lambda client: client.status(running.pod)).busy:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        lock.kill()


def test_both_keys_of_a_rotation_are_admitted_until_one_is_withdrawn(running: Running) -> None:
    now = datetime.now(UTC)
    old, new = Signer(new_key(now)), Signer(new_key(now))
    running.publish(old.key, new.key)
    until_admitted(running, old)
    until_admitted(running, new)
    running.publish(new.key)
    deadline = time.monotonic() + TIMEOUT
    while running.code(asyncio.run(old.sign(Grant(POD, "control")))) != 401:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    until_admitted(running, new)


def test_token_is_bound_to_pod_minute_and_scope(running: Running) -> None:
    now = datetime.now(UTC)
    signer = Signer(new_key(now))
    running.publish(signer.key)
    until_admitted(running, signer)

    def token(at: datetime = now, **claims: str) -> str:
        return sign_token(signer.key, at, Grant(**{"pod_uid": POD, "scope": "control", **claims}))

    assert running.code(token()) == 200
    assert running.code(token(pod_uid="another")) == 401
    assert running.code(token(at=now - timedelta(seconds=90))) == 401
    assert running.code(token(scope="api", claim_uid=CLAIM)) == 403
    # Scopes beyond control require the claim, and the first one is pinned.
    assert running.code(token(scope="api"), "/envs") == 401
    assert running.code(token(scope="api", claim_uid=CLAIM), "/envs") == 200
    assert running.code(token(scope="api", claim_uid="claim-2"), "/envs") == 401


def test_tokens_of_an_ended_session_are_refused(running: Running) -> None:
    now = datetime.now(UTC)
    signer = Signer(new_key(now))
    running.publish(signer.key)
    until_admitted(running, signer)
    first, second = (sign_token(signer.key, now, Grant(POD, "api", CLAIM, session)) for session in ("s-1", "s-2"))
    assert running.code(first, "/envs") == running.code(second, "/envs") == 200
    through(signer, lambda client: client.end_session(running.pod, "s-1"))
    assert running.code(first, "/envs") == 401
    assert running.code(second, "/envs") == 200


def test_another_program_at_the_port_is_an_error() -> None:
    signer = Signer(new_key(datetime.now(UTC)))
    with Ports(("nobody",)) as ports, pytest.raises(WorkspacedError, match="does not answer"):
        through(signer, lambda client: client.status(Endpoint(POD, "", HOST, ports["nobody"])))
