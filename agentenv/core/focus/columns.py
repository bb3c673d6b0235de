"""The columns of FOCUS 1.2: type, feature level, nullability and allowed values.

Columns of commitment discounts, capacity reservations and other currencies are omitted, because an attribution has
none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

VERSION = "1.2"

Type = Literal["decimal", "string", "moment", "pairs"]
Level = Literal["mandatory", "conditional", "recommended"]

CATEGORIES: Mapping[str, tuple[str, ...]] = {
    "Compute": ("Containers", "Serverless Compute", "Virtual Machines", "Other (Compute)"),
    "Storage": ("Backup Storage", "Block Storage", "File Storage", "Object Storage", "Other (Storage)"),
    "Networking": ("Application Networking", "Network Connectivity", "Network Infrastructure", "Other (Networking)"),
    "Management and Governance": (
        *("Cost Management", "Observability", "Support"),
        "Other (Management and Governance)",
    ),
    "Other": ("Other (Other)",),
}


@dataclass(frozen=True)
class Column:
    """A column of FOCUS."""

    name: str
    type: Type = "string"
    level: Level = "mandatory"
    nullable: bool = False
    allowed: tuple[str, ...] = ()


COLUMNS: tuple[Column, ...] = (
    Column("AvailabilityZone", level="recommended", nullable=True),
    Column("BilledCost", "decimal"),
    Column("BillingAccountId"),
    Column("BillingAccountName", nullable=True),
    Column("BillingAccountType", level="conditional"),
    Column("BillingCurrency"),
    Column("BillingPeriodEnd", "moment"),
    Column("BillingPeriodStart", "moment"),
    Column("ChargeCategory", allowed=("Usage", "Purchase", "Tax", "Credit", "Adjustment")),
    Column("ChargeClass", nullable=True, allowed=("Correction",)),
    Column("ChargeDescription", nullable=True),
    Column("ChargeFrequency", level="recommended", allowed=("One-Time", "Recurring", "Usage-Based")),
    Column("ChargePeriodEnd", "moment"),
    Column("ChargePeriodStart", "moment"),
    Column("ConsumedQuantity", "decimal", "conditional", nullable=True),
    Column("ConsumedUnit", level="conditional", nullable=True),
    Column("ContractedCost", "decimal"),
    Column("ContractedUnitPrice", "decimal", "conditional", nullable=True),
    Column("EffectiveCost", "decimal"),
    Column("InvoiceId", level="recommended", nullable=True),
    Column("InvoiceIssuerName"),
    Column("ListCost", "decimal"),
    Column("ListUnitPrice", "decimal", "conditional", nullable=True),
    Column(
        "PricingCategory", level="conditional", nullable=True, allowed=("Standard", "Dynamic", "Committed", "Other")
    ),
    Column("PricingQuantity", "decimal", nullable=True),
    Column("PricingUnit", nullable=True),
    Column("ProviderName"),
    Column("PublisherName"),
    Column("RegionId", level="conditional", nullable=True),
    Column("RegionName", level="conditional", nullable=True),
    Column("ResourceId", level="conditional", nullable=True),
    Column("ResourceName", level="conditional", nullable=True),
    Column("ResourceType", level="conditional", nullable=True),
    Column("ServiceCategory", allowed=tuple(CATEGORIES)),
    Column("ServiceName"),
    Column(
        "ServiceSubcategory",
        level="recommended",
        allowed=tuple(column for subcategories in CATEGORIES.values() for column in subcategories),
    ),
    Column("SkuId", level="conditional", nullable=True),
    Column("SkuMeter", level="conditional", nullable=True),
    Column("SkuPriceDetails", "pairs", "conditional", nullable=True),
    Column("SkuPriceId", level="conditional", nullable=True),
    Column("SubAccountId", level="conditional", nullable=True),
    Column("SubAccountName", level="conditional", nullable=True),
    Column("SubAccountType", level="conditional", nullable=True),
    Column("Tags", "pairs", "conditional", nullable=True),
)
BY_NAME: Mapping[str, Column] = {column.name: column for column in COLUMNS}
