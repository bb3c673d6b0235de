"""What a person sees of a rehearsal: a line a step, what the engine is at between them, and a summary.

It all goes to standard error, so that standard output carries the report alone.
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
from agentenv.rehearsal.tools.progress import Progress, telling

if TYPE_CHECKING:
    from agentenv.rehearsal.scenario.scenario import Report
    from agentenv.rehearsal.stage.engine import Event
    from agentenv.rehearsal.stage.stage import Stage

_NAME_WIDTH = 16
_LONG_LINES = 40


class View:
    """Listens to a course and to the engine's events, and tells of both."""

    def __init__(self, *, to_terminal: bool) -> None:
        self.tools: Progress = telling(sys.stderr)
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
            self._console.print("everything that was started has been ended")

    def opened(self, stack: str, opened: Stage) -> None:
        """The stage is open; what it took to build tools was told when they were built."""
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
        """Something the engine told of; the moving line shows how far it is."""
        done = event.get("resOutputsEvent")
        if self._status is None or not done:
            return
        self._seen += 1
        metadata: dict[str, Any] = done["metadata"]
        name = metadata["urn"].rsplit("::", 1)[-1]
        text = f"{self._step}: {self._seen} resources, {time.monotonic() - self._began:.0f} s, {verb} {name}"
        self._status.update(Text(text))

    def failed(self, words: str, opened: Stage) -> None:
        """A step has failed: what was said, and what the endpoint did not know."""
        if self._status:
            self._status.stop()
        lines = words.splitlines()
        shown = (
            lines
            if len(lines) <= _LONG_LINES
            else [*lines[:_LONG_LINES], f"… and {len(lines) - _LONG_LINES} lines more"]
        )
        self._console.print(Text(f"\n{self._step or 'rehearsal'} failed: " + "\n".join(shown), style="red"))
        unknown: list[str] = []
        with suppress(StageError):  # a cloud that does not answer any more has been told of already
            unknown = opened.query("unknown")
        if unknown:
            self._console.print(f"the simulated AWS was asked for what it does not know: {', '.join(unknown)}")

    def summary(self, report: Report) -> None:
        """The figures, and what was kept rather than simulated."""
        self._console.print()
        self._console.print(f"{report.resources} resources up in {report.up_seconds:.1f} s")
        self._console.print(f"second up: {report.second_up_changes} changes")
        policy = report.policy
        self._console.print(
            f"rules: {policy['passed']} passed, {policy['failed']} failed, {policy['indeterminate']} not to be told,"
            f" {policy['waived']} waived"
        )
        for pool in report.pools:
            self._console.print(f"pool {pool['class']}: {pool['ready']} of {pool['size']} sandboxes Ready")
        if report.new_workspace_ms is not None:
            self._console.print(f"a new workspace: {report.new_workspace_ms:.0f} ms")
        if report.drift:
            drift = report.drift
            self._console.print(
                f"changed by hand: {drift['made']}, noticed {drift['noticed']}, mended {drift['mended']}"
            )
        if report.left_after_destroy is not None:
            stays = f", and {len(report.retained)} on purpose" if report.retained else ""
            self._console.print(f"left after destroy: {report.left_after_destroy}{stays}")
        if report.not_simulated:
            self._console.print(f"kept, not simulated: {', '.join(report.not_simulated)}")

    def _line(self, what: str, seconds: float, result: str) -> None:
        self._console.print(Text(f"{what:<{_NAME_WIDTH}} {seconds:5.1f} s  {result}"))
