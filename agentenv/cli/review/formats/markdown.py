"""The review as a comment: what decides on top, the rest folded, and never longer than a comment may be.

What does not fit is cut from the longest list first, and each list says how much of it was cut. Everything that comes
from the program is written as code or escaped: it may hold anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from agentenv.cli.review.findings import Judged
from agentenv.cli.review.formats import text as words
from agentenv.cli.review.formats.report import Report, counts

MOST = 65_536  # what GitHub takes in a comment; counted in bytes, which are never fewer than its characters
_ACTIVE = re.compile(r"([\\`*_{}\[\]<>|#~@!])")
# People and issues are looked for in the finished text, where nothing is escaped any more: a space without width helps
_APART = "&#8203;"
_LONGEST = 1_000  # characters of one name or sentence


@dataclass(frozen=True)
class Section:
    """A heading, a list, and whether it is folded; `least` of the rows are never cut."""

    title: str
    rows: Sequence[str]
    head: Sequence[str] = ()  # the two lines of a table's head, or a sentence
    foot: Sequence[str] = ()
    ends: bool = False  # what decides stands at the end of the rows, so that the first are cut
    folded: bool = False
    shown: int | None = None
    least: int = 3

    def text(self) -> str:
        """The section in Markdown."""
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
        said = [f"> Cut to fit a comment: {', '.join(_plain(one.title) for one in cut)}.\n"] if cut else []
        return "\n".join([self.head, *said, *(section.text() for section in self.sections)])


def marker(stack: str) -> str:
    """What a comment begins with, so that the next review of the same stack finds and replaces it."""
    return f"<!-- agentenv-review:{re.sub(r'[^A-Za-z0-9_-]', '-', stack)} -->"


def as_markdown(report: Report, most: int = MOST) -> str:
    """The whole review in at most so many bytes."""
    page = _Page(_head(report), [section for make in _SECTIONS for section in make(report)])
    while len(page.text().encode()) > most:
        sizes = [
            (len("\n".join(one.rows[: one.shown]).encode()), index)
            for index, one in enumerate(page.sections)
            if (one.shown if one.shown is not None else len(one.rows)) > one.least
        ]
        if not sizes:
            break
        _, index = max(sizes)
        section = page.sections[index]
        shown = section.shown if section.shown is not None else len(section.rows)
        page.sections[index] = replace(section, shown=max(section.least, shown * 3 // 4))
    text = page.text()
    if len(text.encode()) <= most:
        return text
    end = "\n\n_Cut to fit a comment: `agentenv review --format json` has the rest._\n"
    # A cut inside a row, a fold or a fence would break what follows, so whole lines go
    room = most - len(end.encode()) - len("\n```\n</details>")
    kept = text.encode()[:room].decode(errors="ignore").rpartition("\n")[0]
    fence = "\n```" if kept.count("```") % 2 else ""
    return kept + fence + ("\n</details>" if kept.count("<details>") > kept.count("</details>") else "") + end


def code(text: str) -> str:
    """A name as code: nothing in it is a link, a mention or markup."""
    clean = _line(text).replace("`", "'").replace("|", "¦")
    return f"`{clean}`" if clean else ""


def plain(text: str) -> str:
    """Somebody's words as words: what steers Markdown is escaped, and neither people nor issues are referred to."""
    said = _ACTIVE.sub(r"\\\1", _line(text)).replace("\\<", "&lt;").replace("\\>", "&gt;")
    said = said.replace("\\@", f"@{_APART}").replace("\\#", f"\\#{_APART}")
    return re.sub(r"\b(GH-)(?=\d)", rf"\1{_APART}", said, flags=re.IGNORECASE)


def _line(text: str) -> str:
    return _cut(" ".join(text.split()))


def _cut(line: str) -> str:
    """A line that is no longer than anybody reads."""
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def _plain(title: str) -> str:
    return re.sub(r"<[^>]*>", "", title)


def _head(report: Report) -> str:
    blocked = report.blocking
    lines = [marker(report.compared.stack), f"### Review of {code(report.compared.stack)}", ""]
    if blocked:
        lines += ["> [!CAUTION]", "> **Blocked**", *(f"> - {plain(reason)}" for reason in blocked)]
    else:
        lines += ["> [!NOTE]", "> Nothing blocks this change."]
    compared = report.compared
    how = "offline, in the rehearsal's stand-ins" if compared.offline else "by the engine"
    lines += [
        "",
        "| changes | findings | cost |",
        "|---|---|---|",
        f"| {words.figures(report.changes)} | {words.found(report)} | {plain(words.cost_line(report.costs))} |",
        "",
        f"{f'{code(compared.commit)} compared' if compared.commit else 'Compared'} with {code(compared.base)}, {how}.",
        "",
    ]
    return "\n".join(lines)


def _failure(report: Report) -> list[Section]:
    if not report.failure:
        return []
    rows = [_cut(line.replace("```", "'''")) for line in report.failure.splitlines()]
    # What went wrong is what was said last
    return [Section("The program cannot be previewed", rows, ["```text"], ["```"], ends=True, least=12)]


def _refused(report: Report) -> list[Section]:
    return [Section("Refused", [f"- {plain(line)}" for line in report.refused])] if report.refused else []


def _losses(report: Report) -> list[Section]:
    if not report.losses:
        return []
    rows = [
        f"- **{loss.change.operation}** {code(loss.change.name)} ({words.short_type(loss.change.type)}): "
        f"{plain(words.loss_line(loss))}\n  {code(loss.change.urn)}"
        for loss in report.losses
    ]
    head = ["What may be lost has to be said in `policies/allowed_losses.yaml`, by URN and until a day.", ""]
    return [Section("Data at risk", rows, head if any(loss.blocks for loss in report.losses) else (), least=10)]


def _unguarded(report: Report) -> list[Section]:
    rows = [f"- {code(urn)}" for urn in report.unguarded]
    return [Section("No longer protected, so that a later change could take it", rows)] if rows else []


def _found(report: Report) -> list[Section]:
    urgent = [one for one in report.findings if one.blocks or one.state == "new"]
    made = [Section("Findings", _rules(urgent), least=12)] if urgent else []
    for state, said in (
        ("existing", "There before, and not of this change"),
        ("waived", "Waived"),
        ("fixed", "Mended by this change"),
    ):
        rest = [one for one in report.of_state(state) if one not in urgent]
        if rest:
            made.append(Section(f"{said}: {words.worst(rest)}", _rules(rest), folded=True))
    return made


def _rules(findings: Sequence[Judged]) -> list[str]:
    """A row a rule with what to do, and a row a place under it."""
    rows: list[str] = []
    for first, every in words.told_once(findings):
        found = first.finding
        title = plain(first.title or found.message)
        rows.append(f"- **[{plain(found.rule)}]({first.link})** {words.marks(first)}: {title}")
        if first.do and first.state != "fixed":
            rows.append(f"  **Do:** {plain(first.do)}")
        rows += [f"  - {_where(one)}" for one in every]
    return rows


def _where(one: Judged) -> str:
    found = one.finding
    unknown = " (not known yet)" if found.verdict.value == "indeterminate" else ""
    place = f" {code(found.path)}" if found.path else ""
    spot = f", {code(str(one.spots[0]))}" if one.spots and one.state != "fixed" else ""
    waiver = f" {plain(one.waiver.summary)}." if one.waiver else ""
    message = f": {plain(words.message(one))}" if words.message(one) else ""
    return f"{code(one.name)}{place}{spot}{unknown}{message}{'.' if waiver and message else ''}{waiver}"


def _changes(report: Report) -> list[Section]:
    if not report.changes:
        return []
    rows: list[str] = []
    for component, changes in words.grouped(report.changes).items():
        rows += ["", f"**{plain(component)}**: {words.figures(changes)}", ""]
        for change, names in words.runs(changes, report.values):
            sure = f" _{words.sure(change)}_" if words.sure(change) else ""
            named = ", ".join(name if name.startswith("…") else code(name) for name in names)
            rows.append(f"- {change.operation} {words.short_type(change.type)} {named}{sure}")
            rows += [f"  - {_value(*value)}" for value in report.values.get(change.urn, ())]
    return [Section(f"Every change: {words.figures(report.changes)}", rows, folded=True)]


def _value(path: str, before: str, after: str) -> str:
    return f"{code(path)}: {code(before)} → {code(after)}" if before or after else code(path)


def _capabilities(report: Report) -> list[Section]:
    rows: list[str] = []
    for change in report.capabilities:
        rows += [f"- {code(change.name)} **gains** {plain(gained)}" for gained in change.gained]
        rows += [f"- {code(change.name)} **loses** {plain(lost)}" for lost in change.lost]
    return [Section("What sandboxes may reach", rows)] if rows else []


def _quotas(report: Report) -> list[Section]:
    shown = [need for need in report.needs if need.changed or need.ok is False]
    if not shown:
        return []
    rows = [
        f"| {plain(need.name.removeprefix('quota: '))} | {_amount(need.before)} | {_amount(need.after)} | "
        f"{'not asked' if need.ok is None else need.limit} | {'**too few**' if need.ok is False else ''} |"
        for need in shown
    ]
    head = ["| quota | before | after | limit | |", "|---|---|---|---|---|"]
    short = any(need.ok is False for need in shown)
    return [Section(f"Quotas: {counts(len(shown), 'need')} changed", rows, head, folded=not short)]


def _amount(amount: int | None) -> str:
    return "none" if amount is None else str(amount)


def _costs(report: Report) -> list[Section]:
    costs = report.costs
    if costs.after is None:
        return []
    before = costs.before or Decimal(0)
    rows = [f"| {plain(part)} | {then:.2f} | {now:.2f} | {now - then:+.2f} |" for part, then, now in costs.parts] or [
        "| nothing changes | | | |"
    ]
    head = [
        plain(words.cost_basis(costs)),
        "",
        "| dollars a month | before | after | change |",
        "|---|---:|---:|---:|",
        f"| **in all** | **{before:.2f}** | **{costs.after:.2f}** | **{costs.after - before:+.2f}** |",
    ]
    return [Section(f"Cost: {words.cost_line(costs)}", rows, head, folded=not costs.parts)]


def _drift(report: Report) -> list[Section]:
    if report.drift is None:
        return []
    rows = [f"- {change.operation} {code(change.name)} ({words.short_type(change.type)})" for change in report.drift]
    return [Section("Changed by hand since the last update", rows or ["Nothing."], folded=not rows)]


def _notes(report: Report) -> list[Section]:
    return (
        [Section("How far to trust this", [f"- {plain(note)}" for note in report.notes], folded=True)]
        if report.notes
        else []
    )


_SECTIONS: tuple[Callable[[Report], list[Section]], ...] = (
    _failure,
    _refused,
    _losses,
    _found,
    _capabilities,
    _unguarded,
    _drift,
    _costs,
    _quotas,
    _changes,
    _notes,
)
