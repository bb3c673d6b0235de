"""What the terminal and Markdown say alike: titles, groups and sentences, without any markup."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from agentenv.cli.review.changes import SURENESS, Change, counted
from agentenv.cli.review.cost import Costs
from agentenv.cli.review.findings import Judged, worst
from agentenv.cli.review.formats.report import Report
from agentenv.cli.review.losses import Loss

Values = Mapping[str, list[tuple[str, str, str]]]
MARKS = {"create": "+", "update": "~", "replace": "±", "delete": "-"}
VERBS = {"create": "to create", "update": "to update", "replace": "to replace", "delete": "to delete"}
MOST_ALIKE = 4
_HEAVY = ("delete", "replace", "update", "create")


def title(report: Report) -> str:
    """What was reviewed, against what."""
    how = "offline, in the rehearsal's stand-ins" if report.compared.offline else "by the engine"
    return f"{report.compared.stack} against {report.compared.base}, {how}"


def verdict(report: Report) -> str:
    """The answer in one line."""
    return f"Blocked: {'; '.join(report.blocking)}" if report.blocking else "Nothing blocks"


def figures(changes: Sequence[Change]) -> str:
    """How much changes, in one line."""
    told = [f"{count} {VERBS[operation]}" for operation, count in counted(changes).items() if count]
    return ", ".join(told) or "no resource changes"


def found(report: Report) -> str:
    """How many findings there are, in one line."""
    parts = [f"{len(report.of_state(state))} {state}" for state in ("new", "existing", "waived", "fixed")]
    return ", ".join(parts) if report.findings else "none"


def worst_of(report: Report, state: str) -> str:
    """How many findings of a state there are of each severity."""
    return worst(report.of_state(state))


def of_component(change: Change) -> str:
    """The component that a resource is in, as its URN says; the program itself where it is in none."""
    kinds = change.urn.split("::")[2].split("$") if change.urn.count("::") >= 3 else []
    ours = [kind.rpartition(":")[2] for kind in kinds[:-1] if kind.startswith("agent-environment:index:")]
    own = [kind.rpartition(":")[2] for kind in kinds[-1:] if kind.startswith("agent-environment:index:")]
    return ([*ours, *own] or ["the program"])[-1]


def grouped(changes: Iterable[Change]) -> dict[str, list[Change]]:
    """Changes by component, within it what weighs most first."""
    groups: dict[str, list[Change]] = {}
    for change in changes:
        groups.setdefault(of_component(change), []).append(change)
    for rows in groups.values():
        rows.sort(key=lambda row: (_HEAVY.index(row.operation), row.type, row.urn))
    return dict(sorted(groups.items(), key=lambda group: (_HEAVY.index(group[1][0].operation), group[0])))


def runs(changes: Sequence[Change], values: Values) -> list[tuple[Change, list[str]]]:
    """Changes of one component as rows: those alike in everything but their names are one, with all their names."""
    alike: dict[object, list[Change]] = {}
    for change in changes:
        same = (change.operation, change.type, change.sureness, tuple(values.get(change.urn, ())))
        alike.setdefault(same, []).append(change)
    return [(rows[0], _names([row.name for row in rows])) for rows in alike.values()]


def _names(names: list[str]) -> list[str]:
    """All of a few names; of many the first and the last, and how many there are."""
    return names if len(names) <= MOST_ALIKE else [names[0], f"… {len(names) - 2} more …", names[-1]]


def short_type(kind: str) -> str:
    """`aws:efs/fileSystem:FileSystem` as `efs FileSystem`, for people."""
    package, _, rest = kind.partition(":")
    module, _, name = rest.rpartition(":")
    module = module.partition("/")[0] if package == "aws" else module
    return name if package in {"agent-environment", "kubernetes"} else f"{module} {name}".strip()


def loss_line(loss: Loss) -> str:
    """What goes with it, and whether it may."""
    stays = "it stays where it is and nothing manages it any more, " if loss.stays else ""
    why = f" ({loss.change.why})" if loss.change.why else ""
    guarded = "; it is protected, so the engine refuses as well" if loss.protected else ""
    may = loss.allowed
    permitted = f" Allowed until {may.until} by {may.owner}: {may.reason}." if may else ""
    return f"{stays}{loss.lost}{why}{guarded}.{permitted}"


def cost_line(costs: Costs) -> str:
    """Now and after, and a user."""
    if costs.after is None:
        return f"no figure: {costs.note}" if costs.note else "no figure"
    before = f"{costs.before:.2f}" if costs.before is not None else "nothing"
    each = f", {costs.per_user:.2f} a user of {costs.users}" if costs.per_user is not None else ""
    return f"{before} before, {costs.after:.2f} after, in dollars a month{each}"


def cost_basis(costs: Costs) -> str:
    """For whom that is reckoned, and from how many users on each costs what they may."""
    target = "" if costs.target is None else f"${costs.target:.2f} a user or less"
    enough = f"from {costs.break_even_users} users on" if costs.break_even_users else "is never reached"
    return (
        f"For {costs.users} users with {costs.active_hours} active hours a month, at prices of {costs.prices_of};"
        f" {target} {enough}. `agentenv estimate` says what that is reckoned from."
    )


def sure(change: Change) -> str:
    """How sure a change is, where that is worth saying."""
    return SURENESS[change.sureness]


def told_once(findings: Sequence[Judged]) -> list[tuple[Judged, list[Judged]]]:
    """Findings of one rule together: what to do is said once."""
    groups: dict[tuple[str, bool, str], list[Judged]] = {}
    for one in findings:
        groups.setdefault((one.finding.rule, one.blocks, one.state), []).append(one)
    return [(rows[0], rows) for rows in groups.values()]


def marks(one: Judged) -> str:
    """Severity, whether it blocks, and whether it was there before."""
    blocks = ", blocks" if one.blocks else ""
    before = ", there before" if one.state == "existing" else ""
    return f"{one.finding.severity}{blocks}{before}"


def message(one: Judged) -> str:
    """What the rule says of the place, where that is more than its title and the place."""
    found = one.finding
    return "" if found.message in {one.title, f"{found.path} is not known yet"} else found.message
