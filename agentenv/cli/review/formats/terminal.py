"""The review on a terminal: the same order as in Markdown, with colour where there is any."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TextIO

from rich.console import Console
from rich.text import Text

from agentenv.cli.review.findings import Judged
from agentenv.cli.review.formats import text as words
from agentenv.cli.review.formats.report import Report

_MOST_CHANGES = 40  # more than this nobody reads on a terminal
_COLOURS = {"create": "green", "update": "yellow", "replace": "magenta", "delete": "red"}
_SEVERITY = {"Critical": "bold red", "High": "red", "Medium": "yellow", "Low": "blue"}
_WIDEST = 120
_NARROWEST = 30


def write(report: Report, stream: TextIO, width: int | None = None) -> None:
    """Write it all."""
    console = Console(file=stream, highlight=False)
    # Where nobody looks a line is one line: a pipe may want to find things in it
    console.width = width or (min(console.width, _WIDEST) if console.is_terminal else sys.maxsize)
    _Terminal(console).report(report)


class _Terminal:
    def __init__(self, console: Console) -> None:
        self._console = console

    def report(self, report: Report) -> None:
        self._line(f"Review of {words.title(report)}", "bold")
        self._line(words.verdict(report), "bold red" if report.blocking else "bold green")
        if report.failure:
            self._heading("The program cannot be previewed")
            for line in report.failure.splitlines():
                self._line(f"  {line}")
        for line in report.refused:
            self._line(f"  refused: {line}", "red")
        self._losses(report)
        self._findings(report)
        self._capabilities(report)
        self._rest(report)
        self._changes(report)
        if report.notes:
            self._heading("How far to trust this")
            for note in report.notes:
                self._item(note)

    def _losses(self, report: Report) -> None:
        if not report.losses:
            return
        self._heading("Data at risk")
        for loss in report.losses:
            self._item(
                f"{loss.change.operation} {loss.change.name}: {words.loss_line(loss)}", "red" if loss.blocks else ""
            )
            self._line(f"      {loss.change.urn}", "dim")
        if any(loss.blocks for loss in report.losses):
            self._line("    allow each by URN and until a day in policies/allowed_losses.yaml, or leave it")

    def _findings(self, report: Report) -> None:
        if not report.findings:
            self._heading("Findings: none")
            return
        self._heading(f"Findings: {words.found(report)}")
        shown: Sequence[Judged] = [one for one in report.findings if one.blocks or one.state == "new"]
        for first, every in words.told_once(shown):
            found = first.finding
            text = Text(f"  {found.rule} ", style="bold")
            text.append(words.marks(first), style=_SEVERITY[found.severity])
            text.append(_clean(f": {first.title or found.message}"))
            self._print(text, 4)
            for one in every:
                unknown = " (not known yet)" if one.finding.verdict.value == "indeterminate" else ""
                spot = f"  {one.spots[0]}" if one.spots else ""
                self._item(f"{one.name} {one.finding.path}{unknown}{spot}", indent=4)
                if words.message(one):
                    self._line(f"        {words.message(one)}", "dim")
            if first.do:
                self._line(f"    do: {first.do}")
            self._line(f"    see {first.link}", "dim")
        for state in ("existing", "waived", "fixed"):
            rest = [one for one in report.of_state(state) if one not in shown]
            if rest:
                names = ", ".join(dict.fromkeys(one.finding.rule for one in rest))
                self._item(f"{state}: {words.worst(rest)} ({names})", indent=2)

    def _capabilities(self, report: Report) -> None:
        if not report.capabilities:
            return
        self._heading("What sandboxes may reach")
        for change in report.capabilities:
            for gained in change.gained:
                self._item(f"{change.name} gains {gained}", "yellow")
            for lost in change.lost:
                self._item(f"{change.name} loses {lost}")

    def _rest(self, report: Report) -> None:
        if report.unguarded:
            self._heading("No longer protected, so that a later change could take it")
            for urn in report.unguarded:
                self._item(urn)
        if report.drift is not None:
            self._heading(f"Changed by hand since the last update: {words.figures(report.drift)}")
            for change in report.drift:
                self._item(f"{change.operation} {change.name}")
        needs = [need for need in report.needs if need.changed or need.ok is False]
        if needs:
            self._heading("Quotas")
            for need in needs:
                limit = "" if need.ok is None else f" of {need.limit}{', too few' if not need.ok else ''}"
                before = "nothing" if need.before is None else need.before
                after = "nothing" if need.after is None else need.after
                self._item(f"{need.name.removeprefix('quota: ')}: {before} -> {after}{limit}")
        self._heading(f"Cost: {words.cost_line(report.costs)}")
        for part, then, now in report.costs.parts:
            self._item(f"{part}: {then:.2f} -> {now:.2f} ({now - then:+.2f})")
        if report.costs.after is not None:
            self._line(f"  {words.cost_basis(report.costs)}", "dim")

    def _changes(self, report: Report) -> None:
        self._heading(f"Changes: {words.figures(report.changes)}")
        left = _MOST_CHANGES
        for component, changes in words.grouped(report.changes).items():
            rows = words.runs(changes, report.values)
            self._line(f"  {component}: {words.figures(changes)}")
            for change, names in rows[: max(left, 0)]:
                sure = f"  ({words.sure(change)})" if words.sure(change) else ""
                text = Text(f"    {words.MARKS[change.operation]} ", style=_COLOURS[change.operation])
                text.append(_clean(f"{words.short_type(change.type)} {', '.join(names)}{sure}"))
                self._print(text, 6)
                for path, before, after in report.values.get(change.urn, ()):
                    self._line(f"        {path}: {before} -> {after}" if before or after else f"        {path}", "dim")
            left -= len(rows)
        if left < 0:
            self._line(f"    … and {-left} rows more; --format json has them all")

    def _heading(self, text: str) -> None:
        self._console.print()
        self._line(text, "bold")

    def _item(self, text: str, style: str = "", indent: int = 2) -> None:
        self._line(f"{' ' * indent}- {text}", style)

    def _line(self, text: str, style: str = "") -> None:
        self._print(Text(_clean(text), style=style), len(text) - len(text.lstrip(" -")))

    def _print(self, text: Text, indent: int) -> None:
        """A line, wrapped under its own beginning; what is one word stays one, so that it can be copied."""
        for number, line in enumerate(text.divide(_breaks(text.plain, self._console.width, indent))):
            line.rstrip()
            shown = line if number == 0 else Text(" " * indent).append_text(line)
            self._console.print(shown, soft_wrap=True)


def _breaks(text: str, width: int, indent: int) -> list[int]:
    """Where a line is broken: behind spaces, so that what follows fits under the beginning of its words."""
    found: list[int] = []
    start, space, room = 0, 0, width
    for place, character in enumerate(text):
        if place - start >= room and space > start:
            found.append(space)
            start, room = space, max(width - indent, _NARROWEST)
        if character == " " and place >= indent:
            space = place + 1
    return found


def _clean(text: str) -> str:
    """The text without characters that would steer a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
