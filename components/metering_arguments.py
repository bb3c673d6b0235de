"""Converts settings to the metering of their environment."""

from decimal import Decimal

from agentenv.components.cost.cluster_costs import ClusterTariff, MeteringLayout
from agentenv.config import Settings
from agentenv.core.classes.pools.sizes import max_sandboxes_with_rollover
from agentenv.core.cost.assumptions import Assumptions
from agentenv.core.cost.estimate import model
from agentenv.core.cost.sandboxes import HEADROOM
from agentenv.core.metering.tariff import number
from agentenv.core.prices.book import MissingPricesError

# OpenCost knows the prices of nodes, so the estimate of these is left out.
_NODES = ("system nodes", HEADROOM)
_FILES = ("homes", "backups of homes")


def metering_layout(settings: Settings) -> MeteringLayout:
    """Return the metering for as many sandboxes as the classes allow, and the estimate of costs without metrics."""
    sandboxes = sum(max_sandboxes_with_rollover(each) for each in settings.sandbox_classes)
    layout: MeteringLayout = {"sandboxes": sandboxes, "tariff": _tariff(settings)}
    if settings.network.mirrors.registry is not None:
        layout["registry"] = settings.network.mirrors.registry
    return layout


def _tariff(settings: Settings) -> ClusterTariff:
    tariff: ClusterTariff = {}
    if settings.cost.monthly_budget is not None:
        tariff["monthly_budget"] = number(settings.cost.monthly_budget)
    if settings.cost.per_user_cap is not None:
        tariff["per_user_cap"] = number(settings.cost.per_user_cap)
    try:
        parts = model(settings).parts
    except MissingPricesError:
        # Without prices for the region there are still dashboards, only without fixed costs.
        return tariff
    tariff["fixed"] = {
        part.name: number(part.cost.value)
        for part in parts
        if part.scale == "fixed" and part.sandbox_class is None and not part.name.startswith(_NODES)
    }
    files = sum((part.cost.value for part in parts if part.name in _FILES), Decimal(0)) / Assumptions().home
    if files:
        tariff["storage"] = number(files.quantize(Decimal("0.000001")))
    return tariff
