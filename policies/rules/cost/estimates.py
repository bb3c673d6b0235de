"""COST: what the environment will cost, reckoned from its settings before it is there, against what it may cost.

The estimate is the model's own, so a rule says what `agentenv estimate` says. A pack has the stack's settings from the
engine, and prices from the model's files: nothing is asked of anybody.
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

NOT_OURS = "the stack has no settings of ours to reckon with"


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
    """For the users that the settings expect; the budget or the packs' cap, whichever is less."""
    context = graph.context
    settings = context.settings
    caps = [] if context.monthly_cap is None else [Decimal(str(context.monthly_cap))]
    if settings is not None and settings.cost.monthly_budget is not None:
        caps.append(settings.cost.monthly_budget)
    if settings is None or not caps:
        yield not_applicable(_root(), NOT_OURS if settings is None else "nothing says what it may cost")
        return
    found = _estimated(settings)
    if isinstance(found, str):
        yield unknown(_root(), found)
    elif found.total_month > min(caps):
        yield fail(
            _root(),
            f"${found.total_month:.2f} a month are estimated for {_users(found)}, and ${min(caps):.2f} are allowed",
        )


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
    """For the users that the settings expect, each with a share of what is there whoever comes."""
    settings = graph.context.settings
    if settings is None or settings.cost.per_user_cap is None:
        yield not_applicable(_root(), NOT_OURS if settings is None else "nothing says what a user may cost")
        return
    found, cap = _estimated(settings), settings.cost.per_user_cap
    if isinstance(found, str):
        yield unknown(_root(), found)
    elif found.per_user_month > cap:
        enough = found.break_even_users
        way = f"from {enough} users on it is within" if enough else "no number of users makes it so"
        yield fail(
            _root(),
            f"${found.per_user_month:.2f} a user are estimated for {_users(found)}; the cap is ${cap:.2f}; {way}",
        )


def _estimated(settings: Settings) -> Estimate | str:
    """The estimate, or why there is none."""
    # Reckoned only where somebody set a limit, and by packs that have settings at all
    from agentenv.core.cost.estimate import estimate
    from agentenv.core.prices.book import MissingPricesError

    try:
        return estimate(settings, settings.cost.expected_users, Decimal(settings.cost.active_hours))
    except MissingPricesError as missing:
        return str(missing)


def _users(found: Estimate) -> str:
    return f"{found.users} users with {found.active_hours} active hours"


def _root() -> Field:
    return Field("", "", {})
