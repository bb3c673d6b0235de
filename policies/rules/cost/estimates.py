"""COST rules that compare the estimated cost of the environment with its budget and caps.

The estimate is that of `agentenv estimate`, from the settings of the stack and the price book of the package.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING

from agentenv.policies.rules.registry import GRAPH, Outcome, fail, not_applicable, rule, unknown
from agentenv.policies.view.fields import Field
from agentenv.policies.view.graph import Graph

if TYPE_CHECKING:
    from agentenv.config import Settings
    from agentenv.core.cost.estimate import Estimate

NO_SETTINGS = "the stack has no settings of this project"


@rule(
    id="COST-21",
    title="The estimated cost is within the budget",
    severity="High",
    why="A budget alerts only after money is spent, up to a month's worth.",
    fix="Run `agentenv estimate` to see what costs most, or raise cost.monthlyBudget (or `monthlyCap` of the packs) in"
    " a separate change.",
    applies_to=GRAPH,
)
def within_budget(graph: Graph) -> Iterator[Outcome]:
    """Compare the estimate for the expected users with the budget or the cap, whichever is less."""
    context = graph.context
    settings = context.settings
    caps = [] if context.monthly_cap is None else [Decimal(str(context.monthly_cap))]
    if settings is not None and settings.cost.monthly_budget is not None:
        caps.append(settings.cost.monthly_budget)
    if settings is None or not caps:
        yield not_applicable(_root(), NO_SETTINGS if settings is None else "there is no budget and no cap")
        return
    estimate = _estimate(settings)
    if isinstance(estimate, str):
        yield unknown(_root(), estimate)
    elif estimate.total_month > min(caps):
        total, cap = f"${estimate.total_month:.2f}", f"${min(caps):.2f}"
        yield fail(_root(), f"the estimate is {total} a month for {_users(estimate)}, and {cap} is allowed")


@rule(
    id="COST-22",
    title="The estimated cost of a user is within the cap per user",
    severity="Medium",
    why="If the cap is below the estimate, workspaces are suspended although their use is normal.",
    fix="Run `agentenv estimate` to see what costs most and the break-even number of users. Set cost.expectedUsers to"
    " the real number, or raise cost.perUserCap.",
    applies_to=GRAPH,
)
def within_cap(graph: Graph) -> Iterator[Outcome]:
    """Compare the estimate per user, with a share of the fixed costs, with the cap."""
    settings = graph.context.settings
    if settings is None or settings.cost.per_user_cap is None:
        yield not_applicable(_root(), NO_SETTINGS if settings is None else "there is no cap per user")
        return
    estimate, cap = _estimate(settings), settings.cost.per_user_cap
    if isinstance(estimate, str):
        yield unknown(_root(), estimate)
    elif estimate.per_user_month > cap:
        users = estimate.break_even_users
        hint = f"it is met with {users} users or more" if users else "no number of users meets it"
        each = f"${estimate.per_user_month:.2f}"
        yield fail(_root(), f"the estimate is {each} per user for {_users(estimate)}; the cap is ${cap:.2f}; {hint}")


def _estimate(settings: Settings) -> Estimate | str:
    """Return the estimate, or the reason why there is none."""
    # Imported here, because most stacks have no limit to compare with
    from agentenv.core.cost.estimate import estimate
    from agentenv.core.prices.book import MissingPricesError

    try:
        return estimate(settings, settings.cost.expected_users, Decimal(settings.cost.active_hours))
    except MissingPricesError as missing:
        return str(missing)


def _users(estimate: Estimate) -> str:
    return f"{estimate.users} users with {estimate.active_hours} active hours"


def _root() -> Field:
    return Field("", "", {})
