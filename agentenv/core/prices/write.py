"""Puts the prices of a region into the words of its file: a line a price, in an order that makes a change readable."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from decimal import Decimal

from agentenv.core.prices.book import Instance, Price, PriceBook
from agentenv.core.prices.names import PRICES

HEADER = """# The prices of {region}, in dollars: a line each, with its unit, where it was seen, and when.
# `agentenv prices refresh --region {region}` looks them all up again and writes this file.
"""


def price_book_text(book: PriceBook) -> str:
    """The whole file; reading it again gives the same book."""
    sources = "".join(f"{_text(name)} = {_text(where)}\n" for name, where in sorted(book.sources.items()))
    ordered = [book.prices[name] for name in PRICES if name in book.prices]
    prices = "".join(f"{_text(one.name)} = {_row(_price(one))}\n" for one in ordered)
    kinds = sorted(book.instances.values(), key=lambda one: (one.family, one.vcpu, one.memory))
    instances = "".join(f"{_text(one.name)} = {_row(_instance(one))}\n" for one in kinds)
    return (
        f"{HEADER.format(region=book.region)}region = {_text(book.region)}\n\n[sources]\n{sources}\n"
        f"[prices]\n{prices}\n[instances]\n{instances}"
    )


def _price(one: Price) -> Mapping[str, object]:
    return {"amount": one.rate.dollars, "per": one.rate.per, "source": one.source, "date": one.date}


def _instance(one: Instance) -> Mapping[str, object]:
    row: dict[str, object] = {
        "vcpu": one.vcpu,
        "memory": one.memory,
        "interfaces": one.interfaces,
        "addresses": one.addresses,
        "on_demand": one.on_demand.dollars,
    }
    if one.spot is not None and one.spot_date is not None:
        row |= {"spot": one.spot.dollars, "spot_date": one.spot_date}
    if one.gpus:
        row["gpus"] = one.gpus
    return {**row, "source": one.source, "date": one.date}


def _row(values: Mapping[str, object]) -> str:
    return "{ " + ", ".join(f"{key} = {_value(value)}" for key, value in values.items()) + " }"


def _value(value: object) -> str:
    if isinstance(value, Decimal):
        return _text(f"{value.normalize():f}")
    if isinstance(value, date):
        return value.isoformat()
    return str(value) if isinstance(value, int) else _text(str(value))


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
