"""What the ledger's amounts cost in each class: the estimate's own prices, taken apart into what a row has.

A place on a node is shared by a core as much as by nine gigabytes, as everywhere here. So a row that used what was set
aside for it costs what the estimate says an hour costs, and one that used more costs more. Fixed costs have no part in
it: letting a workspace sleep saves none of them.
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
    """The budgets of an environment; `MissingPricesError` where there are no prices of its region."""
    return Policy(
        rates=class_rates(settings, book or price_book(settings.region)),
        class_budgets={one.name: one.budget for one in settings.sandbox_classes if one.budget is not None},
        user_cap=settings.cost.per_user_cap,
        notice_at=settings.cost.notice_at,
    )


def class_rates(settings: Settings, book: PriceBook, taken: Assumptions | None = None) -> dict[str, Rates]:
    """The rates of every class."""
    taken = taken or Assumptions()
    context = EstimateContext(settings, book, taken)
    kind_of = {one.name: kind for kind in kinds(context) for one in kind.classes}
    kept = total(part.cost for part in homes(context, Decimal(0))).value / taken.home
    network = book.rate("nat.traffic").dollars if settings.network.nat != "none" else Decimal(0)
    found: dict[str, Rates] = {}
    for one in settings.sandbox_classes:
        core, memory = _place(one, kind_of.get(one.name), context)
        # EFS is billed by the hour of a month of 730; what it calls a gigabyte has 1024 megabytes.
        found[one.name] = Rates(core, memory, kept / HOURS_A_MONTH, network)
    return found


def _place(one: SandboxClass, kind: Kind | None, context: EstimateContext) -> tuple[Decimal, Decimal]:
    """An hour of a core, and of a GiB of memory."""
    if kind is None:
        # The ledger has the size that Fargate gave and bills.
        return context.rate("fargate.vcpu").dollars, context.rate("fargate.memory").dollars
    hour, weight = place_on_node(one, kind, context.taken.node_fill).rate.dollars, pod_resources(one).weight
    return hour / weight * _CORE_WEIGHT, hour / weight
