"""The prices of a region, as its file has them: read once, checked whole, and never guessed for another region."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from functools import cache
from importlib.resources import files
from typing import Any

from agentenv.core.nodes.node_pools import processor
from agentenv.core.prices.names import PRICES
from agentenv.core.prices.units import UNITS, Rate, Unit, exact

STALE_DAYS = 180


class MissingPricesError(LookupError):
    """There are no prices of a region, or not that one: what is there, and what to do."""


@dataclass(frozen=True)
class Price:
    """One price: where it was seen, and on which day."""

    name: str
    rate: Rate
    source: str
    date: date


@dataclass(frozen=True)
class Instance:
    """A type of instance: what it holds, and what an hour of it costs."""

    name: str
    vcpu: int
    memory: Decimal  # GiB
    interfaces: int
    addresses: int  # of IPv4, on each interface
    on_demand: Rate
    source: str
    date: date
    spot: Rate | None = None  # as it was seen last; None where nobody has looked
    spot_date: date | None = None
    gpus: int = 0

    @property
    def family(self) -> str:
        """Its family."""
        return self.name.partition(".")[0]

    @property
    def architecture(self) -> str:
        """Its processors, as Kubernetes calls them."""
        return processor(self.family)


@dataclass(frozen=True)
class PriceBook:
    """All prices of one region."""

    region: str
    prices: Mapping[str, Price]
    instances: Mapping[str, Instance]
    sources: Mapping[str, str]  # by name: the address of the page, or who said it

    def rate(self, name: str) -> Rate:
        """A price by its name."""
        if name not in self.prices:
            raise MissingPricesError(f"the prices of {self.region} have no {name}")
        return self.prices[name].rate

    def of_families(self, families: Iterable[str]) -> list[Instance]:
        """The instances of families, cheapest first; those of families without prices are left out."""
        wanted = set(families)
        found = [one for one in self.instances.values() if one.family in wanted]
        return sorted(found, key=lambda one: (one.on_demand.dollars, one.name))

    def families(self) -> set[str]:
        """The families that have prices."""
        return {one.family for one in self.instances.values()}

    @property
    def date(self) -> date:
        """The day of the oldest price."""
        return min(one.date for one in (*self.prices.values(), *self.instances.values()))

    def age(self, today: date) -> int:
        """How many days ago the oldest price was looked at."""
        return (today - self.date).days


def regions() -> tuple[str, ...]:
    """The regions that have prices."""
    return tuple(
        sorted(one.name.removesuffix(".toml") for one in files("agentenv.core.prices").iterdir() if _is_file(one.name))
    )


@cache
def price_book(region: str) -> PriceBook:
    """The prices of a region; `MissingPricesError` with the way out where there are none."""
    if region not in regions():
        raise MissingPricesError(
            f"there are no prices of {region}, and those of another region would be wrong; there are prices of "
            f"{', '.join(regions())}. `agentenv prices refresh --region {region}` looks them up"
        )
    text = files("agentenv.core.prices").joinpath(f"{region}.toml").read_text(encoding="utf-8")
    return read_book(text)


def read_book(text: str) -> PriceBook:
    """The prices that a file holds; `ValueError` with all that is wrong in it."""
    found: dict[str, Any] = tomllib.loads(text)
    wrong: list[str] = []
    sources: dict[str, str] = found.get("sources", {})
    prices: dict[str, Price] = {}
    rows: dict[str, Any] = found.get("prices", {})
    for name, row in rows.items():
        try:
            prices[name] = Price(name, _rate(row["amount"], row["per"]), _source(row, sources), _day(row["date"]))
        except (KeyError, ValueError, TypeError) as error:
            wrong.append(f"prices.{name}: {_told(error)}")
            continue
        if name not in PRICES:
            wrong.append(f"prices.{name}: nobody asks for it")
        elif PRICES[name][0] != prices[name].rate.per:
            wrong.append(f"prices.{name}: it is in dollars per {row['per']}, and is asked for per {PRICES[name][0]}")
    wrong += [f"prices.{name}: it is missing" for name in PRICES if name not in rows]
    instances: dict[str, Instance] = {}
    kinds: dict[str, Any] = found.get("instances", {})
    for name, row in kinds.items():
        try:
            instances[name] = _instance(name, row, sources)
        except (KeyError, ValueError, TypeError) as error:
            wrong.append(f"instances.{name}: {_told(error)}")
    if not instances:
        wrong.append("instances: there are none")
    if wrong:
        raise ValueError(f"the prices of {found.get('region', 'a region without a name')}: " + "; ".join(wrong))
    return PriceBook(str(found["region"]), prices, instances, sources)


def _instance(name: str, row: dict[str, Any], sources: Mapping[str, str]) -> Instance:
    return Instance(
        name,
        int(row["vcpu"]),
        _number(row["memory"]),
        int(row["interfaces"]),
        int(row["addresses"]),
        _rate(row["on_demand"], "h"),
        _source(row, sources),
        _day(row["date"]),
        _rate(row["spot"], "h") if "spot" in row else None,
        _day(row["spot_date"]) if "spot" in row else None,
        int(row.get("gpus", 0)),
    )


def _rate(amount: object, per: str) -> Rate:
    if per not in UNITS:
        raise ValueError(f"{per!r} is no unit")
    unit: Unit = per
    return Rate(_number(amount), unit)


def _number(value: object) -> Decimal:
    """A number that is written as text, so that no reader makes a float of it on the way."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} has to be written as text, in quotes")
    try:
        number = exact(value)
    except InvalidOperation:
        raise ValueError(f"{value!r} is no number") from None
    if not number.is_finite() or number <= 0:
        raise ValueError(f"{value!r} is no amount of anything")
    return number


def _source(row: Mapping[str, Any], sources: Mapping[str, str]) -> str:
    if row["source"] not in sources:
        raise ValueError(f"its source {row['source']!r} is not among the sources")
    return str(row["source"])


def _day(value: object) -> date:
    if not isinstance(value, date):
        raise TypeError(f"{value!r} is no day")
    return value


def _told(error: Exception) -> str:
    return f"it has no {error}" if isinstance(error, KeyError) else str(error)


def _is_file(name: str) -> bool:
    return name.endswith(".toml")
