"""The refresh of prices: all pages, one query for each price, and an atomic file."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import ANY, Stubber

from agentenv.cli.commands import prices as command
from agentenv.cli.main import FAILED, OK, CommandError, main
from agentenv.cli.prices.catalog import CATALOG
from agentenv.cli.prices.price_list import PriceList, instance_types, spot_prices
from agentenv.cli.prices.refresh import MAX_CHANGE, Refreshed, Sources, instance_names, refresh
from agentenv.core.prices.book import PriceBook, price_book, read_book
from agentenv.core.prices.names import PRICES

NOW = datetime(2026, 11, 20, 8, tzinfo=UTC)
KEYS = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "region_name": "us-east-1"}


def product(usage: str, *tiers: tuple[str, str], **attributes: str) -> str:
    """Return a line of the price list."""
    dimensions = {f"d{number}": {"beginRange": begin, "pricePerUnit": {"USD": dollars}}
                  for number, (begin, dollars) in enumerate(tiers)}  # fmt: skip
    return json.dumps(
        {
            "product": {"productFamily": "Family", "attributes": {"usagetype": usage, **attributes}},
            "terms": {"OnDemand": {"t": {"priceDimensions": dimensions}}},
        }
    )


def test_the_price_list_is_read_with_all_pages_and_cached() -> None:
    client: Any = boto3.client("pricing", **KEYS)
    stub = Stubber(client)
    request = {
        "ServiceCode": "AmazonEKS",
        "Filters": [{"Type": "TERM_MATCH", "Field": "regionCode", "Value": "us-east-1"}],
        "FormatVersion": "aws_v1",
    }
    first = product("USE1-AmazonEKS-Hours:perCluster", ("0", "0.1"))
    second = product("USE1-Fargate-GB-Hours", ("0", "0"), ("1000", "0.004"), ("0", "0.0044"))
    stub.add_response("get_products", {"PriceList": [first], "NextToken": "more"}, request)
    stub.add_response("get_products", {"PriceList": [second]}, {**request, "NextToken": "more"})
    listed = PriceList(client)
    with stub:
        lines = listed.lines("AmazonEKS", {"regionCode": "us-east-1"})
        assert listed.lines("AmazonEKS", {"regionCode": "us-east-1"}) == lines
    assert [(line.usage, line.dollars) for line in lines] == [
        ("USE1-AmazonEKS-Hours:perCluster", Decimal("0.1")),
        ("USE1-Fargate-GB-Hours", Decimal("0.0044")),  # the first tier that costs anything
    ]
    stub.assert_no_pending_responses()


def test_the_spot_price_is_the_median_of_the_zones() -> None:
    client: Any = boto3.client("ec2", **KEYS)
    stub = Stubber(client)
    request = {"InstanceTypes": ["m7g.large"], "ProductDescriptions": ["Linux/UNIX"], "StartTime": NOW, "EndTime": NOW}

    def seen(zone: str, price: str, hour: int) -> dict[str, Any]:
        when = datetime(2026, 11, 20, hour, tzinfo=UTC)
        return {"InstanceType": "m7g.large", "AvailabilityZone": zone, "SpotPrice": price, "Timestamp": when}

    pages = [[seen("a", "0.03", 7), seen("a", "0.09", 2)], [seen("b", "0.05", 5), seen("c", "0.04", 6)]]
    stub.add_response("describe_spot_price_history", {"SpotPriceHistory": pages[0], "NextToken": "n"}, request)
    stub.add_response("describe_spot_price_history", {"SpotPriceHistory": pages[1]}, {**request, "NextToken": "n"})
    with stub:
        assert spot_prices(client, ["m7g.large"], NOW) == {"m7g.large": Decimal("0.04")}
    stub.assert_no_pending_responses()


def test_the_properties_of_instance_types_come_from_the_region() -> None:
    client: Any = boto3.client("ec2", **KEYS)
    stub = Stubber(client)
    output = {
        "InstanceType": "g6.xlarge", "VCpuInfo": {"DefaultVCpus": 4}, "MemoryInfo": {"SizeInMiB": 16384},
        "NetworkInfo": {"MaximumNetworkInterfaces": 4, "Ipv4AddressesPerInterface": 15},
        "GpuInfo": {"Gpus": [{"Count": 1}]},
    }  # fmt: skip
    other = {**output, "InstanceType": "g6.48xlarge"}
    stub.add_response("describe_instance_types", {"InstanceTypes": [output, other]}, {"Filters": ANY})
    with stub:
        ((name, shape),) = instance_types(client, ["g6.xlarge"]).items()
    assert (name, shape.vcpu, shape.memory, shape.gpus) == ("g6.xlarge", 4, Decimal(16), 1)


class Listing:
    """A price list and a region with fixed responses."""

    def __init__(self, book: PriceBook, factor: Decimal = Decimal(1)) -> None:
        self.lines: dict[str, list[str]] = {}
        for name, query in CATALOG.items():
            amount = book.prices[name].rate.dollars
            if query.on_top_of:
                amount -= book.prices[query.on_top_of].rate.dollars
            usage = "EUC1-" + query.usage.replace("\\", "").split("(")[0]
            text = product(usage, ("0", str(amount * factor / query.factor)), **query.attributes)
            line = json.loads(text)
            line["product"]["productFamily"] = query.attributes.get("productFamily", "")
            self.lines.setdefault(self.key(query.service, query.attributes), []).append(json.dumps(line))
        self.book, self.factor = book, factor

    @staticmethod
    def key(service: str, attributes: Any) -> str:
        return service + json.dumps(sorted(attributes.items()))

    def get_paginator(self, name: str) -> Any:
        self.request = name
        return self

    def paginate(self, **request: Any) -> list[dict[str, Any]]:
        if self.request == "get_products":
            matching = {filter_["Field"]: filter_["Value"] for filter_ in request["Filters"]}
            matching = {key: value for key, value in matching.items() if not key.lower().endswith("regioncode")}
            if "marketoption" in matching:
                return [{"PriceList": [self._instance(name) for name in self.book.instances]}]
            return [{"PriceList": self.lines.get(self.key(request["ServiceCode"], matching), [])}]
        if self.request == "describe_instance_types":
            return [{"InstanceTypes": [self._shape(name) for name in self.book.instances]}]
        prices = [{"InstanceType": name, "AvailabilityZone": "a", "SpotPrice": "0.01", "Timestamp": NOW}
                  for name in request["InstanceTypes"]]  # fmt: skip
        return [{"SpotPriceHistory": prices}]

    def _instance(self, name: str) -> str:
        price = self.book.instances[name].on_demand.dollars * self.factor
        return product(f"BoxUsage:{name}", ("0", str(price)), instanceType=name)

    def _shape(self, name: str) -> dict[str, Any]:
        instance = self.book.instances[name]
        return {
            "InstanceType": name, "VCpuInfo": {"DefaultVCpus": instance.vcpu},
            "MemoryInfo": {"SizeInMiB": int(instance.memory * 1024)},
            "NetworkInfo": {
                "MaximumNetworkInterfaces": instance.interfaces,
                "Ipv4AddressesPerInterface": instance.addresses,
            },
            "GpuInfo": {"Gpus": [{"Count": instance.gpus}]},
        }  # fmt: skip


@pytest.fixture
def book() -> PriceBook:
    return price_book("us-east-1")


def refreshed(book: PriceBook | None, listing: Listing, **how: bool) -> Refreshed:
    return refresh("us-east-1", book, Sources(listing, listing), NOW, **how)


def test_every_price_has_a_query() -> None:
    assert CATALOG.keys() == PRICES.keys()
    assert {"m7g.large", "c8i.4xlarge", "g6.xlarge"} <= set(instance_names())


def test_unchanged_prices_get_a_new_date_alone(book: PriceBook) -> None:
    found = refreshed(book, Listing(book), live=False)
    assert (found.changes, found.retained) == ([], {})
    assert {price.date for price in found.book.prices.values()} == {NOW.date()}
    assert {name: price.rate for name, price in found.book.prices.items()} == {
        name: price.rate for name, price in book.prices.items()
    }
    assert found.book.instances.keys() == book.instances.keys()


def test_spot_prices_have_their_own_date(book: PriceBook) -> None:
    instance = refreshed(book, Listing(book)).book.instances["m7g.large"]
    assert instance.spot is not None
    assert (instance.spot.dollars, instance.spot_date) == (Decimal("0.01"), date(2026, 11, 20))


def test_changes_are_listed_and_large_changes_are_not_accepted(book: PriceBook) -> None:
    dearer = refreshed(book, Listing(book, Decimal("1.1")), live=False)
    assert {change.name for change in dearer.changes} >= set(PRICES)
    jumped = refreshed(book, Listing(book, Decimal(MAX_CHANGE + 1)), live=False)
    assert jumped.changes == []
    assert jumped.book.prices == book.prices
    assert "--accept-jumps" in jumped.retained["nat.gateway"]
    taken = refreshed(book, Listing(book, Decimal(MAX_CHANGE + 1)), live=False, jumps=True)
    assert taken.book.rate("nat.gateway").dollars == book.rate("nat.gateway").dollars * (MAX_CHANGE + 1)


def test_a_missing_or_ambiguous_price_keeps_its_old_value(book: PriceBook) -> None:
    listing = Listing(book)
    del listing.lines[listing.key("AWSBackup", {})]
    key = listing.key("AmazonEKS", {})
    listing.lines[key].append(product("EUC1-AmazonEKS-Hours:perCluster", ("0", "0.2")))
    found = refreshed(book, listing, live=False)
    assert found.retained.keys() == {"backup.efs", "eks.cluster"}
    assert "several lines" in found.retained["eks.cluster"]
    assert found.book.prices["backup.efs"] == book.prices["backup.efs"]


def test_a_region_without_prices_gets_all_or_none(book: PriceBook) -> None:
    listing = Listing(book)
    assert refreshed(None, listing).book.prices.keys() == PRICES.keys()
    del listing.lines[listing.key("AWSBackup", {})]
    with pytest.raises(CommandError, match=r"nothing was written: backup\.efs: no line of AWSBackup"):
        refreshed(None, listing)


def test_a_written_price_book_is_read_back(book: PriceBook, tmp_path: Path) -> None:
    found = refreshed(book, Listing(book, Decimal("1.25")))
    command.write(tmp_path / "us-east-1.toml", found)
    assert read_book((tmp_path / "us-east-1.toml").read_text()) == found.book
    assert [path.name for path in tmp_path.iterdir()] == ["us-east-1.toml"]


def test_a_failed_write_leaves_the_old_file(book: PriceBook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "us-east-1.toml"
    file.write_text("as it was")

    def broken(_: Path, __: object) -> None:
        raise OSError("no room")

    found = refreshed(book, Listing(book))
    monkeypatch.setattr(Path, "replace", broken)
    with pytest.raises(CommandError, match=r"us-east-1\.toml cannot be written: no room"):
        command.write(file, found)
    assert [path.name for path in tmp_path.iterdir()] == ["us-east-1.toml"]
    assert file.read_text() == "as it was"


def test_the_command_writes_the_file_and_lists_the_changes(
    book: PriceBook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    listing = Listing(book, Decimal("1.1"))
    monkeypatch.setattr(command, "_client", lambda *_: listing)
    assert main(["prices", "refresh", "--region", "us-east-1", "--no-spot", "--out", str(tmp_path), "--json"]) == OK
    output = capsys.readouterr().out
    (result,) = json.loads(output.splitlines()[-1])["written"]
    assert (result["region"], result["kept"]) == ("us-east-1", {})
    assert {"name": "nat.gateway", "old": 0.045, "new": 0.0495} in result["changed"]
    assert Path(result["file"]).is_file()


@pytest.mark.parametrize("region", ["../x", "us-esat-1", "us-east-1\n", ""])
def test_an_invalid_region_is_an_error_before_any_request(
    region: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "_client", lambda *_: pytest.fail("somebody was asked"))
    assert main(["prices", "refresh", "--region", "us-east-1", "--region", region, "--out", str(tmp_path)]) == FAILED
    assert f"{region!r} is not an AWS region" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_aws_is_printed_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    client: Any = boto3.client("pricing", **KEYS)
    stub = Stubber(client)
    stub.add_client_error("get_products", "AccessDeniedException", "not allowed to ask")
    monkeypatch.setattr(command, "_client", lambda *_: client)
    with stub:
        assert main(["prices", "refresh", "--region", "us-east-1", "--out", str(tmp_path)]) == FAILED
    assert "not allowed to ask" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
