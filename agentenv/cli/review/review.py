"""Puts a review together: both graphs, then everything that follows from them."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from agentenv.cli.main import Refusal
from agentenv.cli.review import offline, revision
from agentenv.cli.review import stack_preview as selected
from agentenv.cli.review.allowed_losses import FILE as ALLOWED
from agentenv.cli.review.allowed_losses import Allowance, read_allowances
from agentenv.cli.review.changes import Change, told
from agentenv.cli.review.compare import compared, unknown_in_both
from agentenv.cli.review.cost import Estimator, costs
from agentenv.cli.review.findings import WAIVERS, Bench
from agentenv.cli.review.formats.report import Compared, Report, counts
from agentenv.cli.review.formats.values import differences, masked
from agentenv.cli.review.graph import Graph
from agentenv.cli.review.losses import losses, unguarded
from agentenv.cli.review.offline import NOTHING, Desired
from agentenv.cli.review.preview import Call, Preview, PreviewFailed
from agentenv.cli.review.quotas import needs
from agentenv.cli.review.reach_changes import reaching
from agentenv.cli.stack_files import FOLDER, mistakes_in, stack_file
from agentenv.cli.stack_yaml import read_document
from agentenv.config import Settings
from agentenv.policies.packs.configuration import read as read_configuration
from agentenv.policies.rules.registry import Rule, all_rules
from agentenv.policies.waivers import Waivers, read_waivers, waivers_of
from agentenv.rehearsal.tools.progress import Progress

_WATCHED = ("policies", "agentenv/cli/review", ".github/workflows")
_GUESSES = (
    "Offline: nothing was asked of an account or a state. Updates and replacements are told from both programs and "
    "from tables of what cannot be changed in place; what was changed by hand is not seen."
)


@dataclass(frozen=True)
class Question:
    """What is to be reviewed."""

    root: Path
    stack: str
    base: str | None = None
    offline: bool = False
    drift: bool = False
    links: str = ""
    packs_config: Path | None = None
    commit: str = ""  # as whoever asks calls it: a pipeline often has a merge of it checked out
    today: date | None = None
    call: Call | None = None  # the engine to ask instead of the one on PATH
    estimator: Estimator | None = None
    rules: Sequence[Rule] | None = None


def review(question: Question, progress: Progress | None = None) -> Report:
    """The whole review; what keeps the program from being previewed is told in it, and blocks."""
    began = time.monotonic()
    report = Report(Compared(question.stack, _base_words(question), question.offline, commit=question.commit))
    try:
        _fill(question, report, question.today or datetime.now(UTC).date(), progress)
    except PreviewFailed as failure:
        report.failure = masked(str(failure))
    report.compared = replace(report.compared, seconds=time.monotonic() - began)
    return report


def _fill(question: Question, report: Report, today: date, progress: Progress | None) -> None:
    allowances: list[Allowance] = []
    try:
        allowances = read_allowances(question.root, today)
    except Refusal as wrong:  # what is written wrongly allows nothing, and the rest is worth telling
        report.refused += str(wrong).splitlines()
    if mistakes := mistakes_in(stack_file(question.root, question.stack), question.stack):
        report.failure = "\n".join(_mistake(question, one) for one in mistakes)
        return
    found = _offline(question, report, progress) if question.offline else _selected(question, report)
    _follow(question, report, found, allowances, today)


@dataclass(frozen=True)
class _Found:
    """What both revisions want; `known` is the graph that findings are compared with, None where all are new."""

    known: Graph | None
    before: Desired
    after: Desired
    preview: Preview | None = None


def _offline(question: Question, report: Report, progress: Progress | None) -> _Found:
    before, after = offline.both(question.root, question.stack, question.base, progress)
    report.changes = compared(before.wanted, after.wanted)
    if question.base is None:
        report.notes.append("No base was given: everything counts as new, and nothing can be told of what would go.")
        return _Found(None, before, after)
    report.notes.append(_GUESSES)
    if blind := unknown_in_both(before.wanted, after.wanted):
        report.notes.append(
            f"{blind} values are unknown in both revisions until things are made, and were taken for unchanged."
        )
    return _Found(before.wanted, before, after)


def _selected(question: Question, report: Report) -> _Found:
    call = question.call or selected.call_of(question.root, question.stack)
    packs = question.root / "policies"
    found = selected.selected(call, packs, _packs_config(question.packs_config), drift=question.drift)
    preview = found.preview
    report.changes = told(preview.steps, preview.before, preview.after)
    report.drift = found.drift
    if question.base is None:
        report.notes.append("No base was given: capabilities and quotas are told without what was before.")
    before = Desired(_settings_before(question), preview.before)
    after = Desired(offline.settings_in(question.root, question.stack), preview.after)
    return _Found(preview.before, before, after, preview)


def _follow(question: Question, report: Report, found: _Found, allowances: list[Allowance], today: date) -> None:
    """Everything that follows from two graphs and two sets of settings."""
    before, after = found.before, found.after
    report.values = _values(report.changes, before.wanted, after.wanted)
    report.losses = losses(report.changes, before.wanted, allowances, today)
    report.unguarded = unguarded(before.wanted, after.wanted)
    report.findings = bench_of(question, after.settings, today).judged(found.known, after.wanted)
    report.capabilities = reaching(before.settings, after.settings) if question.base else []
    report.needs = needs(before.settings, after.settings, ask=not question.offline)
    report.costs = costs(before.settings, after.settings, question.estimator)
    if found.preview is not None:
        report.refused += [masked(line) for line in selected.refusals(found.preview, report.findings)]
    if question.base:
        of_commit = revision.commit(question.root, question.base)
        touched = revision.changed_files(question.root, of_commit, *_WATCHED)
        if touched:
            named = [name for name in (WAIVERS, ALLOWED) if name in touched]
            rest = len(touched) - len(named)
            others = [f"{counts(rest, 'file')} under {', '.join(_WATCHED)}"] if rest else []
            report.notes.append(f"This change edits what judges it: {', '.join([*named, *others])}.")


def bench_of(question: Question, settings: Settings | None, today: date) -> Bench:
    """Who judges, as the packs would in the same environment."""
    given = _packs_config(question.packs_config) or {}
    configuration = read_configuration(given, question.stack, settings)
    if configuration.mistakes:
        raise Refusal("the packs' configuration: " + "; ".join(configuration.mistakes))
    path = configuration.waivers if "waivers" in given else question.root / WAIVERS
    rules = question.rules or all_rules()
    document = read_document(path) if path.is_file() else None
    rows: Any = document.value.get("waivers") if document and isinstance(document.value, dict) else None
    lines = {
        str(row["id"]): document.line(("waivers", index))
        for index, row in enumerate(rows or [])
        if document and isinstance(row, dict) and "id" in row
    }
    return Bench(
        configuration.context,
        configuration.enforcement,
        # A project may have none; a file that was named has to be there
        read_waivers(path, {rule.id: rule.severity for rule in rules}, today)
        if path.is_file() or "waivers" in given
        else Waivers(),
        today,
        f"{FOLDER}/{stack_file(question.root, question.stack).name}",
        read_document(stack_file(question.root, question.stack)),
        question.links,
        None if "waivers" in given else _waivers_before(question, rules, today),
        lines,
        question.rules,
    )


def _waivers_before(question: Question, rules: Sequence[Rule], today: date) -> Waivers | None:
    """The waivers of the base, as they are today; None without a base."""
    if question.base is None:
        return None
    text = revision.text_of(question.root, revision.commit(question.root, question.base), WAIVERS)
    return waivers_of(text or "", {rule.id: rule.severity for rule in rules}, today)


def _values(changes: list[Change], before: Graph, after: Graph) -> Mapping[str, list[tuple[str, str, str]]]:
    return {change.urn: differences(change, before, after) for change in changes if change.keys}


def _packs_config(path: Path | None) -> Mapping[str, Any] | None:
    """The packs' configuration, which is one for both."""
    if path is None:
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise Refusal(f"{path} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise Refusal(f"{path} has to hold one JSON object: the packs' configuration")
    return found


def _settings_before(question: Question) -> Settings | None:
    """The settings of the base, where one was given and has the stack."""
    if question.base is None:
        return NOTHING.settings
    return offline.settings_at(question.root, question.stack, question.base)


def _base_words(question: Question) -> str:
    if not question.offline:
        return "the stack's state"
    return question.base or "nothing"


def _mistake(question: Question, mistake: Any) -> str:
    hint = f"; {mistake.hint}" if mistake.hint else ""
    place = f"{FOLDER}/{stack_file(question.root, question.stack).name}:{mistake.line}"
    return f"{place}  {mistake.path}: found {mistake.found}; allowed is {mistake.allowed}{hint}"
