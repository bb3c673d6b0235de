"""Write the review on a terminal, in the same order as in Markdown, with colour if there is any."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TextIO

from rich.console import Console
from rich.text import Text

from agentenv.cli.review.changes import SURENESS
from agentenv.cli.review.findings import ReviewFinding, severity_counts
from agentenv.cli.review.formats import sentences
from agentenv.cli.review.formats.report import Report
from agentenv.cli.terminal_text import escape

_MAX_CHANGES = 40  # on a terminal
_COLOURS = {"create": "green", "update": "yellow", "replace": "magenta", "delete": "red"}
_SEVERITY = {"Critical": "bold red", "High": "red", "Medium": "yellow", "Low": "blue"}
_MAX_WIDTH = 120
_MIN_WIDTH = 30


def write(report: Report, stream: TextIO, width: int | None = None) -> None:
    """Write the whole review."""
    console = Console(file=stream, highlight=False)
    # Without a terminal lines are not wrapped, so that a pipe can search them
    console.width = width or (min(console.width, _MAX_WIDTH) if console.is_terminal else sys.maxsize)
    _Terminal(console).report(report)


class _Terminal:
    def __init__(self, console: Console) -> None:
        self._console = console

    def report(self, report: Report) -> None:
        self._line(f"Review of {sentences.title(report)}", "bold")
        self._line(sentences.verdict(report), "bold red" if report.blocking else "bold green")
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
            self._heading("Limits of this review")
            for note in report.notes:
                self._item(note)

    def _losses(self, report: Report) -> None:
        if not report.losses:
            return
        self._heading("Data at risk")
        for loss in report.losses:
            self._item(
                f"{loss.change.operation} {loss.change.name}: {sentences.loss_line(loss)}", "red" if loss.blocks else ""
            )
            self._line(f"      {loss.change.urn}", "dim")
        if any(loss.blocks for loss in report.losses):
            self._line("    allow each in policies/allowed_losses.yaml by URN and with an expiry, or do not change it")

    def _findings(self, report: Report) -> None:
        if not report.findings:
            self._heading("Findings: none")
            return
        self._heading(f"Findings: {sentences.finding_counts(report)}")
        urgent: Sequence[ReviewFinding] = [row for row in report.findings if row.blocks or row.state == "new"]
        for first, group in sentences.group_by_rule(urgent):
            finding = first.finding
            text = Text(f"  {finding.rule} ", style="bold")
            text.append(sentences.labels(first), style=_SEVERITY[finding.severity])
            text.append(escape(f": {first.title or finding.message}"))
            self._print(text, 4)
            for row in group:
                unknown = " (not known yet)" if row.finding.verdict.value == "indeterminate" else ""
                location = f"  {row.locations[0]}" if row.locations else ""
                self._item(f"{row.name} {row.finding.path}{unknown}{location}", indent=4)
                if sentences.message(row):
                    self._line(f"        {sentences.message(row)}", "dim")
            if first.fix:
                self._line(f"    fix: {first.fix}")
            self._line(f"    see {first.link}", "dim")
        for state in ("existing", "waived", "fixed"):
            rest = [row for row in report.of_state(state) if row not in urgent]
            if rest:
                rules = ", ".join(dict.fromkeys(row.finding.rule for row in rest))
                self._item(f"{state}: {severity_counts(rest)} ({rules})", indent=2)

    def _capabilities(self, report: Report) -> None:
        if not report.capabilities:
            return
        self._heading("Capabilities of sandboxes")
        for change in report.capabilities:
            for gained in change.gained:
                self._item(f"{change.name} gains {gained}", "yellow")
            for lost in change.lost:
                self._item(f"{change.name} loses {lost}")

    def _rest(self, report: Report) -> None:
        if report.unprotected:
            self._heading("No longer protected: a later change could delete these")
            for urn in report.unprotected:
                self._item(urn)
        if report.drift is not None:
            self._heading(f"Drift since the last update: {sentences.figures(report.drift)}")
            for change in report.drift:
                self._item(f"{change.operation} {change.name}")
        needs = [need for need in report.needs if need.changed or need.ok is False]
        if needs:
            self._heading("Quotas")
            for need in needs:
                limit = "" if need.ok is None else f" of {need.limit}{', too few' if not need.ok else ''}"
                before = "none" if need.before is None else need.before
                after = "none" if need.after is None else need.after
                self._item(f"{need.name.removeprefix('quota: ')}: {before} -> {after}{limit}")
        self._heading(f"Cost: {sentences.cost_line(report.costs)}")
        for part, then, now in report.costs.parts:
            self._item(f"{part}: {then:.2f} -> {now:.2f} ({now - then:+.2f})")
        if report.costs.after is not None:
            self._line(f"  {sentences.cost_basis(report.costs)}", "dim")

    def _changes(self, report: Report) -> None:
        self._heading(f"Changes: {sentences.figures(report.changes)}")
        left = _MAX_CHANGES
        for component, changes in sentences.grouped(report.changes).items():
            rows = sentences.grouped_rows(changes, report.values)
            self._line(f"  {component}: {sentences.figures(changes)}")
            for change, names in rows[: max(left, 0)]:
                sureness = f"  ({SURENESS[change.sureness]})" if SURENESS[change.sureness] else ""
                text = Text(f"    {sentences.MARKS[change.operation]} ", style=_COLOURS[change.operation])
                text.append(escape(f"{sentences.short_type(change.type)} {', '.join(names)}{sureness}"))
                self._print(text, 6)
                for path, before, after in report.values.get(change.urn, ()):
                    self._line(f"        {path}: {before} -> {after}" if before or after else f"        {path}", "dim")
            left -= len(rows)
        if left < 0:
            self._line(f"    … and {-left} more rows; --format json has them all")

    def _heading(self, text: str) -> None:
        self._console.print()
        self._line(text, "bold")

    def _item(self, text: str, style: str = "", indent: int = 2) -> None:
        self._line(f"{' ' * indent}- {text}", style)

    def _line(self, text: str, style: str = "") -> None:
        self._print(Text(escape(text), style=style), len(text) - len(text.lstrip(" -")))

    def _print(self, text: Text, indent: int) -> None:
        """Print a line, with wrapped parts indented. A word is never broken, so that it can be copied."""
        for number, line in enumerate(text.divide(_breaks(text.plain, self._console.width, indent))):
            line.rstrip()
            shown = line if number == 0 else Text(" " * indent).append_text(line)
            self._console.print(shown, soft_wrap=True)


def _breaks(text: str, width: int, indent: int) -> list[int]:
    """Return where a line is broken: after spaces, so that each indented part fits the width."""
    found: list[int] = []
    start, space, room = 0, 0, width
    for place, character in enumerate(text):
        if place - start >= room and space > start:
            found.append(space)
            start, room = space, max(width - indent, _MIN_WIDTH)
        if character == " " and place >= indent:
            space = place + 1
    return found
