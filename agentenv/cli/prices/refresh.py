"""Refresh the prices of a region. A price that is not found retains its old value and date.

A price that is missing from the list, matches more than one line, or changes too much is not accepted: the old price
stays, with the reason. A region without prices gets a book only if all prices are found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from agentenv.cli.main import CommandError
from agentenv.cli.prices.catalog import CATALOG, INSTANCES, PriceQuery
from agentenv.cli.prices.price_list import InstanceType, PriceList, instance_types, spot_prices
from agentenv.core.prices.book import Instance, Price, PriceBook
from agentenv.core.prices.names import FAMILIES, GPU_FAMILIES, GPU_SIZES, PRICES, SIZES
from agentenv.core.prices.units import Rate

SOURCE, SPOT_SOURCE = "price-list", "spot-history"
ADDRESSES = {SOURCE: "AWS Price List, GetProducts", SPOT_SOURCE: "Amazon EC2, DescribeSpotPriceHistory"}
# A larger change is accepted only with --accept-jumps.
MAX_CHANGE = 3


@dataclass(frozen=True)
class Change:
    """A changed price."""

    name: str
    old: Decimal | None
    new: Decimal


@dataclass
class Refreshed:
    """A region's new price book, its changes, and the prices that stay."""

    book: PriceBook
    changes: list[Change] = field(default_factory=list[Change])
    retained: dict[str, str] = field(default_factory=dict[str, str])  # name: why the old price stays


@dataclass(frozen=True)
class Sources:
    """The boto3 clients for prices and instances."""

    pricing: Any
    ec2: Any


def refresh(
    region: str, old: PriceBook | None, sources: Sources, now: datetime, *, jumps: bool = False, live: bool = True
) -> Refreshed:
    """Refresh all prices; `jumps` accepts large changes, `live` includes Spot prices."""
    refreshed = Refreshed(old or PriceBook(region, {}, {}, {}))
    prices = dict(refreshed.book.prices)
    price_list = PriceList(sources.pricing)
    for name, query in CATALOG.items():
        price = _find_price(price_list, query, region)
        if isinstance(price, str):
            refreshed.retained[name] = price
            continue
        amount = price + prices[query.on_top_of].rate.dollars if query.on_top_of in prices else price
        before = prices.get(name)
        if _accept(refreshed, name, before.rate.dollars if before else None, amount, jumps=jumps):
            prices[name] = Price(name, Rate(amount, PRICES[name][0]), SOURCE, now.date())
    instances = _instances(refreshed, price_list, sources.ec2, region, now, jumps=jumps)
    if live:
        instances = _spot(refreshed, sources.ec2, instances, now)
    if missing := [name for name in PRICES if name not in prices]:
        reasons = "; ".join(f"{name}: {refreshed.retained.get(name, 'it has no query')}" for name in missing)
        raise CommandError(f"{region} has no prices yet, and not all were found, so nothing was written: {reasons}")
    used = {row.source for row in (*prices.values(), *instances.values())}
    used |= {SPOT_SOURCE for row in instances.values() if row.spot}
    addresses = {name: text for name, text in {**refreshed.book.sources, **ADDRESSES}.items() if name in used}
    refreshed.book = PriceBook(region, prices, instances, addresses)
    return refreshed


def _find_price(price_list: PriceList, query: PriceQuery, region: str) -> Decimal | str:
    """Return the only price that matches, in the project's unit; otherwise the reason why there is none."""
    matching = {query.region_attribute: region, **query.attributes}
    amounts = {line.dollars for line in price_list.lines(query.service, matching) if query.matches(line.usage)}
    if not amounts:
        return f"no line of {query.service} matches {query.usage}"
    if len(amounts) > 1:
        values = ", ".join(f"{amount:f}" for amount in sorted(amounts))
        return f"several lines of {query.service} match {query.usage}: {values}"
    return amounts.pop() * query.factor


def _accept(refreshed: Refreshed, name: str, old: Decimal | None, new: Decimal, *, jumps: bool) -> bool:
    """Return whether a price is accepted, and record the change or the reason."""
    if old is not None and not jumps and not old / MAX_CHANGE <= new <= old * MAX_CHANGE:
        refreshed.retained[name] = (
            f"it would change from {old.normalize():f} to {new.normalize():f}; --accept-jumps accepts that"
        )
        return False
    if old != new:
        refreshed.changes.append(Change(name, old, new))
    return True


def instance_names() -> list[str]:
    """Return the instance types of the price book."""
    plain = [f"{family}.{size}" for family in FAMILIES for size in SIZES]
    return plain + [f"{family}.{size}" for family in GPU_FAMILIES for size in GPU_SIZES]


def _instances(
    refreshed: Refreshed, price_list: PriceList, ec2: Any, region: str, now: datetime, *, jumps: bool
) -> dict[str, Instance]:
    instances = dict(refreshed.book.instances)
    names = set(instance_names()) | set(instances)
    known = instance_types(ec2, names)
    amounts: dict[str, set[Decimal]] = {}
    for line in price_list.lines("AmazonEC2", {"regionCode": region, **INSTANCES}):
        amounts.setdefault(line.attributes.get("instanceType", ""), set()).add(line.dollars)
    for name in sorted(names):
        old = instances.get(name)
        if name not in known or len(amounts.get(name, ())) != 1:
            if old is not None:
                refreshed.retained[name] = "the region does not have it, or its price is ambiguous"
            continue
        (price,) = amounts[name]
        if _accept(refreshed, name, old.on_demand.dollars if old else None, price, jumps=jumps):
            instances[name] = _instance(name, known[name], price, now, old)
    return instances


def _instance(name: str, properties: InstanceType, price: Decimal, now: datetime, old: Instance | None) -> Instance:
    return Instance(
        name, properties.vcpu, properties.memory, properties.interfaces, properties.addresses, Rate(price, "h"),
        SOURCE, now.date(), old.spot if old else None, old.spot_date if old else None, properties.gpus,
    )  # fmt: skip


def _spot(refreshed: Refreshed, ec2: Any, instances: Mapping[str, Instance], now: datetime) -> dict[str, Instance]:
    """Return the instances with their Spot prices. One without a price in the history stays as it is."""
    prices_by_name = spot_prices(ec2, sorted(instances), now)
    changed: dict[str, Instance] = {}
    for name, instance in instances.items():
        if name not in prices_by_name:
            changed[name] = instance
            continue
        before = instance.spot.dollars if instance.spot else None
        if before != prices_by_name[name]:
            refreshed.changes.append(Change(f"{name} on Spot", before, prices_by_name[name]))
        changed[name] = replace(instance, spot=Rate(prices_by_name[name], "h"), spot_date=now.date())
    return changed
