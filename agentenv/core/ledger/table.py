"""The DynamoDB table of the ledger: its keys and indexes, which the component creates and the service reads."""

from __future__ import annotations

from typing import Any, Final

OWNER, ROW = "owner", "row"
# The index for the rows of an owner in an interval.
BY_TIME: Final = "by-time"
# The index of open rows: only they have its attribute.
OPEN_ROWS: Final = "open-rows"
EXPIRES: Final = "expires"

ATTRIBUTES: Final = {OWNER: "S", ROW: "S", "from": "S", "open": "S"}


def create_table(name: str) -> dict[str, Any]:
    """Return a CreateTable request for the table, for tests and for creating one by hand."""
    return {
        "TableName": name,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": key, "AttributeType": kind} for key, kind in ATTRIBUTES.items()],
        "KeySchema": _keys(OWNER, ROW),
        "LocalSecondaryIndexes": [
            {"IndexName": BY_TIME, "KeySchema": _keys(OWNER, "from"), "Projection": {"ProjectionType": "ALL"}}
        ],
        "GlobalSecondaryIndexes": [
            {"IndexName": OPEN_ROWS, "KeySchema": _keys("open", ROW), "Projection": {"ProjectionType": "KEYS_ONLY"}}
        ],
    }


def _keys(partition: str, sort: str) -> list[dict[str, str]]:
    return [{"AttributeName": partition, "KeyType": "HASH"}, {"AttributeName": sort, "KeyType": "RANGE"}]
