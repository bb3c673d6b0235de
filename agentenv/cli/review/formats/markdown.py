"""Write the review as a Markdown comment: the verdict first, details folded, and within the size limit of a comment.

If it is too long, the longest list is cut first, and each list shows how much was cut. Everything from the program is
escaped or in code spans, because it can contain any text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from agentenv.cli.review.changes import SURENESS
from agentenv.cli.review.findings import ReviewFinding, severity_counts
from agentenv.cli.review.formats import sentences
from agentenv.cli.review.formats.report import Report
from agentenv.cli.terminal_text import plural

MAX_BYTES = 65_536  # GitHub's limit for the characters of a comment; there are never fewer bytes than characters
_MARKUP = re.compile(r"([\\`*_{}\[\]<>|#~@!])")
# GitHub finds mentions and issues in the rendered text, where escapes have no effect; a zero-width space prevents that
_ZERO_WIDTH = "&#8203;"
_MAX_TEXT = 1_000  # characters of one name or sentence


@dataclass(frozen=True)
class Section:
    """A section with a heading and rows, of which the first `least` are never cut."""

    title: str
    rows: Sequence[str]
    head: Sequence[str] = ()  # the two lines of a table head, or a sentence
    foot: Sequence[str] = ()
    ends: bool = False  # the last rows matter most, so the first are cut
    folded: bool = False
    shown: int | None = None
    least: int = 3

    def text(self) -> str:
        """Return the section as Markdown."""
        count = len(self.rows) if self.shown is None else self.shown
        rows = self.rows[len(self.rows) - count :] if self.ends else self.rows[:count]
        lines = [*self.head, *rows, *self.foot]
        if (cut := len(self.rows) - len(rows)) > 0:
            more = f"{cut} before these" if self.ends else f"and {cut} more"
            lines += ["", f"_… {more}, cut to fit: `agentenv review --format json` has them all._"]
        body = "\n".join(lines)
        if self.folded:
            return f"<details><summary>{self.title}</summary>\n\n{body}\n\n</details>\n"
        return f"#### {self.title}\n\n{body}\n"


@dataclass
class _Page:
    head: str
    sections: list[Section] = field(default_factory=list)

    def text(self) -> str:
        cut = [section for section in self.sections if section.shown is not None]
        titles = ", ".join(_strip_tags(section.title) for section in cut)
        note = [f"> Cut to fit a comment: {titles}.\n"] if cut else []
        return "\n".join([self.head, *note, *(section.text() for section in self.sections)])


def marker(stack: str) -> str:
    """Return the first line of a comment, by which the next review of the stack finds and replaces it."""
    return f"<!-- agentenv-review:{re.sub(r'[^A-Za-z0-9_-]', '-', stack)} -->"


def as_markdown(report: Report, limit: int = MAX_BYTES) -> str:
    """Return the review in at most `limit` bytes."""
    page = _Page(_head(report), [section for make in _SECTIONS for section in make(report)])
    while len(page.text().encode()) > limit:
        sizes = [
            (len("\n".join(section.rows[: section.shown]).encode()), index)
            for index, section in enumerate(page.sections)
            if (section.shown if section.shown is not None else len(section.rows)) > section.least
        ]
        if not sizes:
            break
        _, index = max(sizes)
        section = page.sections[index]
        shown = section.shown if section.shown is not None else len(section.rows)
        page.sections[index] = replace(section, shown=max(section.least, shown * 3 // 4))
    text = page.text()
    if len(text.encode()) <= limit:
        return text
    end = "\n\n_Cut to fit a comment: `agentenv review --format json` has the rest._\n"
    # A cut inside a row, a fold or a fence would break the text after it, so whole lines are cut
    size = limit - len(end.encode()) - len("\n```\n</details>")
    first = text.encode()[:size].decode(errors="ignore").rpartition("\n")[0]
    fence = "\n```" if first.count("```") % 2 else ""
    return first + fence + ("\n</details>" if first.count("<details>") > first.count("</details>") else "") + end


def code(text: str) -> str:
    """Return a name as a code span, without links, mentions or markup."""
    clean = _line(text).replace("`", "'").replace("|", "¦")
    return f"`{clean}`" if clean else ""


def plain(text: str) -> str:
    """Escape a text: its markup has no effect, and it mentions no people and no issues."""
    escaped = _MARKUP.sub(r"\\\1", _line(text)).replace("\\<", "&lt;").replace("\\>", "&gt;")
    escaped = escaped.replace("\\@", f"@{_ZERO_WIDTH}").replace("\\#", f"\\#{_ZERO_WIDTH}")
    return re.sub(r"\b(GH-)(?=\d)", rf"\1{_ZERO_WIDTH}", escaped, flags=re.IGNORECASE)


def _line(text: str) -> str:
    return _cut(" ".join(text.split()))


def _cut(line: str) -> str:
    """Shorten a line."""
    return line if len(line) <= _MAX_TEXT else f"{line[: _MAX_TEXT - 1]}…"


def _strip_tags(title: str) -> str:
    return re.sub(r"<[^>]*>", "", title)


def _head(report: Report) -> str:
    blocked = report.blocking
    lines = [marker(report.comparison.stack), f"### Review of {code(report.comparison.stack)}", ""]
    if blocked:
        lines += ["> [!CAUTION]", "> **Blocked**", *(f"> - {plain(reason)}" for reason in blocked)]
    else:
        lines += ["> [!NOTE]", "> Nothing blocks this change."]
    comparison = report.comparison
    how = "offline, with the rehearsal's stand-ins" if comparison.offline else "by the engine"
    figures = (sentences.figures(report.changes), sentences.finding_counts(report))
    commit = f"{code(comparison.commit)} compared" if comparison.commit else "Compared"
    lines += [
        "",
        "| changes | findings | cost |",
        "|---|---|---|",
        f"| {' | '.join(figures)} | {plain(sentences.cost_line(report.costs))} |",
        "",
        f"{commit} with {code(comparison.base)}, {how}.",
        "",
    ]
    return "\n".join(lines)


def _failure(report: Report) -> list[Section]:
    if not report.failure:
        return []
    rows = [_cut(line.replace("```", "'''")) for line in report.failure.splitlines()]
    # The error is in the last lines
    return [Section("The program cannot be previewed", rows, ["```text"], ["```"], ends=True, least=12)]


def _refused(report: Report) -> list[Section]:
    return [Section("Refused", [f"- {plain(line)}" for line in report.refused])] if report.refused else []


def _losses(report: Report) -> list[Section]:
    if not report.losses:
        return []
    rows = [
        f"- **{loss.change.operation}** {code(loss.change.name)} ({sentences.short_type(loss.change.type)}): "
        f"{plain(sentences.loss_line(loss))}\n  {code(loss.change.urn)}"
        for loss in report.losses
    ]
    head = ["Allow each loss in `policies/allowed_losses.yaml`, by URN and with an expiry.", ""]
    return [Section("Data at risk", rows, head if any(loss.blocks for loss in report.losses) else (), least=10)]


def _unguarded(report: Report) -> list[Section]:
    rows = [f"- {code(urn)}" for urn in report.unprotected]
    return [Section("No longer protected: a later change could delete these", rows)] if rows else []


def _findings(report: Report) -> list[Section]:
    urgent = [finding for finding in report.findings if finding.blocks or finding.state == "new"]
    sections = [Section("Findings", _rules(urgent), least=12)] if urgent else []
    for state, title in (
        ("existing", "Existing before this change"),
        ("waived", "Waived"),
        ("fixed", "Fixed by this change"),
    ):
        rest = [finding for finding in report.of_state(state) if finding not in urgent]
        if rest:
            sections.append(Section(f"{title}: {severity_counts(rest)}", _rules(rest), folded=True))
    return sections


def _rules(findings: Sequence[ReviewFinding]) -> list[str]:
    """Return a row for each rule with its remedy, and a row for each of its findings."""
    rows: list[str] = []
    for first, group in sentences.group_by_rule(findings):
        title = plain(first.title or first.finding.message)
        rows.append(f"- **[{plain(first.finding.rule)}]({first.link})** {sentences.labels(first)}: {title}")
        if first.fix and first.state != "fixed":
            rows.append(f"  **Fix:** {plain(first.fix)}")
        rows += [f"  - {_finding_row(row)}" for row in group]
    return rows


def _finding_row(row: ReviewFinding) -> str:
    finding = row.finding
    unknown = " (not known yet)" if finding.verdict.value == "indeterminate" else ""
    path = f" {code(finding.path)}" if finding.path else ""
    location = f", {code(str(row.locations[0]))}" if row.locations and row.state != "fixed" else ""
    waiver = f" {plain(row.waiver.summary)}." if row.waiver else ""
    message = f": {plain(sentences.message(row))}" if sentences.message(row) else ""
    return f"{code(row.name)}{path}{location}{unknown}{message}{'.' if waiver and message else ''}{waiver}"


def _changes(report: Report) -> list[Section]:
    if not report.changes:
        return []
    rows: list[str] = []
    for component, changes in sentences.grouped(report.changes).items():
        rows += ["", f"**{plain(component)}**: {sentences.figures(changes)}", ""]
        for change, names in sentences.grouped_rows(changes, report.values):
            sureness = f" _{SURENESS[change.sureness]}_" if SURENESS[change.sureness] else ""
            text = ", ".join(name if name.startswith("…") else code(name) for name in names)
            rows.append(f"- {change.operation} {sentences.short_type(change.type)} {text}{sureness}")
            rows += [f"  - {_value(*value)}" for value in report.values.get(change.urn, ())]
    return [Section(f"Every change: {sentences.figures(report.changes)}", rows, folded=True)]


def _value(path: str, before: str, after: str) -> str:
    return f"{code(path)}: {code(before)} → {code(after)}" if before or after else code(path)


def _capabilities(report: Report) -> list[Section]:
    rows: list[str] = []
    for change in report.capabilities:
        rows += [f"- {code(change.name)} **gains** {plain(gained)}" for gained in change.gained]
        rows += [f"- {code(change.name)} **loses** {plain(lost)}" for lost in change.lost]
    return [Section("Capabilities of sandboxes", rows)] if rows else []


def _quotas(report: Report) -> list[Section]:
    shown = [need for need in report.needs if need.changed or need.ok is False]
    if not shown:
        return []
    rows = [
        f"| {plain(need.name.removeprefix('quota: '))} | {_amount(need.before)} | {_amount(need.after)} | "
        f"{'unknown' if need.ok is None else need.limit} | {'**too few**' if need.ok is False else ''} |"
        for need in shown
    ]
    head = ["| quota | before | after | limit | |", "|---|---|---|---|---|"]
    short = any(need.ok is False for need in shown)
    return [Section(f"Quotas: {plural(len(shown), 'need')} changed", rows, head, folded=not short)]


def _amount(amount: int | None) -> str:
    return "none" if amount is None else str(amount)


def _costs(report: Report) -> list[Section]:
    costs = report.costs
    if costs.after is None:
        return []
    before = costs.before or Decimal(0)
    rows = [f"| {plain(part)} | {then:.2f} | {now:.2f} | {now - then:+.2f} |" for part, then, now in costs.parts] or [
        "| no change | | | |"
    ]
    head = [
        plain(sentences.cost_basis(costs)),
        "",
        "| dollars a month | before | after | change |",
        "|---|---:|---:|---:|",
        f"| **total** | **{before:.2f}** | **{costs.after:.2f}** | **{costs.after - before:+.2f}** |",
    ]
    return [Section(f"Cost: {sentences.cost_line(costs)}", rows, head, folded=not costs.parts)]


def _drift(report: Report) -> list[Section]:
    if report.drift is None:
        return []
    rows = [
        f"- {change.operation} {code(change.name)} ({sentences.short_type(change.type)})" for change in report.drift
    ]
    return [Section("Drift since the last update", rows or ["None."], folded=not rows)]


def _notes(report: Report) -> list[Section]:
    return (
        [Section("Limits of this review", [f"- {plain(note)}" for note in report.notes], folded=True)]
        if report.notes
        else []
    )


_SECTIONS: tuple[Callable[[Report], list[Section]], ...] = (
    _failure,
    _refused,
    _losses,
    _findings,
    _capabilities,
    _unguarded,
    _drift,
    _costs,
    _quotas,
    _changes,
    _notes,
)
