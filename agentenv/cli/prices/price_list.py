"""Request prices from AWS: the price list, the properties of instance types, and the latest Spot prices."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from statistics import median
from typing import Any

# The Price List API has endpoints in few regions, each with the prices of all regions.
LISTED_IN = "us-east-1"
# Instance types in one request for Spot prices.
NAMES_A_CALL = 50


@dataclass(frozen=True)
class PriceListLine:
    """A line of the price list, with the price of its lowest tier that is not free."""

    usage: str
    attributes: Mapping[str, str]
    dollars: Decimal


@dataclass(frozen=True)
class InstanceType:
    """The properties of an instance type."""

    vcpu: int
    memory: Decimal  # GiB
    interfaces: int
    addresses: int
    gpus: int


class PriceList:
    """The price list, with a cache of its responses."""

    def __init__(self, pricing: Any) -> None:
        self._pricing = pricing
        self._cache: dict[tuple[str, tuple[tuple[str, str], ...]], list[PriceListLine]] = {}

    def lines(self, service: str, matching: Mapping[str, str]) -> list[PriceListLine]:
        """Return the on-demand lines of a service with these attributes."""
        key = service, tuple(sorted(matching.items()))
        if key not in self._cache:
            self._cache[key] = list(self._request(service, matching))
        return self._cache[key]

    def _request(self, service: str, matching: Mapping[str, str]) -> Iterator[PriceListLine]:
        filters = [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in matching.items()]
        pages = self._pricing.get_paginator("get_products").paginate(
            ServiceCode=service, Filters=filters, FormatVersion="aws_v1"
        )
        for page in pages:
            for text in page["PriceList"]:
                yield from _parse_lines(json.loads(text))


def _parse_lines(line: Mapping[str, Any]) -> Iterator[PriceListLine]:
    product: Mapping[str, Any] = line["product"]
    attributes: dict[str, str] = {**product["attributes"], "productFamily": product.get("productFamily", "")}
    for term in line.get("terms", {}).get("OnDemand", {}).values():
        tiers: list[tuple[Decimal, Decimal]] = []
        for tier in term["priceDimensions"].values():
            amount = Decimal(tier["pricePerUnit"].get("USD", "0"))
            if amount > 0:
                tiers.append((Decimal(tier.get("beginRange", "0")), amount))
        if tiers:
            # A free tier applies once for each account, so an environment does not count on it.
            yield PriceListLine(attributes.get("usagetype", ""), attributes, min(tiers)[1])


def instance_types(ec2: Any, names: Iterable[str]) -> dict[str, InstanceType]:
    """Return the properties of instance types, without those that the region does not have."""
    pages = ec2.get_paginator("describe_instance_types").paginate(
        Filters=[{"Name": "instance-type", "Values": sorted({f"{name.partition('.')[0]}.*" for name in names})}]
    )
    requested = set(names)
    found: dict[str, InstanceType] = {}
    for page in pages:
        for row in page["InstanceTypes"]:
            if row["InstanceType"] in requested:
                network = row["NetworkInfo"]
                found[row["InstanceType"]] = InstanceType(
                    row["VCpuInfo"]["DefaultVCpus"],
                    Decimal(row["MemoryInfo"]["SizeInMiB"]) / 1024,
                    network["MaximumNetworkInterfaces"],
                    network["Ipv4AddressesPerInterface"],
                    sum(gpu["Count"] for gpu in row.get("GpuInfo", {}).get("Gpus", [])),
                )
    return found


def spot_prices(ec2: Any, names: Sequence[str], now: datetime) -> dict[str, Decimal]:
    """Return the current Spot price of an hour: the median of the zones, because a launch can be in any of them."""
    found: dict[str, dict[str, tuple[datetime, Decimal]]] = {}
    for first in range(0, len(names), NAMES_A_CALL):
        pages = ec2.get_paginator("describe_spot_price_history").paginate(
            InstanceTypes=list(names[first : first + NAMES_A_CALL]),
            ProductDescriptions=["Linux/UNIX"],
            StartTime=now,
            EndTime=now,
        )
        for page in pages:
            for row in page["SpotPriceHistory"]:
                zones = found.setdefault(row["InstanceType"], {})
                price = row["Timestamp"], Decimal(row["SpotPrice"])
                zones[row["AvailabilityZone"]] = max(price, zones.get(row["AvailabilityZone"], price))
    return {name: median(price for _, price in zones.values()) for name, zones in found.items()}
