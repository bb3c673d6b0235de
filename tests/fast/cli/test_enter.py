"""The exit codes of commands in a sandbox that do not start."""

from __future__ import annotations

import httpx2
import pytest

from agentenv.cli.main import CommandError
from agentenv.cli.workspaces.enter import run_command
from agentenv.client.connect_json import SandboxError
from agentenv.client.sandbox import Command, Sandbox


def sandbox(message: str) -> Sandbox:
    document = {"code": "invalid_argument", "message": message}
    transport = httpx2.MockTransport(lambda _: httpx2.Response(400, json=document))
    return Sandbox(httpx2.Client(base_url="http://sandbox", transport=transport))


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ('cannot start "nosuch": not found in PATH', 127),
        ('cannot start "/no/such": stat /no/such: no such file or directory', 127),
        ('cannot start "/etc/passwd": permission denied', 126),
    ],
)
def test_the_exit_code_is_that_of_a_shell(message: str, code: int) -> None:
    with pytest.raises(CommandError) as raised:
        run_command(sandbox(message), Command(["nosuch"]))
    assert (raised.value.code, str(raised.value)) == (code, message)


def test_an_invalid_folder_is_no_missing_command() -> None:
    with pytest.raises(SandboxError):
        run_command(sandbox('cannot start: working directory "/x": no such file or directory'), Command(["true"]))
