"""The rates of each class: the prices of the estimate, divided into the amounts of a ledger row.

The price of a node is divided so that a core weighs as much as nine gigabytes, as everywhere in the project. A row that
used its requests costs what the estimate says for an hour, and one that used more costs more. Fixed costs are not
included, because suspending a workspace does not save them.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from agentenv.core.cost.assumptions import Assumptions
from agentenv.core.cost.context import EstimateContext
from agentenv.core.cost.homes import homes
from agentenv.core.cost.node_kinds import Kind, kinds, pod_resources
from agentenv.core.cost.sandboxes import place_on_node
from agentenv.core.ledger.budgets import Policy, Rates
from agentenv.core.prices.book import PriceBook, price_book
from agentenv.core.prices.units import HOURS_A_MONTH, total

if TYPE_CHECKING:
    from agentenv.config.sections.classes import SandboxClass
    from agentenv.config.settings import Settings

_CORE_WEIGHT = 9


def budget_policy(settings: Settings, book: PriceBook | None = None) -> Policy:
    """Return the budgets of an environment; raise `MissingPricesError` if its region has no prices."""
    return Policy(
        rates=class_rates(settings, book or price_book(settings.region)),
        class_budgets={each.name: each.budget for each in settings.sandbox_classes if each.budget is not None},
        user_cap=settings.cost.per_user_cap,
        notice_at=settings.cost.notice_at,
    )


def class_rates(settings: Settings, book: PriceBook, taken: Assumptions | None = None) -> dict[str, Rates]:
    """Return the rates of every class."""
    taken = taken or Assumptions()
    context = EstimateContext(settings, book, taken)
    kind_of = {each.name: kind for kind in kinds(context) for each in kind.classes}
    month_of_a_gib = total(part.cost for part in homes(context, Decimal(0))).value / taken.home
    network = book.rate("nat.traffic").dollars if settings.network.nat != "none" else Decimal(0)
    rates: dict[str, Rates] = {}
    for sandbox_class in settings.sandbox_classes:
        core, memory = _compute_rates(sandbox_class, kind_of.get(sandbox_class.name), context)
        # EFS bills hours of a month of 730 hours; its gigabyte is a GiB.
        rates[sandbox_class.name] = Rates(core, memory, month_of_a_gib / HOURS_A_MONTH, network)
    return rates


def _compute_rates(sandbox_class: SandboxClass, kind: Kind | None, context: EstimateContext) -> tuple[Decimal, Decimal]:
    """Return the price of an hour of a core, and of a GiB of memory."""
    if kind is None:
        # Rows of Fargate pods have the size that AWS bills.
        return context.rate("fargate.vcpu").dollars, context.rate("fargate.memory").dollars
    hour = place_on_node(sandbox_class, kind, context.taken.node_fill).rate.dollars
    weight = pod_resources(sandbox_class).weight
    return hour / weight * _CORE_WEIGHT, hour / weight
