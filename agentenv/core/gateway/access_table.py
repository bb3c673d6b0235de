"""The DynamoDB table of access: API keys, links, ended sessions, used codes and the audit trail of entering.

A row is found by its part and its name. The service polls the part `LIVE` by the time of its changes.
"""

from __future__ import annotations

from typing import Any, Final

PART, ROW, CHANGED, EXPIRES = "part", "row", "changed", "expires"
# The parts: what replicas hold in memory, codes that were used, and what was entered, by day.
LIVE, USED, ENTERED = "live", "used", "entered"
BY_CHANGE: Final = "by-change"
ATTRIBUTES: Final = {PART: "S", ROW: "S", CHANGED: "S"}


def create_table(name: str) -> dict[str, Any]:
    """Return a CreateTable request for the table, for tests and for creating one by hand."""
    return {
        "TableName": name,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": key, "AttributeType": kind} for key, kind in ATTRIBUTES.items()],
        "KeySchema": _keys(PART, ROW),
        "LocalSecondaryIndexes": [
            {"IndexName": BY_CHANGE, "KeySchema": _keys(PART, CHANGED), "Projection": {"ProjectionType": "ALL"}}
        ],
    }


def _keys(partition: str, sort: str) -> list[dict[str, str]]:
    return [{"AttributeName": partition, "KeyType": "HASH"}, {"AttributeName": sort, "KeyType": "RANGE"}]
