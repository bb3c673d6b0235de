"""The columns of the export, their types in Athena, and the SQL statement of the export.

The table that Athena reads names its columns, so the export selects them by name: a column that AWS adds later changes
neither. What is left out (names of accounts, discounts, rates, invoices) says nothing about who used what.
"""

from __future__ import annotations

from dataclasses import dataclass

TABLE = "COST_AND_USAGE_REPORT"
# What the export's folders are called by, and so the table is divided by
PARTITION = "billing_period"


@dataclass(frozen=True)
class Column:
    """A column with its type in Athena and its description."""

    name: str
    type: str
    description: str


COLUMNS = (
    Column("bill_billing_period_start_date", "timestamp", "First day of the month"),
    Column("bill_payer_account_id", "string", "The account that pays"),
    Column("line_item_usage_account_id", "string", "The account that used it"),
    Column("line_item_usage_start_date", "timestamp", "The hour"),
    Column("line_item_usage_end_date", "timestamp", "Its end"),
    Column("line_item_line_item_type", "string", "Usage, Tax, Credit, SavingsPlanCoveredUsage and so on"),
    Column("line_item_product_code", "string", "The service"),
    Column("line_item_usage_type", "string", "What of the service"),
    Column("line_item_operation", "string", "What was done"),
    Column("line_item_resource_id", "string", "The resource; of pods, an ARN that ends in cluster/namespace/pod/uid"),
    Column("line_item_usage_amount", "double", "How much"),
    Column("line_item_unblended_cost", "double", "Dollars, as on the bill"),
    Column("pricing_term", "string", "OnDemand, Spot or Reserved"),
    Column("pricing_unit", "string", "How much of what"),
    Column("reservation_effective_cost", "double", "Dollars of usage that a reservation covers"),
    Column("savings_plan_savings_plan_effective_cost", "double", "Dollars of usage that a savings plan covers"),
    Column("resource_tags", "map<string,string>", "Tags that are active as cost allocation tags"),
    Column("split_line_item_parent_resource_id", "string", "Of a pod's line: the instance that it is a part of"),
    Column("split_line_item_split_usage", "double", "Of a pod's line: what it was given, or used if that was more"),
    Column("split_line_item_split_cost", "double", "Of a pod's line: its dollars of the instance"),
    Column("split_line_item_unused_cost", "double", "Of a pod's line: its share of what nobody used"),
)


def statement() -> str:
    """Return the SQL statement of the export."""
    return f"SELECT {', '.join(column.name for column in COLUMNS)} FROM {TABLE}"  # noqa: S608 - our own columns


def configuration(account: str, partition: str = "aws") -> dict[str, dict[str, str]]:
    """Return the table configuration of the export.

    All properties are set, because AWS fills in missing ones, which would look like drift.
    """
    return {
        TABLE: {
            "BILLING_VIEW_ARN": billing_view(account, partition),
            "INCLUDE_MANUAL_DISCOUNT_COMPATIBILITY": "FALSE",
            "INCLUDE_RESOURCES": "TRUE",
            "INCLUDE_SPLIT_COST_ALLOCATION_DATA": "TRUE",
            "TIME_GRANULARITY": "HOURLY",
        }
    }


def billing_view(account: str, partition: str = "aws") -> str:
    """Return the ARN of the primary billing view, which has all costs that the account may see."""
    return f"arn:{partition}:billing::{account}:billingview/primary"


def tag_key(tag: str) -> str:
    """Return the key of a tag in `resource_tags`: in lower case, with `_` for other characters."""
    return "user_" + "".join(letter if letter.isalnum() else "_" for letter in tag.lower())
