"""Write the price book of a region as TOML: one line for each price, in a stable order."""

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
    """Return the text of the file; `read_book` returns the same price book from it."""
    sources = "".join(f"{_text(name)} = {_text(where)}\n" for name, where in sorted(book.sources.items()))
    ordered = [book.prices[name] for name in PRICES if name in book.prices]
    prices = "".join(f"{_text(instance.name)} = {_row(_price(instance))}\n" for instance in ordered)
    kinds = sorted(book.instances.values(), key=lambda instance: (instance.family, instance.vcpu, instance.memory))
    instances = "".join(f"{_text(instance.name)} = {_row(_instance(instance))}\n" for instance in kinds)
    return (
        f"{HEADER.format(region=book.region)}region = {_text(book.region)}\n\n[sources]\n{sources}\n"
        f"[prices]\n{prices}\n[instances]\n{instances}"
    )


def _price(price: Price) -> Mapping[str, object]:
    return {"amount": price.rate.dollars, "per": price.rate.per, "source": price.source, "date": price.date}


def _instance(instance: Instance) -> Mapping[str, object]:
    row: dict[str, object] = {
        "vcpu": instance.vcpu,
        "memory": instance.memory,
        "interfaces": instance.interfaces,
        "addresses": instance.addresses,
        "on_demand": instance.on_demand.dollars,
    }
    if instance.spot is not None and instance.spot_date is not None:
        row |= {"spot": instance.spot.dollars, "spot_date": instance.spot_date}
    if instance.gpus:
        row["gpus"] = instance.gpus
    return {**row, "source": instance.source, "date": instance.date}


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
