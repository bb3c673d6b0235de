"""Tools that run commands: in the foreground for a time, in the background, and what they wrote since."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Annotated

from pydantic import BaseModel, Field

from agentenv.client.connect_json import SandboxError
from agentenv.client.sandbox import AsyncSandbox, Command, Event, Output, Started
from agentenv.service.http.grants import check_port
from agentenv.service.http.problems import Problem
from agentenv.service.mcp.calls import LONGEST_SECONDS, Call, CallContext, tool
from agentenv.service.mcp.output import Bounded

_KILL, _TERMINATE = 9, 15
_RECENT_SECONDS = 0.25

Id = Annotated[str, Field(description="The workspace's id.")]
Pid = Annotated[int, Field(ge=1, description="The process id that `run` or `start_server` returned.")]
Wait = Annotated[float, Field(ge=0, le=LONGEST_SECONDS, description="Seconds to wait for its end.")]


class CommandResult(BaseModel):
    """The output of a command, and whether it has ended."""

    pid: int
    running: Annotated[bool, Field(description="Whether it runs on: read more with `read_output`, end it with `stop`.")]
    exit_code: Annotated[int | None, Field(description="Null while it runs; -1 after a signal.")] = None
    stdout: str = ""
    stderr: str = ""


class Link(BaseModel):
    """A server in a workspace."""

    pid: int
    url: Annotated[str | None, Field(description="Its address; null in an environment without a domain.")]
    note: str


@tool
async def run(
    workspace: Id,
    command: Annotated[str, Field(min_length=1, max_length=100_000, description="A line for a login shell.")],
    context: CallContext,
    *,
    directory: Annotated[str | None, Field(description="Where it runs; default: the home.")] = None,
    environment: Annotated[dict[str, str] | None, Field(description="Variables to add.")] = None,
    timeout: Wait = 60,
    background: Annotated[bool, Field(description="Return as soon as it has started.")] = False,
) -> CommandResult:
    """Run a shell command in a workspace. One that takes longer than `timeout` runs on, and its pid is returned."""
    sandbox = await Call.of(context).sandbox(workspace, opened="processes")
    events = sandbox.start(Command.shell(command, directory=directory, environment=environment))
    return await collect(events, 0 if background else timeout)


@tool
async def read_output(workspace: Id, pid: Pid, context: CallContext, wait: Wait = 5) -> CommandResult:
    """Return the recent output of a command that runs, or ended in the last minute; wait for its end for so long."""
    sandbox = await Call.of(context).sandbox(workspace, opened="processes")
    return await collect(sandbox.attach(pid), wait, pid)


@tool
async def send_input(
    workspace: Id,
    pid: Pid,
    text: Annotated[str, Field(max_length=1_000_000, description="What to write, with its line breaks.")],
    context: CallContext,
    wait: Wait = 2,
) -> CommandResult:
    """Write to the input of a command that `run` started with `background`, and return its recent output."""
    sandbox = await Call.of(context).sandbox(workspace, opened="processes")
    await sandbox.send_input(pid, text.encode())
    return await collect(sandbox.attach(pid), wait, pid)


@tool
async def stop(
    workspace: Id,
    pid: Pid,
    context: CallContext,
    kill: Annotated[bool, Field(description="Kill it at once instead of asking it to end.")] = False,
) -> CommandResult:
    """End a command and what it started."""
    sandbox = await Call.of(context).sandbox(workspace, opened="processes")
    await sandbox.signal(pid, _KILL if kill else _TERMINATE)
    return await collect(sandbox.attach(pid), 10, pid)


@tool
async def start_server(
    workspace: Id,
    command: Annotated[str, Field(min_length=1, max_length=100_000, description="The line that starts it.")],
    port: Annotated[int, Field(ge=1, le=65535, description="The port it listens on.")],
    context: CallContext,
    *,
    directory: Annotated[str | None, Field(description="Where it runs; default: the home.")] = None,
    timeout: Wait = 30,
) -> Link:
    """Start a server in the background, wait until its port answers, and return its link."""
    call = Call.of(context)
    check_port(await call.workspace(workspace, "write", "use"), port)
    sandbox = await call.sandbox(workspace, opened="processes")
    started = await collect(sandbox.start(Command.shell(command, directory=directory)), 0)
    await _wait_for_port(sandbox, started.pid, port, timeout)
    gateway = call.dependencies.gateway
    return Link(
        pid=started.pid,
        url=gateway.ports.format(port=port, workspace=workspace) + "/" if gateway else None,
        note="The port is private: its owner signs in, until it is shared with PUT /v1/workspaces/{id}/ports/{port}.",
    )


async def _wait_for_port(sandbox: AsyncSandbox, pid: int, port: int, timeout: float) -> None:
    """Wait until a port of a sandbox answers; raise a `Problem` where its server ends or takes too long."""
    # Inside, where it may listen on either loopback address. bash is what the commands run in.
    probe = f"(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null || (exec 3<>/dev/tcp/::1/{port}) 2>/dev/null"
    line = f"until {probe}; do kill -0 {pid} 2>/dev/null || exit 3; sleep 0.1; done"
    result = await collect(sandbox.start(Command(("/bin/bash", "-c", line), timeout=max(0.1, timeout))), timeout + 1)
    if result.exit_code == 0:
        return
    output = await collect(sandbox.attach(pid), 2, pid)
    wrote = (output.stderr or output.stdout)[-2000:]
    reason = f"it does not listen on port {port}" if output.running else f"it ended with {output.exit_code}"
    raise Problem("wrong-state", f"{reason}; it wrote: {wrote!r}", f"correct it; its pid is {pid}")


async def collect(events: AsyncGenerator[Event], seconds: float, pid: int = 0) -> CommandResult:
    """Read events until the end of a process, or for so many seconds after its start; it runs on after that."""
    out, err, code, is_started = Bounded(), Bounded(), None, False
    deadline = time.monotonic() + seconds
    try:
        while True:
            # Its start is waited for: otherwise nobody would know its pid. Recent output follows at once.
            left = max(_RECENT_SECONDS, deadline - time.monotonic()) if is_started else None
            event = await asyncio.wait_for(anext(events), left)
            if isinstance(event, Started):
                pid, is_started = event.pid, True
            elif isinstance(event, Output):
                (err if event.channel == "stderr" else out).add(event.data)
            else:
                code = event.exit_code
                break
            # What a process writes without end is read no longer than that.
            if time.monotonic() > deadline + 1:
                break
    except (TimeoutError, StopAsyncIteration):
        pass
    except SandboxError as failure:
        if failure.code != "deadline_exceeded" or not is_started:
            raise
    finally:
        await events.aclose()
    return CommandResult(pid=pid, running=code is None, exit_code=code, stdout=out.text(), stderr=err.text())
