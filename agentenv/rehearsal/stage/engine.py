"""Run the Pulumi engine, and read the result of each operation from its event log.

The command line is called directly rather than through the Automation API, which adds three or four calls to each
update. The event log is the engine's own record, the same that the API reads.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

_QUIET = ("--non-interactive", "--color", "never")
_UNCHANGED = frozenset({"same", "read", "refresh"})
_POLL_SECONDS = 0.15
_MINIMUM_DISK_SPACE = 2**20  # bytes; with less the engine cannot write its log, and blocks forever

Event = dict[str, Any]


class EngineError(Exception):
    """The engine ended with an error; the message is its output."""

    def __init__(self, call: str, code: int, output: str) -> None:
        super().__init__(f"pulumi {call} ended with {code}\n{output}".rstrip())
        self.call = call
        self.code = code
        self.output = output


@dataclass(frozen=True)
class Outcome:
    """The result of one update, preview, refresh or destroy, read from its event log."""

    call: str
    code: int
    seconds: float
    changes: dict[str, int]
    steps: list[Event]
    diagnostics: list[str]
    output: str = field(repr=False)

    @property
    def changed(self) -> int:
        """Return the number of resources that were changed."""
        return sum(count for operation, count in self.changes.items() if operation not in _UNCHANGED)

    @property
    def resources(self) -> int:
        """Return the number of resources in the update, the stack and its components included."""
        return sum(self.changes.values())

    def changed_resources(self) -> list[tuple[str, str, list[str]]]:
        """Return (operation, URN, properties) of every changed resource."""
        return [
            (step["op"], step["urn"], sorted(step.get("detailedDiff") or step.get("diffs") or ()))
            for step in self.steps
            if step["op"] not in _UNCHANGED
        ]


@dataclass(frozen=True)
class Engine:
    """One stack of one project, with everything that its calls need."""

    pulumi: Path
    project: Path
    stack: str
    environment: Mapping[str, str]
    logs: Path
    on_step: Callable[[str, Event], None] | None = None
    until: float | None = None  # of `time.time()`: an operation that still runs then is interrupted, as by Ctrl-C

    def init(self) -> None:
        """Create the stack in the run's own state folder."""
        self.call("stack", "init", "--stack", self.stack)

    def preview(self, *options: str, check: bool = True) -> Outcome:
        """Preview an update."""
        return self.operate("preview", *options, check=check)

    def up(self, *options: str, check: bool = True) -> Outcome:
        """Update without the preview that an interactive update begins with."""
        return self.operate("up", "--yes", "--skip-preview", *options, check=check)

    def refresh(self, *options: str, check: bool = True) -> Outcome:
        """Update the state from the actual resources."""
        return self.operate("refresh", "--yes", "--skip-preview", *options, check=check)

    def destroy(self, *options: str, check: bool = True) -> Outcome:
        """Delete everything in the state."""
        return self.operate("destroy", "--yes", "--skip-preview", *options, check=check)

    def destroy_with_preview(self) -> Outcome:
        """Destroy with a preview, as interactive users do: it stops at protected resources before deleting others."""
        return self.operate("destroy", "--yes", check=False)

    def unprotect(self) -> None:
        """Remove the protection of everything in the state."""
        self.call("state", "unprotect", "--all", "--yes", "--stack", self.stack)

    def outputs(self) -> dict[str, Any]:
        """Return the stack's outputs without secrets."""
        return json.loads(self.call("stack", "output", "--json", "--stack", self.stack))

    def state(self) -> list[dict[str, Any]]:
        """Return the resources in the state."""
        return json.loads(self.call("stack", "export", "--stack", self.stack))["deployment"].get("resources") or []

    def call(self, *arguments: str) -> str:
        """Run the command line and return its output, or raise `EngineError`."""
        completed = subprocess.run(
            [str(self.pulumi), *arguments, *_QUIET],
            cwd=self.project,
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if completed.returncode:
            raise EngineError(" ".join(arguments[:2]), completed.returncode, completed.stderr or completed.stdout)
        return completed.stdout

    def operate(self, verb: str, *options: str, check: bool = True) -> Outcome:
        """Run one operation with its event log; with `check`, a failure raises `EngineError`."""
        name = f"{len(list(self.logs.glob('*.events'))):02}-{verb}"
        events = self.logs / f"{name}.events"
        output = self.logs / f"{name}.log"
        arguments = [str(self.pulumi), verb, "--stack", self.stack, *_QUIET, "--event-log", str(events), *options]
        began = time.monotonic()
        with output.open("wb") as sink:
            code = self._run(arguments, sink, verb, events)
        outcome = _outcome(verb, code, time.monotonic() - began, _read(events), output.read_text(errors="replace"))
        if check and code:
            raise EngineError(verb, code, "\n".join(outcome.diagnostics) or _last_lines(outcome.output))
        return outcome

    def _run(self, arguments: Sequence[str], sink: IO[bytes], verb: str, events: Path) -> int:
        finished = threading.Event()
        follower = threading.Thread(target=self._follow, args=(verb, events, finished), daemon=True)
        process: subprocess.Popen[bytes] | None = None
        try:
            # An interruption of the start itself would leave an engine that nobody waits for, with the stack's lock
            with delayed_interruptions():
                process = subprocess.Popen(
                    arguments,
                    cwd=self.project,
                    env={**self.environment, "PULUMI_DEBUG_COMMANDS": "true"},
                    stdin=subprocess.DEVNULL,
                    stdout=sink,
                    stderr=subprocess.STDOUT,
                )
                follower.start()
            return self._wait(process, verb)
        except KeyboardInterrupt:
            # The engine received it too and now cancels: a second signal would make it abandon its state
            if process is not None:
                process.wait()
            raise
        finally:
            finished.set()
            if follower.ident is not None:
                follower.join()

    def _wait(self, process: subprocess.Popen[bytes], verb: str) -> int:
        interrupted = False
        while True:
            try:
                return process.wait(timeout=1)
            except subprocess.TimeoutExpired:
                if self.until is not None and time.time() > self.until and not interrupted:
                    process.send_signal(signal.SIGINT)
                    interrupted = True
                if shutil.disk_usage(self.logs).free < _MINIMUM_DISK_SPACE:
                    process.kill()
                    process.wait()
                    raise EngineError(
                        verb, process.returncode, f"the disk is full: no space left in {self.logs}"
                    ) from None

    def _follow(self, verb: str, events: Path, finished: threading.Event) -> None:
        if self.on_step is None:
            return
        position = 0
        while not finished.wait(_POLL_SECONDS):
            if not events.exists():
                continue
            with events.open("rb") as log:
                log.seek(position)
                for line in log:
                    if not line.endswith(b"\n"):
                        break
                    position += len(line)
                    self.on_step(verb, json.loads(line))


@contextmanager
def delayed_interruptions() -> Iterator[None]:
    """Handle SIGINT and SIGTERM that arrive in the block at its end; signals are handled in the main thread alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    before = {
        number: signal.signal(number, lambda received, _: arrived.append(received))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in dict.fromkeys(arrived):
            signal.raise_signal(number)


def _read(events: Path) -> list[Event]:
    if not events.exists():
        return []
    with events.open(encoding="utf-8") as log:
        return [json.loads(line) for line in log if line.endswith("\n")]


def _outcome(verb: str, code: int, seconds: float, events: Sequence[Event], output: str) -> Outcome:
    changes: Counter[str] = Counter()
    steps: list[Event] = []
    diagnostics: list[str] = []
    for event in events:
        if summary := event.get("summaryEvent"):
            changes.update(summary.get("resourceChanges") or {})
        elif finished := event.get("resOutputsEvent") or event.get("resOpFailedEvent"):
            # Not resourcePreEvent: before a refresh it does not know the result yet
            steps.append(finished["metadata"])
        elif (details := event.get("diagnosticEvent")) and details.get("severity") == "error":
            diagnostics.append(details["message"].strip())
        elif (details := event.get("policyEvent")) and details.get("enforcementLevel") == "mandatory":
            name = details.get("resourceUrn", "").rpartition("::")[2]
            diagnostics.append(f"{details['policyName']} {name}: {details['message'].strip()}")
    return Outcome(verb, code, seconds, dict(changes), steps, diagnostics, output)


def _last_lines(text: str, count: int = 20) -> str:
    return os.linesep.join(text.strip().splitlines()[-count:])
