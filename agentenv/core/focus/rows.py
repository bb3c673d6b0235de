"""A statement as FOCUS rows: one for each owner, day, class and part. They add up to the bill.

The provider is the platform, whose customers are owners (sub accounts); the publisher and the invoice are AWS's. There
is no price list of attributed shares, so there are quantities and no unit prices.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from agentenv.core.attribution.apportion import dollars
from agentenv.core.attribution.statement import Statement
from agentenv.core.attribution.types import MEANINGS, METERED, NOBODY, TITLES, Entry, Part
from agentenv.core.ledger.rows import NO_POD, NOTHING, Row

Value = str | Decimal | datetime | bool | None
FocusRow = dict[str, Value]
_GIGABYTE = Decimal(10**9)

# By part: category, subcategory, service.
_SERVICES: Mapping[Part, tuple[str, str, str]] = {
    "compute": ("Compute", "Virtual Machines", "Amazon Elastic Compute Cloud"),
    "idle": ("Compute", "Virtual Machines", "Amazon Elastic Compute Cloud"),
    "pool": ("Compute", "Virtual Machines", "Amazon Elastic Compute Cloud"),
    "storage": ("Storage", "File Storage", "Amazon Elastic File System"),
    "storage_io": ("Storage", "File Storage", "Amazon Elastic File System"),
    "network": ("Networking", "Network Connectivity", "Amazon Virtual Private Cloud"),
    "fixed": ("Management and Governance", "Other (Management and Governance)", "Agent environment platform"),
}
_UNITS: Mapping[Part, str] = {"compute": "Hours", "storage": "GiB-Hours", "network": "GB"}


@dataclass(frozen=True)
class FocusContext:
    """The values that are the same in every row."""

    environment: str
    account: str
    region: str | None = None
    publisher: str = "Amazon Web Services"


Used = dict[tuple[str, str, str, Part], Decimal]


def metered_quantities(rows: Iterable[Row]) -> Used:
    """Return metered quantities by owner, day, class and part."""
    quantities: defaultdict[tuple[str, str, str, Part], Decimal] = defaultdict(lambda: NOTHING)
    for row in rows:
        context = (row.owner, row.day, row.sandbox_class)
        if row.pod != NO_POD:
            quantities[*context, "compute"] += row.seconds / 3600
        quantities[*context, "storage"] += row.storage_gib_hours
        quantities[*context, "network"] += row.network_bytes / _GIGABYTE
    return dict(quantities)


def focus_rows(statement: Statement, amounts: Used, context: FocusContext) -> Iterator[FocusRow]:
    """Yield the rows, ordered by day and owner."""
    ordered = sorted(statement.entries.items(), key=lambda item: (item[0].day, item[0].owner, item[0].part))
    for entry, grains in ordered:
        yield _row(entry, dollars(grains), amounts, context)


def _row(entry: Entry, cost: Decimal, amounts: Used, context: FocusContext) -> FocusRow:
    category, subcategory, service = _SERVICES[entry.part]
    day = datetime.strptime(entry.day, "%Y-%m-%d").replace(tzinfo=UTC)
    month = day.replace(day=1)
    metered = entry.part in METERED
    key = (entry.owner, entry.day, entry.sandbox_class, entry.part)
    quantity = amounts.get(key, NOTHING).quantize(Decimal("0.000001")) if metered else Decimal(1)
    unit = _UNITS.get(entry.part, "Days")
    owned = entry.owner != NOBODY
    tags = {"environment": context.environment, "sandbox-user": entry.owner if owned else None}
    if entry.sandbox_class:
        tags["sandbox-class"] = entry.sandbox_class
    return {
        "AvailabilityZone": None,
        "BilledCost": cost,
        "BillingAccountId": context.account,
        "BillingAccountName": context.environment,
        "BillingAccountType": "Environment",
        "BillingCurrency": "USD",
        "BillingPeriodEnd": (month + timedelta(days=32)).replace(day=1),
        "BillingPeriodStart": month,
        "ChargeCategory": "Usage",
        "ChargeClass": None,
        "ChargeDescription": f"{TITLES[entry.part]}: {MEANINGS[entry.part]}",
        "ChargeFrequency": "Usage-Based" if entry.part != "fixed" else "Recurring",
        "ChargePeriodEnd": day + timedelta(days=1),
        "ChargePeriodStart": day,
        "ConsumedQuantity": quantity,
        "ConsumedUnit": unit,
        "ContractedCost": cost,
        "EffectiveCost": cost,
        "InvoiceId": None,
        "InvoiceIssuerName": context.publisher,
        "ListCost": cost,
        "PricingCategory": "Other",
        "PricingQuantity": quantity,
        "PricingUnit": unit,
        "ProviderName": "agent-environment",
        "PublisherName": context.publisher,
        "RegionId": context.region,
        "RegionName": context.region,
        "ResourceId": None,
        "ResourceName": None,
        "ResourceType": None,
        "ServiceCategory": category,
        "ServiceName": service,
        "ServiceSubcategory": subcategory,
        "SubAccountId": entry.owner if owned else None,
        "SubAccountName": entry.owner if owned else None,
        "SubAccountType": "Owner" if owned else None,
        "Tags": json.dumps(tags, sort_keys=True),
        "x_CostPart": entry.part,
        "x_IsMetered": metered,
        "x_SandboxClass": entry.sandbox_class or None,
    }
