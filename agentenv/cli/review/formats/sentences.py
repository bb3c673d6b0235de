"""The titles, groups and sentences that the terminal and Markdown share, without markup."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from agentenv.cli.review.changes import Change, operation_counts
from agentenv.cli.review.cost import Costs
from agentenv.cli.review.findings import ReviewFinding
from agentenv.cli.review.formats.report import Report
from agentenv.cli.review.losses import Loss

Values = Mapping[str, list[tuple[str, str, str]]]
MARKS = {"create": "+", "update": "~", "replace": "±", "delete": "-"}
VERBS = {"create": "to create", "update": "to update", "replace": "to replace", "delete": "to delete"}
MAX_NAMES = 4
_HEAVY = ("delete", "replace", "update", "create")


def title(report: Report) -> str:
    """Return what was reviewed, and the base."""
    how = "offline, with the rehearsal's stand-ins" if report.comparison.offline else "by the engine"
    return f"{report.comparison.stack} against {report.comparison.base}, {how}"


def verdict(report: Report) -> str:
    """Return the verdict in one line."""
    return f"Blocked: {'; '.join(report.blocking)}" if report.blocking else "Nothing blocks"


def figures(changes: Sequence[Change]) -> str:
    """Return the number of changes by operation, in one line."""
    parts = [f"{count} {VERBS[operation]}" for operation, count in operation_counts(changes).items() if count]
    return ", ".join(parts) or "no resource changes"


def finding_counts(report: Report) -> str:
    """Return the number of findings by state, in one line."""
    parts = [f"{len(report.of_state(state))} {state}" for state in ("new", "existing", "waived", "fixed")]
    return ", ".join(parts) if report.findings else "none"


def component_of(change: Change) -> str:
    """Return the innermost component of the package in a resource's URN, or the program."""
    types = change.urn.split("::")[2].split("$") if change.urn.count("::") >= 3 else []
    components = [type_.rpartition(":")[2] for type_ in types if type_.startswith("agent-environment:index:")]
    return (components or ["the program"])[-1]


def grouped(changes: Iterable[Change]) -> dict[str, list[Change]]:
    """Group changes by component, the most severe operation first."""
    groups: dict[str, list[Change]] = {}
    for change in changes:
        groups.setdefault(component_of(change), []).append(change)
    for rows in groups.values():
        rows.sort(key=lambda row: (_HEAVY.index(row.operation), row.type, row.urn))
    return dict(sorted(groups.items(), key=lambda group: (_HEAVY.index(group[1][0].operation), group[0])))


def grouped_rows(changes: Sequence[Change], values: Values) -> list[tuple[Change, list[str]]]:
    """Return the changes of one component as rows: changes that differ only in their names share a row."""
    alike: dict[object, list[Change]] = {}
    for change in changes:
        same = (change.operation, change.type, change.sureness, tuple(values.get(change.urn, ())))
        alike.setdefault(same, []).append(change)
    return [(rows[0], _names([row.name for row in rows])) for rows in alike.values()]


def _names(names: list[str]) -> list[str]:
    """Return a few names in full, and of many the first, the number between, and the last."""
    return names if len(names) <= MAX_NAMES else [names[0], f"… {len(names) - 2} more …", names[-1]]


def short_type(kind: str) -> str:
    """Return `efs FileSystem` for `aws:efs/fileSystem:FileSystem`."""
    package, _, rest = kind.partition(":")
    module, _, name = rest.rpartition(":")
    module = module.partition("/")[0] if package == "aws" else module
    return name if package in {"agent-environment", "kubernetes"} else f"{module} {name}".strip()


def loss_line(loss: Loss) -> str:
    """Return what is lost with a resource, and who allows it."""
    stays = "it is retained, but no longer managed, " if loss.stays else ""
    why = f" ({loss.change.why})" if loss.change.why else ""
    protected = "; it is protected, so the engine refuses too" if loss.protected else ""
    allowance = loss.allowed
    allowed = f" Allowed until {allowance.until} by {allowance.owner}: {allowance.reason}." if allowance else ""
    return f"{stays}{loss.lost}{why}{protected}.{allowed}"


def cost_line(costs: Costs) -> str:
    """Return the cost before and after, and the cost of a user."""
    if costs.after is None:
        return f"no figure: {costs.note}" if costs.note else "no figure"
    before = f"{costs.before:.2f}" if costs.before is not None else "nothing"
    each = f", {costs.per_user:.2f} a user of {costs.users}" if costs.per_user is not None else ""
    return f"{before} before, {costs.after:.2f} after, in dollars a month{each}"


def cost_basis(costs: Costs) -> str:
    """Return the users, hours and prices of the estimate, and the users at which the target is reached."""
    target = "" if costs.target is None else f"${costs.target:.2f} a user or less"
    reached = f"from {costs.break_even_users} users on" if costs.break_even_users else "is never reached"
    return (
        f"For {costs.users} users with {costs.active_hours} active hours a month, at prices of {costs.prices_of};"
        f" {target} {reached}. `agentenv estimate` shows the basis of each line."
    )


def group_by_rule(findings: Sequence[ReviewFinding]) -> list[tuple[ReviewFinding, list[ReviewFinding]]]:
    """Group findings by rule, so that the remedy is shown once."""
    groups: dict[tuple[str, bool, str], list[ReviewFinding]] = {}
    for row in findings:
        groups.setdefault((row.finding.rule, row.blocks, row.state), []).append(row)
    return [(rows[0], rows) for rows in groups.values()]


def labels(row: ReviewFinding) -> str:
    """Return the severity, whether the finding blocks, and whether it existed before."""
    blocks = ", blocks" if row.blocks else ""
    existing = ", existing" if row.state == "existing" else ""
    return f"{row.finding.severity}{blocks}{existing}"


def message(row: ReviewFinding) -> str:
    """Return the message of a finding, if it says more than the title and the path."""
    finding = row.finding
    return "" if finding.message in {row.title, f"{finding.path} is not known yet"} else finding.message
