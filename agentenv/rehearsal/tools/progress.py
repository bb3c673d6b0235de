"""Says what is being done while somebody waits: on a terminal as a bar that moves, elsewhere as a line now and then.

Whatever takes long is handed a `Progress` and knows nothing of terminals. Everything goes to standard error, so that
standard output stays what the command is asked for.
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
    """One long piece of work that is under way."""

    def doing(self, what: str) -> None:
        """Name what is being worked on at the moment."""
        ...

    def reached(self, done: float, total: float) -> None:
        """Tell how far it is."""
        ...

    def beat(self) -> None:
        """Tell that it is still under way, where there is nothing new to say."""
        ...


class Progress(Protocol):
    """Where news for the person who waits goes."""

    def note(self, line: str) -> None:
        """A line that stays."""
        ...

    def task(self, title: str, minutes: float) -> AbstractContextManager[Task]:
        """Announce work of about so many minutes; the title says what it is."""
        ...


class Silent:
    """A Progress that says nothing."""

    def note(self, line: str) -> None:
        """Say nothing."""

    @contextlib.contextmanager
    def task(self, title: str, minutes: float) -> Iterator[Task]:  # noqa: ARG002 - the protocol's names
        """Say nothing."""
        yield _SilentTask()


class _SilentTask:
    def doing(self, what: str) -> None:
        pass

    def reached(self, done: float, total: float) -> None:
        pass

    def beat(self) -> None:
        pass


class Lines:
    """A Progress for logs: a line when work begins and ends, and one every twenty seconds in between."""

    def __init__(
        self, stream: TextIO, clock: Callable[[], float] = time.monotonic, every: float = QUIET_SECONDS
    ) -> None:
        self._stream, self._clock, self._every = stream, clock, every

    def note(self, line: str) -> None:
        """Write the line."""
        # A log that nobody reads any more must not end the work that it tells of.
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._stream.write(f"{line}\n")
            self._stream.flush()

    @contextlib.contextmanager
    def task(self, title: str, minutes: float) -> Iterator[Task]:
        """Write a line at the start, now and then, and at the end."""
        started = self._clock()
        self.note(f"{title} (about {span(minutes * 60)})")
        yield _LineTask(self, title, self._clock, self._every)
        self.note(f"{title}: done after {span(self._clock() - started)}")


class _LineTask:
    def __init__(self, lines: Lines, title: str, clock: Callable[[], float], every: float) -> None:
        self._lines, self._title, self._clock, self._every = lines, title, clock, every
        self._started = self._said = clock()
        self._what, self._share = "", ""

    def doing(self, what: str) -> None:
        self._what = what
        self._say()

    def reached(self, done: float, total: float) -> None:
        self._share = f"{100 * done / total:.0f}%" if total else ""
        self._say()

    def beat(self) -> None:
        self._say()

    def _say(self) -> None:
        now = self._clock()
        if now - self._said < self._every:
            return
        self._said = now
        parts = [part for part in (self._share, span(now - self._started), self._what) if part]
        self._lines.note(f"{self._title}: {', '.join(parts)}")


class Terminal:
    """A Progress for people: a bar with what is done, how long it has taken and about how long it takes."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console

        self._console = Console(file=stream)

    def note(self, line: str) -> None:
        """Print the line above whatever is moving."""
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


def telling(stream: TextIO | None = None) -> Progress:
    """The Progress that suits where the news goes: standard error unless told otherwise."""
    to = stream or sys.stderr
    return Terminal(to) if to.isatty() else Lines(to)


def span(seconds: float) -> str:
    """A length of time in words that a person would use."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min" + (f" {rest} s" if rest and minutes < 3 else "")
