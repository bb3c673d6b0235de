"""Run commands in a sandbox through workspaced, as the gateway's callers do: at its pod's address, with a token for it.

The protocol is Connect with JSON: a request and a stream of messages, each after its flags and its length.
"""

from __future__ import annotations

import base64
import http.client
import json
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agentenv.rehearsal.controlplane.client import Client, until
from agentenv.rehearsal.scenario.storage_probe import ProbeFailed

Object = dict[str, Any]
# Returns a token for a pod's uid, with a claim's uid and a scope.
Signer = Callable[[str, str, str], str]

PORT_NAME = "workspaced"
SCOPE = "api"
_END_OF_STREAM = 2
_HEAD = struct.Struct(">BI")
_SECONDS = 30.0


class CommandRefused(Exception):
    """Workspaced refused a request; the message is its own."""


@dataclass
class Output:
    """The output of a command, and its exit code."""

    stdout: str = ""
    stderr: str = ""
    code: int | None = None


def is_running(pod: Object) -> bool:
    """Return whether a pod is a process of this machine: simulated ones have no address of this machine."""
    return (pod.get("status") or {}).get("podIP", "").startswith("127.")


def run_script(pod: Object, token: str, script: str, seconds: float = _SECONDS) -> Output:
    """Run a shell script in a sandbox, and return its output once it has ended."""
    body = json.dumps({"process": {"cmd": "/bin/sh", "args": ["-c", script]}, "stdin": False}).encode()
    headers = {"Content-Type": "application/connect+json", "Connect-Protocol-Version": "1", "X-Workspace-Token": token}
    connection = http.client.HTTPConnection(pod["status"]["podIP"], _port(pod), timeout=seconds)
    try:
        connection.request("POST", "/process.Process/Start", _HEAD.pack(0, len(body)) + body, headers)
        response = connection.getresponse()
        if response.status != 200:
            raise CommandRefused(f"{response.status} {response.read(500).decode(errors='replace')}")
        return _read(response)
    finally:
        connection.close()


def _port(pod: Object) -> int:
    rows = pod["spec"]["containers"][0].get("ports") or ()
    return next(int(row["containerPort"]) for row in rows if row.get("name") == PORT_NAME)


def _read(response: http.client.HTTPResponse) -> Output:
    output = Output()
    while len(head := response.read(_HEAD.size)) == _HEAD.size:
        flags, length = _HEAD.unpack(head)
        message = json.loads(response.read(length) or b"{}")
        if flags & _END_OF_STREAM:
            if "error" in message:
                raise CommandRefused(str(message["error"].get("message")))
            return output
        event = message.get("event", {})
        for kind, text in event.get("data", {}).items():
            setattr(output, kind, getattr(output, kind) + base64.b64decode(text).decode(errors="replace"))
        if "end" in event:
            output.code = event["end"].get("exitCode", 0)
    return output


class Workspace:
    """A claimed sandbox in which commands run."""

    def __init__(self, client: Client, claim: Object, sign: Signer) -> None:
        self._client = client
        self._claim = claim["metadata"]
        self._sandbox = claim["status"]["sandbox"]["name"]
        self._sign = sign

    def is_running(self) -> bool:
        """Return whether its pod is a process of this machine."""
        pod = self._pod()
        return pod is not None and is_running(pod)

    def run(self, script: str) -> str:
        """Return what a script prints; ProbeFailed unless it succeeds. Keys may still be on their way to the pod."""
        refusals: list[str] = []

        def attempt() -> Output | None:
            pod = self._pod()
            if pod is None or not is_running(pod) or pod["metadata"].get("deletionTimestamp"):
                return None
            try:
                return run_script(pod, self._token(pod), script)
            except (CommandRefused, OSError, http.client.HTTPException) as error:
                refusals.append(str(error))
                return None

        output = until(attempt, _SECONDS)
        if output is None:
            raise ProbeFailed(
                f"no command runs in {self._sandbox}: {refusals[-1] if refusals else 'it has no running pod'}"
            )
        if output.code != 0:
            raise ProbeFailed(f"'{script}' ended with {output.code} in {self._sandbox}: {output.stderr.strip()}")
        return output.stdout

    def pod_connection(self, seconds: float) -> http.client.HTTPConnection:
        """Return a connection to workspaced in its pod."""
        pod = self._running_pod()
        return http.client.HTTPConnection(pod["status"]["podIP"], _port(pod), timeout=seconds)

    def headers(self, scope: str) -> dict[str, str]:
        """Return the header by which workspaced admits a request of a scope."""
        return {"X-Workspace-Token": self._token(self._running_pod(), scope)}

    def _running_pod(self) -> Object:
        pod = self._pod()
        if pod is None or not is_running(pod):
            raise ProbeFailed(f"{self._sandbox} has no running pod")
        return pod

    def _token(self, pod: Object, scope: str = SCOPE) -> str:
        return self._sign(pod["metadata"]["uid"], self._claim["uid"], scope)

    def _pod(self) -> Object | None:
        return self._client.find(f"/api/v1/namespaces/{self._claim['namespace']}/pods/{self._sandbox}")


def first_command(workspace: Workspace, began: float) -> float:
    """Run a first command that leaves a file in the home; return the milliseconds since `began` to its output."""
    text = workspace.run("echo rehearsed | tee ~/rehearsal")
    milliseconds = (time.monotonic() - began) * 1000
    if text != "rehearsed\n":
        raise ProbeFailed(f"the first command printed {text!r}")
    return round(milliseconds, 1)


def check_file(workspace: Workspace) -> None:
    """Check that the file of the first command is there, as it must be after a suspension."""
    if (text := workspace.run("cat ~/rehearsal")) != "rehearsed\n":
        raise ProbeFailed(f"after a suspension the file of the first command contains {text!r}")
