"""Enter a workspace through the gateway: commands, a terminal, and the output of what runs there.

A workspace is resumed first if it is suspended. The caller's own token admits; no permission in the cluster is needed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import termios
import threading
import tty
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from agentenv.cli.main import CommandError
from agentenv.cli.workspaces.tables import RESUMABLE
from agentenv.client.connect_json import SandboxError
from agentenv.client.sandbox import Command, Ended, Event, Output, Sandbox, Size, Started

if TYPE_CHECKING:
    from agentenv.client import Client

_READ_BYTES = 1 << 16
# A login shell if the image has one, in the home that outlives the sandbox.
SHELL = ("/bin/sh", "-c", 'cd; exec "${SHELL:-sh}" -l')
# The exit codes of a shell
_CANNOT_EXECUTE, _NOT_FOUND, _SIGNALLED = 126, 127, 128
_ABSENT = ("not found in PATH", "no such file or directory")


def entered(client: Client, id_: str) -> Sandbox:
    """Return a client of the sandbox of a workspace, which is resumed if it is suspended."""
    workspace = client.get_workspace(id_)
    if workspace["state"] in RESUMABLE:
        workspace = client.resume_workspace(id_, wait=60)
    if workspace["state"] != "running":
        raise CommandError(f"{id_} is {workspace['state']}: {workspace['why'] or 'it cannot be entered'}")
    return client.sandbox(id_)


def run_command(sandbox: Sandbox, command: Command) -> int:
    """Run a command with this process's output, and its input where the command takes it; return its exit code."""
    events = sandbox.start(command)
    try:
        pid = _pid(next(events))
    except SandboxError as error:
        if error.code != "invalid_argument" or not error.message.startswith('cannot start "'):
            raise
        absent = any(words in error.message for words in _ABSENT)
        raise CommandError(error.message, _NOT_FOUND if absent else _CANNOT_EXECUTE) from None
    stop = threading.Event()
    with contextlib.ExitStack() as stack:
        if command.terminal is not None:
            stack.enter_context(_raw_terminal())
            stack.enter_context(_following_size(sandbox, pid))
        if command.terminal is not None or command.stdin:
            _start_input(sandbox, pid, stop, terminal=command.terminal is not None)
        try:
            return _print(events)
        except KeyboardInterrupt:
            sandbox.signal(pid, signal.SIGTERM)
            raise
        except SandboxError as error:
            if error.code != "deadline_exceeded" or command.timeout is None:
                raise
            raise CommandError(f"the command was ended after {command.timeout:g} s") from None
        finally:
            stop.set()


def follow(sandbox: Sandbox, pid: int | None) -> int:
    """Print the recent output of a process and what follows, until it ends; by default of the only process."""
    if pid is None:
        processes = sandbox.processes()
        if len(processes) != 1:
            rows = "".join(f"  --pid {row.pid}  {' '.join(row.command)}\n" for row in processes)
            raise CommandError(f"choose one of {len(processes)} processes\n{rows}".rstrip())
        pid = processes[0].pid
    return _print(sandbox.attach(pid))


def terminal_size() -> Size:
    """Return the size of this terminal."""
    columns, rows = shutil.get_terminal_size()
    return Size(columns, rows)


def _pid(event: Event) -> int:
    if not isinstance(event, Started):
        raise CommandError("the sandbox did not start the command")
    return event.pid


def _print(events: Iterator[Event]) -> int:
    """Write output to this process's own, and return the exit code at the end."""
    for event in events:
        match event:
            case Output("stderr", data):
                sys.stderr.buffer.write(data)
                sys.stderr.buffer.flush()
            case Output(_, data):
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()
            case Ended(code, status):
                return code if code >= 0 else _SIGNALLED + _signal_number(status)
            case Started():
                continue
    raise CommandError("the connection to the sandbox ended before the command")


def _signal_number(status: str) -> int:
    """Return the number of the signal in a status such as `signal: killed`."""
    name = status.rpartition(" ")[2]
    known: Mapping[str, signal.Signals] = {
        "killed": signal.SIGKILL,
        "terminated": signal.SIGTERM,
        "interrupt": signal.SIGINT,
        "hangup": signal.SIGHUP,
    }
    return known.get(name, signal.SIGKILL)


def _start_input(sandbox: Sandbox, pid: int, stop: threading.Event, *, terminal: bool) -> None:
    """Pass this process's input on in the background; the thread ends with the process."""

    def pass_on() -> None:
        # The command may end before its input does.
        with contextlib.suppress(Exception):
            while data := os.read(sys.stdin.fileno(), _READ_BYTES):
                if stop.is_set():
                    return
                sandbox.send_input(pid, data, terminal=terminal)
            if not terminal:
                sandbox.close_input(pid)

    threading.Thread(target=pass_on, name="input", daemon=True).start()


@contextmanager
def _raw_terminal() -> Iterator[None]:
    """Let every key reach the sandbox, Ctrl-C included; the terminal is as before at the end."""
    if not sys.stdin.isatty():
        yield
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setraw(descriptor, termios.TCSADRAIN)  # what was typed meanwhile is not dropped
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


@contextmanager
def _following_size(sandbox: Sandbox, pid: int) -> Iterator[None]:
    """Resize the terminal in the sandbox with this one."""

    def resize(_: int, __: FrameType | None) -> None:
        with contextlib.suppress(Exception):  # the process may have ended
            sandbox.resize(pid, terminal_size())

    before = signal.signal(signal.SIGWINCH, resize)
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)
