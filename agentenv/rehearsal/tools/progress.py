"""Report progress to the user: a moving bar on a terminal, otherwise a line now and then.

Long operations take a `Progress` and know nothing of terminals. Everything goes to standard error, so that standard
output has only the command's result.
"""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from rich.progress import Progress as RichProgress

QUIET_SECONDS = 20.0  # between two lines where there is no terminal


class Task(Protocol):
    """One long operation in progress."""

    def doing(self, what: str) -> None:
        """Name the current item."""
        ...

    def reached(self, done: float, total: float) -> None:
        """Report how far it is."""
        ...

    def beat(self) -> None:
        """Report that it is still running, without news."""
        ...


class Progress(Protocol):
    """Receives news for the user."""

    def note(self, line: str) -> None:
        """Print a permanent line."""
        ...

    def task(self, title: str, minutes: float) -> AbstractContextManager[Task]:
        """Start an operation of about so many minutes."""
        ...


class Silent:
    """A Progress that prints nothing."""

    def note(self, line: str) -> None:
        """Print nothing."""

    @contextlib.contextmanager
    def task(self, title: str, minutes: float) -> Iterator[Task]:  # noqa: ARG002 - the protocol's names
        """Print nothing."""
        yield _SilentTask()


class _SilentTask:
    def doing(self, what: str) -> None:
        pass

    def reached(self, done: float, total: float) -> None:
        pass

    def beat(self) -> None:
        pass


class Lines:
    """A Progress for logs: a line at the start and end of an operation, and one every twenty seconds."""

    def __init__(
        self, stream: TextIO, clock: Callable[[], float] = time.monotonic, every: float = QUIET_SECONDS
    ) -> None:
        self._stream, self._clock, self._every = stream, clock, every

    def note(self, line: str) -> None:
        """Write the line."""
        # A log without a reader must not end the operation.
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._stream.write(f"{line}\n")
            self._stream.flush()

    @contextlib.contextmanager
    def task(self, title: str, minutes: float) -> Iterator[Task]:
        """Write a line at the start, at intervals, and at the end."""
        started = self._clock()
        self.note(f"{title} (about {span(minutes * 60)})")
        yield _LineTask(self, title, self._clock, self._every)
        self.note(f"{title}: done after {span(self._clock() - started)}")


class _LineTask:
    def __init__(self, lines: Lines, title: str, clock: Callable[[], float], every: float) -> None:
        self._lines, self._title, self._clock, self._every = lines, title, clock, every
        self._started = self._written_at = clock()
        self._what, self._share = "", ""

    def doing(self, what: str) -> None:
        self._what = what
        self._write()

    def reached(self, done: float, total: float) -> None:
        self._share = f"{100 * done / total:.0f}%" if total else ""
        self._write()

    def beat(self) -> None:
        self._write()

    def _write(self) -> None:
        now = self._clock()
        if now - self._written_at < self._every:
            return
        self._written_at = now
        parts = [part for part in (self._share, span(now - self._started), self._what) if part]
        self._lines.note(f"{self._title}: {', '.join(parts)}")


class Terminal:
    """A Progress for terminals: a bar with the progress, the elapsed and the expected time."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console

        self._console = Console(file=stream)

    def note(self, line: str) -> None:
        """Print the line above the moving bars."""
        self._console.print(line, markup=False, highlight=False)

    @contextlib.contextmanager
    def task(self, title: str, minutes: float) -> Iterator[Task]:
        """Show a bar until the work ends."""
        from rich.markup import escape
        from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            TextColumn(f"of about {span(minutes * 60)}  [dim]{{task.fields[what]}}[/dim]"),
        )
        with Bars(*columns, console=self._console, transient=True) as bars:
            yield _BarTask(bars, escape(title))
        self.note(f"{title}: done")


class _BarTask:
    def __init__(self, bars: RichProgress, title: str) -> None:
        self._bars = bars
        self._task = bars.add_task(title, total=None, what="")

    def doing(self, what: str) -> None:
        from rich.markup import escape

        self._bars.update(self._task, what=escape(what[-60:]))

    def reached(self, done: float, total: float) -> None:
        self._bars.update(self._task, completed=done, total=total or None)

    def beat(self) -> None:
        pass  # the bar's clock runs by itself


def terminal_progress(stream: TextIO | None = None) -> Progress:
    """Return the Progress for a stream: standard error by default."""
    output = stream or sys.stderr
    return Terminal(output) if output.isatty() else Lines(output)


def span(seconds: float) -> str:
    """Return a duration as a short text."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min" + (f" {rest} s" if rest and minutes < 3 else "")
