"""Tests of price files: complete, dated and of their region; an invalid file is refused with all its errors."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from datetime import date
from decimal import Decimal
from importlib.resources import files

import pytest

from agentenv.core.prices.book import MissingPricesError, price_book, read_book, regions
from agentenv.core.prices.names import PRICES
from agentenv.core.prices.units import Rate
from agentenv.core.prices.write import price_book_text


def text_of(region: str) -> str:
    return files("agentenv.core.prices").joinpath(f"{region}.toml").read_text(encoding="utf-8")


def test_there_are_prices_of_three_regions_at_least() -> None:
    assert {"us-east-1", "us-west-2", "eu-central-1"} <= set(regions())


@pytest.mark.parametrize("region", regions())
def test_each_file_has_every_price_with_unit_source_and_date(region: str) -> None:
    book = price_book(region)
    assert book.region == region
    assert set(book.prices) == set(PRICES)
    for name, price in book.prices.items():
        assert price.rate.per == PRICES[name][0]
        assert book.sources[price.source].startswith("https://")
        assert date(2025, 1, 1) <= price.date
    assert all(
        instance.on_demand.dollars > 0 and instance.spot != instance.on_demand for instance in book.instances.values()
    )


@pytest.mark.parametrize("region", regions())
def test_a_price_file_round_trips(region: str) -> None:
    book = price_book(region)
    assert read_book(price_book_text(book)) == book
    assert price_book_text(book) == text_of(region)


def test_instance_prices_grow_with_size() -> None:
    for region in regions():
        book = price_book(region)
        for family in book.families():
            by_size = {instance.name.partition(".")[2]: instance for instance in book.of_families([family])}
            for small, large in (("large", "xlarge"), ("xlarge", "2xlarge")):
                if small in by_size and large in by_size and family[0] in "cmrt":
                    pair = (by_size[small].on_demand.dollars * 2, by_size[large].on_demand.dollars)
                    assert abs(pair[0] - pair[1]) <= Decimal("0.0002"), (region, family)


def test_a_region_without_prices_is_refused_with_a_fix() -> None:
    with pytest.raises(
        MissingPricesError, match=r"no prices of sa-east-1.*us-east-1.*prices refresh --region sa-east-1"
    ):
        price_book("sa-east-1")


def test_the_age_of_a_file_is_that_of_its_oldest_price() -> None:
    book = price_book("us-east-1")
    some = next(iter(book.prices.values()))
    older = replace(book, prices={**book.prices, some.name: replace(some, date=date(2020, 1, 1))})
    assert older.age(date(2020, 1, 31)) == 30


@pytest.mark.parametrize(
    ("before", "after", "wrong"),
    [
        ('amount = "0.1", per = "h", source = "eks"', 'amount = 0.1, per = "h", source = "eks"', "written as text"),
        ('amount = "0.1", per = "h", source = "eks"', 'amount = "-0.1", per = "h", source = "eks"', "no amount"),
        ('amount = "0.1", per = "h", source = "eks"', 'amount = "ten", per = "h", source = "eks"', "no number"),
        (
            'amount = "0.1", per = "h", source = "eks"',
            'amount = "73", per = "month", source = "eks"',
            "asked for per h",
        ),
        ('amount = "0.1", per = "h", source = "eks"', 'amount = "0.1", per = "hour", source = "eks"', "no unit"),
        ('amount = "0.1", per = "h", source = "eks"', 'amount = "0.1", per = "h", source = "hearsay"', "its source"),
        ('"eks.cluster" =', '"eks.clusters" =', "nobody asks for it.*eks.cluster: it is missing"),
        ('memory = "8"', 'memory = "eight"', "instances.*no number"),
    ],
)
def test_an_invalid_price_file_is_refused(before: str, after: str, wrong: str) -> None:
    text = text_of("us-east-1")
    assert before in text
    with pytest.raises(ValueError, match=wrong):
        read_book(text.replace(before, after, 1))
    assert tomllib.loads(text)


def test_verified_prices_are_unchanged() -> None:
    """Those of the platform's own arithmetic, which its promises were made by."""
    book = price_book("us-east-1")
    checked = {"eks.cluster": "0.10", "nat.gateway": "0.045", "fargate.vcpu": "0.04048", "fargate.memory": "0.004445"}
    assert {name: book.rate(name) for name in checked} == {
        name: Rate(Decimal(price), "h" if "." in price and name[0] != "f" else book.rate(name).per)
        for name, price in checked.items()
    }
    hours = {
        "m7g.large": "0.0816",
        "m8g.large": "0.08976",
        "m8g.2xlarge": "0.35904",
        "c7g.large": "0.0725",
        "t4g.large": "0.0672",
    }
    assert {name: book.instances[name].on_demand.dollars for name in hours} == {
        name: Decimal(hour) for name, hour in hours.items()
    }
