"""The ledger's table: its keys and indexes, as the component makes it and the store reads it."""

from __future__ import annotations

from typing import Any, Final

OWNER, ROW = "owner", "row"
# What an owner had in a time, without reading all that they ever had.
BY_TIME: Final = "by-time"
# The rows that still grow: only these have the attribute, so the index holds nothing else.
OPEN_ROWS: Final = "open-rows"
EXPIRES: Final = "expires"

ATTRIBUTES: Final = {OWNER: "S", ROW: "S", "from": "S", "open": "S"}


def create_table(name: str) -> dict[str, Any]:
    """What DynamoDB is asked for a table like it: by tests, and to make one by hand."""
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
