"""Create a review: preview both revisions, then derive everything else from the two graphs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from agentenv.cli.main import CommandError
from agentenv.cli.review import allowed_losses, offline, revision, stack_preview
from agentenv.cli.review.allowed_losses import Allowance, read_allowances
from agentenv.cli.review.changes import Change, changes_from_steps
from agentenv.cli.review.compare import compare_graphs, count_unknown_in_both
from agentenv.cli.review.cost import Estimator, costs
from agentenv.cli.review.findings import WAIVERS, RuleEvaluator, read_packs_config
from agentenv.cli.review.formats.report import Comparison, Report
from agentenv.cli.review.formats.values import differences, mask_secrets
from agentenv.cli.review.graph import Graph
from agentenv.cli.review.losses import losses, unprotected
from agentenv.cli.review.offline import NOTHING, DesiredState
from agentenv.cli.review.preview import Call, Preview, PreviewFailed
from agentenv.cli.review.quotas import quota_needs
from agentenv.cli.review.reach_changes import capability_changes
from agentenv.cli.stack_files import read_stack_file, stack_file
from agentenv.cli.stack_yaml import read_document
from agentenv.cli.terminal_text import plural
from agentenv.config import Settings
from agentenv.policies.packs.configuration import read as read_configuration
from agentenv.policies.rules.registry import Rule, all_rules
from agentenv.policies.waivers import Waivers, read_waivers, waivers_of
from agentenv.rehearsal.tools.progress import Progress

_WATCHED = ("policies", "agentenv/cli/review", ".github/workflows")
_GUESSES = (
    "Offline: no account and no state was used. Updates and replacements are predicted from both programs and from "
    "tables of inputs that force replacement. Drift is not detected."
)


@dataclass(frozen=True)
class ReviewRequest:
    """The stack and the options of a review."""

    root: Path
    stack: str
    base: str | None = None
    offline: bool = False
    drift: bool = False
    links: str = ""
    packs_config: Path | None = None
    commit: str = ""  # for the report: a pipeline often has a merge commit checked out
    today: date | None = None
    call: Call | None = None  # replaces the engine on PATH
    estimator: Estimator | None = None
    rules: Sequence[Rule] | None = None


def review(request: ReviewRequest, progress: Progress | None = None) -> Report:
    """Review a change. If the program cannot be previewed, the report has the error, and blocks."""
    began = time.monotonic()
    report = Report(Comparison(request.stack, _base_text(request), request.offline, commit=request.commit))
    try:
        _create_report(request, report, request.today or datetime.now(UTC).date(), progress)
    except PreviewFailed as failure:
        report.failure = mask_secrets(str(failure))
    report.comparison = replace(report.comparison, seconds=time.monotonic() - began)
    return report


def _create_report(request: ReviewRequest, report: Report, today: date, progress: Progress | None) -> None:
    allowances: list[Allowance] = []
    try:
        allowances = read_allowances(request.root, today)
    except CommandError as error:  # an invalid file allows nothing, and the rest of the review is still useful
        report.refused += str(error).splitlines()
    if mistakes := read_stack_file(stack_file(request.root, request.stack), request.stack).mistakes:
        report.failure = "\n".join(_mistake(request, mistake) for mistake in mistakes)
        return
    graphs = _preview_offline(request, report, progress) if request.offline else _preview_stack(request, report)
    _add_derived(request, report, graphs, allowances, today)


@dataclass(frozen=True)
class _Graphs:
    """The graphs of both revisions. `known` is the one that findings are compared with, None if all are new."""

    known: Graph | None
    before: DesiredState
    after: DesiredState
    preview: Preview | None = None


def _preview_offline(request: ReviewRequest, report: Report, progress: Progress | None) -> _Graphs:
    before, after = offline.preview_both(request.root, request.stack, request.base, progress)
    report.changes = compare_graphs(before.graph, after.graph)
    if request.base is None:
        report.notes.append("Without --base every resource counts as new, and deletions are unknown.")
        return _Graphs(None, before, after)
    report.notes.append(_GUESSES)
    if unknown := count_unknown_in_both(before.graph, after.graph):
        report.notes.append(f"{unknown} values are unknown in both revisions, and count as unchanged.")
    return _Graphs(before.graph, before, after)


def _preview_stack(request: ReviewRequest, report: Report) -> _Graphs:
    call = request.call or stack_preview.engine_call(request.root, request.stack)
    packs = request.root / "policies"
    result = stack_preview.preview_stack(call, packs, read_packs_config(request.packs_config), drift=request.drift)
    preview = result.preview
    report.changes = changes_from_steps(preview.steps, preview.before, preview.after)
    report.drift = result.drift
    if request.base is None:
        report.notes.append("Without --base the capabilities and quotas before the change are unknown.")
    before = DesiredState(_settings_before(request), preview.before)
    after = DesiredState(offline.settings_in(request.root, request.stack), preview.after)
    return _Graphs(preview.before, before, after, preview)


def _add_derived(
    request: ReviewRequest, report: Report, graphs: _Graphs, allowances: list[Allowance], today: date
) -> None:
    """Add everything that follows from the two graphs and the settings of both revisions."""
    before, after = graphs.before, graphs.after
    report.values = _value_differences(report.changes, before.graph, after.graph)
    report.losses = losses(report.changes, before.graph, allowances, today)
    report.unprotected = unprotected(before.graph, after.graph)
    report.findings = rule_evaluator(request, after.settings, today).evaluate(graphs.known, after.graph)
    report.capabilities = capability_changes(before.settings, after.settings) if request.base else []
    report.needs = quota_needs(before.settings, after.settings, with_limits=not request.offline)
    report.costs = costs(before.settings, after.settings, request.estimator)
    if graphs.preview is not None:
        refusals = stack_preview.engine_refusals(graphs.preview, report.findings)
        report.refused += [mask_secrets(line) for line in refusals]
    if request.base:
        of_commit = revision.commit(request.root, request.base)
        files = revision.changed_files(request.root, of_commit, *_WATCHED)
        if files:
            named = [name for name in (WAIVERS, allowed_losses.FILE) if name in files]
            rest = len(files) - len(named)
            others = [f"{plural(rest, 'file')} under {', '.join(_WATCHED)}"] if rest else []
            report.notes.append(f"This change edits the review itself: {', '.join([*named, *others])}.")


def rule_evaluator(request: ReviewRequest, settings: Settings | None, today: date) -> RuleEvaluator:
    """Return the evaluator of the rules, with the same configuration as the packs."""
    packs_config = read_packs_config(request.packs_config) or {}
    configuration = read_configuration(packs_config, request.stack, settings)
    if configuration.mistakes:
        raise CommandError("the packs' configuration: " + "; ".join(configuration.mistakes))
    path = configuration.waivers if "waivers" in packs_config else request.root / WAIVERS
    rules = request.rules or all_rules()
    document = read_document(path) if path.is_file() else None
    rows: Any = document.value.get("waivers") if document and isinstance(document.value, dict) else None
    lines = {
        str(row["id"]): document.line(("waivers", index))
        for index, row in enumerate(rows or [])
        if document and isinstance(row, dict) and "id" in row
    }
    return RuleEvaluator(
        configuration.context,
        configuration.enforcement,
        # A project need not have the file, but a configured file must exist
        read_waivers(path, {rule.id: rule.severity for rule in rules}, today)
        if path.is_file() or "waivers" in packs_config
        else Waivers(),
        today,
        stack_file(request.root, request.stack).relative_to(request.root).as_posix(),
        read_document(stack_file(request.root, request.stack)),
        request.links,
        None if "waivers" in packs_config else _waivers_before(request, rules, today),
        lines,
        request.rules,
    )


def _waivers_before(request: ReviewRequest, rules: Sequence[Rule], today: date) -> Waivers | None:
    """Return the waivers of the base revision, evaluated today; None without a base."""
    if request.base is None:
        return None
    text = revision.file_text(request.root, revision.commit(request.root, request.base), WAIVERS)
    return waivers_of(text or "", {rule.id: rule.severity for rule in rules}, today)


def _value_differences(changes: list[Change], before: Graph, after: Graph) -> Mapping[str, list[tuple[str, str, str]]]:
    return {change.urn: differences(change, before, after) for change in changes if change.keys}


def _settings_before(request: ReviewRequest) -> Settings | None:
    """Return the settings of the base revision, None without a base or without the stack."""
    if request.base is None:
        return NOTHING.settings
    return offline.settings_at(request.root, request.stack, request.base)


def _base_text(request: ReviewRequest) -> str:
    if not request.offline:
        return "the stack's state"
    return request.base or "nothing"


def _mistake(request: ReviewRequest, mistake: Any) -> str:
    hint = f"; {mistake.hint}" if mistake.hint else ""
    file = stack_file(request.root, request.stack).relative_to(request.root).as_posix()
    return f"{file}:{mistake.line}  {mistake.path}: found {mistake.found}; allowed is {mistake.allowed}{hint}"
