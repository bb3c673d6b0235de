"""Makes a region's prices anew: what is found takes the place of what was there, what is not found stays with its date.

A price that is missing from the list, that matches more than one line, or that is suddenly another by far, is not
taken: the old one stays as old as it is, and it is said. A region that had no prices gets them only if all are found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from agentenv.cli.main import Refusal
from agentenv.cli.prices.catalog import CATALOG, INSTANCES, Wanted
from agentenv.cli.prices.price_list import PriceList, Shape, shapes, spot
from agentenv.core.prices.book import Instance, Price, PriceBook
from agentenv.core.prices.names import FAMILIES, GPU_FAMILIES, GPU_SIZES, PRICES, SIZES
from agentenv.core.prices.units import Rate

SOURCE, SPOT_SOURCE = "price-list", "spot-history"
ADDRESSES = {SOURCE: "AWS Price List, GetProducts", SPOT_SOURCE: "Amazon EC2, DescribeSpotPriceHistory"}
# By more than this a price does not change from one look to the next; who knows that it did says so.
JUMP = 3


@dataclass(frozen=True)
class Change:
    """A price that is another."""

    name: str
    old: Decimal | None
    new: Decimal


@dataclass
class Refreshed:
    """A region's prices, and what became of them."""

    book: PriceBook
    changes: list[Change] = field(default_factory=list[Change])
    kept: dict[str, str] = field(default_factory=dict[str, str])  # by name: why the old one stays


@dataclass(frozen=True)
class Sources:
    """Whom to ask."""

    pricing: Any
    ec2: Any


def refresh(
    region: str, old: PriceBook | None, sources: Sources, now: datetime, *, jumps: bool = False, live: bool = True
) -> Refreshed:
    """Look everything up; `jumps` takes prices that changed by far too, `live` looks at Spot."""
    found = Refreshed(old or PriceBook(region, {}, {}, {}))
    prices = dict(found.book.prices)
    listed = PriceList(sources.pricing)
    for name, wanted in CATALOG.items():
        price = _price(listed, wanted, region)
        if isinstance(price, str):
            found.kept[name] = price
            continue
        amount = price + prices[wanted.beside].rate.dollars if wanted.beside in prices else price
        before = prices.get(name)
        if _take(found, name, before.rate.dollars if before else None, amount, jumps=jumps):
            prices[name] = Price(name, Rate(amount, PRICES[name][0]), SOURCE, now.date())
    instances = _instances(found, listed, sources.ec2, region, now, jumps=jumps)
    if live:
        instances = _spot(found, sources.ec2, instances, now)
    if missing := [name for name in PRICES if name not in prices]:
        told = "; ".join(f"{name}: {found.kept.get(name, 'nobody looks for it')}" for name in missing)
        raise Refusal(f"there are no prices of {region} yet, and not all were found, so nothing was written: {told}")
    used = {one.source for one in (*prices.values(), *instances.values())}
    used |= {SPOT_SOURCE for one in instances.values() if one.spot}
    addresses = {name: where for name, where in {**found.book.sources, **ADDRESSES}.items() if name in used}
    found.book = PriceBook(region, prices, instances, addresses)
    return found


def _price(listed: PriceList, wanted: Wanted, region: str) -> Decimal | str:
    """The one price that matches, in our unit; else why there is none."""
    matching = {wanted.where: region, **wanted.attributes}
    amounts = {line.dollars for line in listed.lines(wanted.service, matching) if wanted.is_usage(line.usage)}
    if not amounts:
        return f"no line of {wanted.service} is {wanted.usage}"
    if len(amounts) > 1:
        shown = ", ".join(f"{amount:f}" for amount in sorted(amounts))
        return f"several lines of {wanted.service} are {wanted.usage}, at {shown}"
    return amounts.pop() * wanted.times


def _take(found: Refreshed, name: str, old: Decimal | None, new: Decimal, *, jumps: bool) -> bool:
    """Whether a price is taken, and note it."""
    if old is not None and not jumps and not old / JUMP <= new <= old * JUMP:
        found.kept[name] = f"it would go from {old.normalize():f} to {new.normalize():f}: --accept-jumps takes it"
        return False
    if old != new:
        found.changes.append(Change(name, old, new))
    return True


def wanted_instances() -> list[str]:
    """The types that are looked up."""
    plain = [f"{family}.{size}" for family in FAMILIES for size in SIZES]
    return plain + [f"{family}.{size}" for family in GPU_FAMILIES for size in GPU_SIZES]


def _instances(
    found: Refreshed, listed: PriceList, ec2: Any, region: str, now: datetime, *, jumps: bool
) -> dict[str, Instance]:
    instances = dict(found.book.instances)
    names = set(wanted_instances()) | set(instances)
    known = shapes(ec2, names)
    amounts: dict[str, set[Decimal]] = {}
    for line in listed.lines("AmazonEC2", {"regionCode": region, **INSTANCES}):
        amounts.setdefault(line.attributes.get("instanceType", ""), set()).add(line.dollars)
    for name in sorted(names):
        old = instances.get(name)
        if name not in known or len(amounts.get(name, ())) != 1:
            if old is not None:
                found.kept[name] = "the region does not have it, or its price is not clear"
            continue
        (price,) = amounts[name]
        if _take(found, name, old.on_demand.dollars if old else None, price, jumps=jumps):
            instances[name] = _instance(name, known[name], price, now, old)
    return instances


def _instance(name: str, shape: Shape, price: Decimal, now: datetime, old: Instance | None) -> Instance:
    return Instance(
        name, shape.vcpu, shape.memory, shape.interfaces, shape.addresses, Rate(price, "h"), SOURCE, now.date(),
        old.spot if old else None, old.spot_date if old else None, shape.gpus,
    )  # fmt: skip


def _spot(found: Refreshed, ec2: Any, instances: Mapping[str, Instance], now: datetime) -> dict[str, Instance]:
    """The instances with what they cost on Spot; one that nobody sold stays as it is."""
    seen = spot(ec2, sorted(instances), now)
    changed: dict[str, Instance] = {}
    for name, one in instances.items():
        if name not in seen:
            changed[name] = one
            continue
        before = one.spot.dollars if one.spot else None
        if before != seen[name]:
            found.changes.append(Change(f"{name} on Spot", before, seen[name]))
        changed[name] = replace(one, spot=Rate(seen[name], "h"), spot_date=now.date())
    return changed
