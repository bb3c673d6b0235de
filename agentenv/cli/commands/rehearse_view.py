"""Show a rehearsal to the user: a line for each step, the engine's progress, and a summary.

Everything goes to standard error, so that standard output has the report alone.
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.status import Status
from rich.text import Text

from agentenv.rehearsal.stage.stage import StageError
from agentenv.rehearsal.tools.progress import Progress, terminal_progress

if TYPE_CHECKING:
    from agentenv.rehearsal.scenario.scenario import Report
    from agentenv.rehearsal.stage.engine import Event
    from agentenv.rehearsal.stage.stage import Stage

_NAME_WIDTH = 16
_LONG_LINES = 40


class View:
    """Prints the steps of a scenario and the engine's events."""

    def __init__(self, *, to_terminal: bool) -> None:
        self.tools: Progress = terminal_progress(sys.stderr)
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._status: Status | None = Status("", console=self._console) if to_terminal else None
        self._step = ""
        self._began = time.monotonic()
        self._seen = 0

    def __enter__(self) -> View:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status:
            self._status.stop()
        if kind is KeyboardInterrupt:
            self._console.print("all processes have ended")

    def opened(self, stack: str, opened: Stage) -> None:
        """Show that the stage is open."""
        self._line("stage", opened.seconds, f"stack '{stack}' against a simulated AWS at {opened.cloud}")

    def started(self, step: str) -> None:
        """Show that a step has started."""
        self._step, self._began, self._seen = step, time.monotonic(), 0
        if self._status:
            self._status.update(step)
            self._status.start()

    def finished(self, step: str, seconds: float, result: str) -> None:
        """Show that a step has succeeded."""
        if self._status:
            self._status.stop()
        self._line(step, seconds, result)

    def event(self, verb: str, event: Event) -> None:
        """Update the progress line with an event of the engine."""
        done = event.get("resOutputsEvent")
        if self._status is None or not done:
            return
        self._seen += 1
        metadata: dict[str, Any] = done["metadata"]
        name = metadata["urn"].rsplit("::", 1)[-1]
        text = f"{self._step}: {self._seen} resources, {time.monotonic() - self._began:.0f} s, {verb} {name}"
        self._status.update(Text(text))

    def failed(self, message: str, opened: Stage) -> None:
        """Show that a step has failed, and the operations that the simulated AWS does not have."""
        if self._status:
            self._status.stop()
        lines = message.splitlines()
        shown = (
            lines
            if len(lines) <= _LONG_LINES
            else [*lines[:_LONG_LINES], f"… and {len(lines) - _LONG_LINES} more lines"]
        )
        self._console.print(Text(f"\n{self._step or 'rehearsal'} failed: " + "\n".join(shown), style="red"))
        unknown: list[str] = []
        with suppress(StageError):  # a cloud that has stopped has been reported already
            unknown = opened.query("unknown")
        if unknown:
            self._console.print(f"operations that the simulated AWS does not have: {', '.join(unknown)}")

    def summary(self, report: Report) -> None:
        """Print the figures of the rehearsal."""
        self._console.print()
        self._console.print(f"{report.resources} resources created in {report.up_seconds:.1f} s")
        self._console.print(f"second update: {report.second_up_changes} changes")
        policy = report.policy
        self._console.print(
            f"rules: {policy['passed']} passed, {policy['failed']} failed, {policy['indeterminate']} indeterminate,"
            f" {policy['waived']} waived"
        )
        for row in report.policy_findings:
            name = row["urn"].rsplit("::", 1)[-1]
            self._console.print(Text(f"  {row['severity']} {row['id']} {row['verdict']}: {name}: {row['message']}"))
        for pool in report.pools:
            self._console.print(f"pool {pool['class']}: {pool['ready']} of {pool['size']} sandboxes Ready")
        if report.new_workspace_ms is not None:
            self._console.print(f"new workspace: {report.new_workspace_ms:.0f} ms")
        if report.first_command_ms is not None:
            self._console.print(f"first command in it: {report.first_command_ms:.0f} ms")
        if report.wake_ms is not None:
            self._console.print(f"request that wakes it, by its host: {report.wake_ms:.0f} ms")
        if report.gateway_added_ms is not None:
            self._console.print(f"added to a request by the gateway: {report.gateway_added_ms:.1f} ms")
        if report.drift:
            drift = report.drift
            self._console.print(
                f"drift: {drift['made']} manual changes, {drift['noticed']} detected, {drift['mended']} repaired"
            )
        if report.left_after_destroy is not None:
            retained = f", and {len(report.retained)} retained" if report.retained else ""
            self._console.print(f"left after destroy: {report.left_after_destroy}{retained}")
        if report.not_simulated:
            self._console.print(f"stored, not simulated: {', '.join(report.not_simulated)}")

    def _line(self, step: str, seconds: float, result: str) -> None:
        self._console.print(Text(f"{step:<{_NAME_WIDTH}} {seconds:5.1f} s  {result}"))
