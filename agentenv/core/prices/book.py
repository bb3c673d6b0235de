"""The price book of a region, read from its file and validated. Prices are never taken from another region."""

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
    """A region or a price is missing; the message lists the available ones and the fix."""


@dataclass(frozen=True)
class Price:
    """A price with its source and date."""

    name: str
    rate: Rate
    source: str
    date: date


@dataclass(frozen=True)
class Instance:
    """An instance type: its resources, and its hourly price."""

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
        """Return the instance family."""
        return self.name.partition(".")[0]

    @property
    def architecture(self) -> str:
        """Return the CPU architecture, as in Kubernetes."""
        return processor(self.family)


@dataclass(frozen=True)
class PriceBook:
    """All prices of a region."""

    region: str
    prices: Mapping[str, Price]
    instances: Mapping[str, Instance]
    sources: Mapping[str, str]  # by name: the address of the page, or who said it

    def rate(self, name: str) -> Rate:
        """Return a price by its name."""
        if name not in self.prices:
            raise MissingPricesError(f"the prices of {self.region} have no {name}")
        return self.prices[name].rate

    def of_families(self, families: Iterable[str]) -> list[Instance]:
        """Return the instances of families with prices, cheapest first."""
        selected = set(families)
        instances = [instance for instance in self.instances.values() if instance.family in selected]
        return sorted(instances, key=lambda instance: (instance.on_demand.dollars, instance.name))

    def families(self) -> set[str]:
        """Return the instance families with prices."""
        return {instance.family for instance in self.instances.values()}

    @property
    def date(self) -> date:
        """Return the date of the oldest price."""
        return min(price.date for price in (*self.prices.values(), *self.instances.values()))

    def age(self, today: date) -> int:
        """Return the age of the oldest price in days."""
        return (today - self.date).days


def regions() -> tuple[str, ...]:
    """Return the regions with prices."""
    return tuple(
        sorted(
            file.name.removesuffix(".toml") for file in files("agentenv.core.prices").iterdir() if _is_file(file.name)
        )
    )


@cache
def price_book(region: str) -> PriceBook:
    """Return the price book of a region; raise `MissingPricesError` without one."""
    if region not in regions():
        raise MissingPricesError(
            f"there are no prices of {region}, and those of another region would be wrong; there are prices of "
            f"{', '.join(regions())}. `agentenv prices refresh --region {region}` looks them up"
        )
    text = files("agentenv.core.prices").joinpath(f"{region}.toml").read_text(encoding="utf-8")
    return read_book(text)


def read_book(text: str) -> PriceBook:
    """Return the price book of a file's text; raise `ValueError` with all mistakes in it."""
    document: dict[str, Any] = tomllib.loads(text)
    mistakes: list[str] = []
    sources: dict[str, str] = document.get("sources", {})
    prices: dict[str, Price] = {}
    rows: dict[str, Any] = document.get("prices", {})
    for name, row in rows.items():
        try:
            prices[name] = Price(name, _rate(row["amount"], row["per"]), _source(row, sources), _day(row["date"]))
        except (KeyError, ValueError, TypeError) as error:
            mistakes.append(f"prices.{name}: {_message(error)}")
            continue
        if name not in PRICES:
            mistakes.append(f"prices.{name}: nobody asks for it")
        elif PRICES[name][0] != prices[name].rate.per:
            mistakes.append(f"prices.{name}: it is in dollars per {row['per']}, and is asked for per {PRICES[name][0]}")
    mistakes += [f"prices.{name}: it is missing" for name in PRICES if name not in rows]
    instances: dict[str, Instance] = {}
    kinds: dict[str, Any] = document.get("instances", {})
    for name, row in kinds.items():
        try:
            instances[name] = _instance(name, row, sources)
        except (KeyError, ValueError, TypeError) as error:
            mistakes.append(f"instances.{name}: {_message(error)}")
    if not instances:
        mistakes.append("instances: there are none")
    if mistakes:
        raise ValueError(f"the prices of {document.get('region', 'a region without a name')}: " + "; ".join(mistakes))
    return PriceBook(str(document["region"]), prices, instances, sources)


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
    """Return a number from text; text avoids a conversion to float."""
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


def _message(error: Exception) -> str:
    return f"it has no {error}" if isinstance(error, KeyError) else str(error)


def _is_file(name: str) -> bool:
    return name.endswith(".toml")
