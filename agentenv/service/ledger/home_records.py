"""The records of homes in the ledger's table, from which another cluster recovers their workspaces.

They are in a partition of their own, and have no attribute of the table's indexes. The service deletes no items, so the
record of a home that is gone is replaced by one that expires.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from agentenv.core.ledger.table import EXPIRES, OWNER, ROW
from agentenv.core.workspaces.recovery import HomeRecord, record_from_text
from agentenv.service.aws import clients as aws
from agentenv.service.aws.items import deserialized, serialized

# No owner has this id.
PARTITION = "-"
_PREFIX = "home#"
_GONE_FOR = timedelta(days=1)


def digest_of(record: HomeRecord) -> str:
    """Return a digest by which an unchanged record is recognized."""
    return sha256(record.as_text().encode()).hexdigest()


class HomeRecordTable:
    """The records of one environment."""

    def __init__(self, client: Any, table: str) -> None:
        """`client` is a DynamoDB client of `agentenv.service.aws.clients`."""
        self._client, self._table = client, table

    def digests(self) -> dict[str, str]:
        """Return the digest of each record, by the name of its volume."""
        return {
            str(item[ROW]).removeprefix(_PREFIX): str(item["digest"])
            for item in self._items("#row, digest, gone")
            if not item.get("gone")
        }

    def records(self) -> Iterator[HomeRecord]:
        """Yield all records; raise `ValueError` for one that cannot be read."""
        for item in self._items("#row, #record, gone", **{"#record": "record"}):
            if not item.get("gone"):
                yield record_from_text(str(item["record"]))

    def put(self, record: HomeRecord) -> None:
        """Write a record."""
        self._put(record.volume, {"digest": digest_of(record), "record": record.as_text()})

    def put_gone(self, volume: str, now: datetime) -> None:
        """Replace the record of a volume that is gone."""
        self._put(volume, {"gone": True, EXPIRES: int((now + _GONE_FOR).timestamp())})

    def _put(self, volume: str, content: Mapping[str, Any]) -> None:
        item = {OWNER: PARTITION, ROW: f"{_PREFIX}{volume}", **content}
        aws.call(self._client, "put_item", TableName=self._table, Item=serialized(item))

    def _items(self, projection: str, **names: str) -> Iterator[Mapping[str, Any]]:
        start: dict[str, Any] = {}
        while True:
            response = aws.call(
                self._client,
                "query",
                TableName=self._table,
                KeyConditionExpression="#owner = :owner AND begins_with(#row, :prefix)",
                ProjectionExpression=projection,
                ExpressionAttributeNames={"#owner": OWNER, "#row": ROW, **names},
                ExpressionAttributeValues=serialized({":owner": PARTITION, ":prefix": _PREFIX}),
                ConsistentRead=True,
                **start,
            )
            rows: Sequence[Mapping[str, Any]] = response.get("Items", [])
            yield from map(deserialized, rows)
            if not response.get("LastEvaluatedKey"):
                return
            start = {"ExclusiveStartKey": response["LastEvaluatedKey"]}
