"""Asks AWS what things cost: the price list, what instances are, and what Spot was sold for last. Page after page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from statistics import median
from typing import Any

# A price list is served in few regions, for all of them.
LISTED_IN = "us-east-1"
# As many names as one call for Spot prices takes without being too long.
NAMES_A_CALL = 50


@dataclass(frozen=True)
class Listed:
    """A line of the list: what it is, and its lowest tier that costs anything."""

    usage: str
    attributes: Mapping[str, str]
    dollars: Decimal


@dataclass(frozen=True)
class Shape:
    """What a type of instance is."""

    vcpu: int
    memory: Decimal  # GiB
    interfaces: int
    addresses: int
    gpus: int


class PriceList:
    """The price list; what was asked once is not asked again."""

    def __init__(self, pricing: Any) -> None:
        self._pricing = pricing
        self._known: dict[tuple[str, tuple[tuple[str, str], ...]], list[Listed]] = {}

    def lines(self, service: str, matching: Mapping[str, str]) -> list[Listed]:
        """The lines of a service with these attributes that are paid as one goes."""
        key = service, tuple(sorted(matching.items()))
        if key not in self._known:
            self._known[key] = list(self._asked(service, matching))
        return self._known[key]

    def _asked(self, service: str, matching: Mapping[str, str]) -> Iterator[Listed]:
        filters = [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in matching.items()]
        pages = self._pricing.get_paginator("get_products").paginate(
            ServiceCode=service, Filters=filters, FormatVersion="aws_v1"
        )
        for page in pages:
            for text in page["PriceList"]:
                yield from _listed(json.loads(text))


def _listed(line: Mapping[str, Any]) -> Iterator[Listed]:
    product: Mapping[str, Any] = line["product"]
    attributes: dict[str, str] = {**product["attributes"], "productFamily": product.get("productFamily", "")}
    for term in line.get("terms", {}).get("OnDemand", {}).values():
        tiers: list[tuple[Decimal, Decimal]] = []
        for tier in term["priceDimensions"].values():
            amount = Decimal(tier["pricePerUnit"].get("USD", "0"))
            if amount > 0:
                tiers.append((Decimal(tier.get("beginRange", "0")), amount))
        if tiers:
            # What is free at first is free once an account, and not for an environment.
            yield Listed(attributes.get("usagetype", ""), attributes, min(tiers)[1])


def shapes(ec2: Any, names: Iterable[str]) -> dict[str, Shape]:
    """What instances are; those that a region does not have are left out."""
    pages = ec2.get_paginator("describe_instance_types").paginate(
        Filters=[{"Name": "instance-type", "Values": sorted({f"{name.partition('.')[0]}.*" for name in names})}]
    )
    wanted = set(names)
    found: dict[str, Shape] = {}
    for page in pages:
        for one in page["InstanceTypes"]:
            if one["InstanceType"] in wanted:
                network = one["NetworkInfo"]
                found[one["InstanceType"]] = Shape(
                    one["VCpuInfo"]["DefaultVCpus"],
                    Decimal(one["MemoryInfo"]["SizeInMiB"]) / 1024,
                    network["MaximumNetworkInterfaces"],
                    network["Ipv4AddressesPerInterface"],
                    sum(gpu["Count"] for gpu in one.get("GpuInfo", {}).get("Gpus", [])),
                )
    return found


def spot(ec2: Any, names: Sequence[str], now: datetime) -> dict[str, Decimal]:
    """What an hour on Spot costs at this moment: the middle of a region's zones, where a launch may end up in any."""
    found: dict[str, dict[str, tuple[datetime, Decimal]]] = {}
    for first in range(0, len(names), NAMES_A_CALL):
        pages = ec2.get_paginator("describe_spot_price_history").paginate(
            InstanceTypes=list(names[first : first + NAMES_A_CALL]),
            ProductDescriptions=["Linux/UNIX"],
            StartTime=now,
            EndTime=now,
        )
        for page in pages:
            for one in page["SpotPriceHistory"]:
                zones = found.setdefault(one["InstanceType"], {})
                seen = one["Timestamp"], Decimal(one["SpotPrice"])
                zones[one["AvailabilityZone"]] = max(seen, zones.get(one["AvailabilityZone"], seen))
    return {name: median(price for _, price in zones.values()) for name, zones in found.items()}
