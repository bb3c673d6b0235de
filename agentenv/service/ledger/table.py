"""The DynamoDB table of the ledger: conditional writes, so that concurrent writers and crashes double or lose no row.

An open row is replaced by itself with a later end. A closed row stays as it is: the rest of its interval becomes
another row. So any replica may write all it knows at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from agentenv.core.ledger.rows import Row, midnight_after, row_from_item, row_to_item
from agentenv.core.ledger.table import BY_TIME, OPEN_ROWS
from agentenv.core.values.timestamps import format_whole_seconds
from agentenv.service.aws import clients as aws
from agentenv.service.aws.items import deserialized, serialized
from agentenv.service.aws.remote import Remote

# Closed rows of a day that losses and late lists cut; more of them are a bug.
_MOST_PIECES = 100
_READS = 100  # keys a batch
_TAKEN = "ConditionalCheckFailedException"

AddAmounts = Callable[[Row], Row]


class LedgerError(Exception):
    """The table holds rows that the service does not write."""


@dataclass(frozen=True)
class PutResult:
    """The result of a write."""

    row: Row  # as it is now, or its last piece
    rows_written: int  # the number of rows written for it


class Ledger:
    """The ledger of one environment."""

    def __init__(self, client: Any, table: str, retention: timedelta = timedelta(days=400)) -> None:
        """`client` is a DynamoDB client of `agentenv.service.aws.clients`."""
        self._client = client
        self._table = table
        self._retention = retention
        # For requests; passes of loops may take longer than its deadline.
        self.calls = Remote("DynamoDB")
        self._clock_offset: timedelta | None = None  # of the table's clock, ahead of the local one; None until known

    def now(self) -> datetime:
        """Return the time by the table's clock, which is the same for all replicas."""
        if self._clock_offset is None:
            # Any row serves: only the date of the response counts.
            self._call("get_item", Key=serialized({"owner": "-", "row": "-"}))
        return (datetime.now(UTC) + (self._clock_offset or timedelta())).replace(microsecond=0)

    def put(self, row: Row, add_amounts: AddAmounts = lambda row: row) -> PutResult:
        """Write a row. Where part of its interval is closed already, write only the part after that.

        `add_amounts` gives a row its amounts. It is called again for such a part.
        """
        puts = 0
        for _ in range(_MOST_PIECES):
            existing = self._put(row)
            if existing is None:
                return PutResult(row, puts + 1)
            if not existing.closed or existing.ended >= row.ended:
                return PutResult(existing, puts)
            row = add_amounts(replace(row, began=existing.ended))
        raise LedgerError(f"{row.owner} {row.sort_key} is in more than {_MOST_PIECES} pieces")

    def _put(self, row: Row) -> Row | None:
        """Put a row if it is new, or open with no later end; otherwise return the existing row."""
        condition = "#closed = :no" if row.closed else "#closed = :no AND #to <= :to"
        values = {":no": False} if row.closed else {":no": False, ":to": format_whole_seconds(row.ended)}
        names = (
            {"#row": "row", "#closed": "closed"} if row.closed else {"#row": "row", "#closed": "closed", "#to": "to"}
        )
        try:
            self._call(
                "put_item",
                Item=serialized(row_to_item(row, self._expires(row))),
                ConditionExpression=f"attribute_not_exists(#row) OR ({condition})",
                ExpressionAttributeNames=names,
                ExpressionAttributeValues=serialized(values),
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except aws.AwsRefusedError as refusal:
            if refusal.code != _TAKEN:
                raise
            return row_from_item(deserialized(refusal.item)) if refusal.item else self._read_existing(row)
        return None

    def _read_existing(self, row: Row) -> Row:
        """Read the existing row, where the refusal did not return it."""
        key = serialized({"owner": row.owner, "row": row.sort_key})
        response = self._call("get_item", Key=key, ConsistentRead=True)
        if "Item" not in response:
            raise aws.AwsUnavailableError(f"{row.owner} {row.sort_key} expired while it was written")
        return row_from_item(deserialized(response["Item"]))

    def open_rows(self) -> list[Row]:
        """Return the open rows. The index lags: a row opened just now may be missing."""
        keys = [
            {name: item[name] for name in ("owner", "row")}
            for page in self._pages(
                "query",
                IndexName=OPEN_ROWS,
                KeyConditionExpression="#open = :yes",
                ExpressionAttributeNames={"#open": "open"},
                ExpressionAttributeValues=serialized({":yes": "1"}),
            )
            for item in page
        ]
        rows = [row_from_item(item) for item in self._batches(keys)]
        return [row for row in rows if not row.closed]

    def of_claim(self, owner: str, claim: str) -> list[Row]:
        """Return the rows of one claim, by a consistent read."""
        pages = self._pages(
            "query",
            KeyConditionExpression="#owner = :owner AND begins_with(#row, :claim)",
            ExpressionAttributeNames={"#owner": "owner", "#row": "row"},
            ExpressionAttributeValues=serialized({":owner": owner, ":claim": f"{claim}#"}),
            ConsistentRead=True,
        )
        return [row_from_item(deserialized(item)) for page in pages for item in page]

    def of_owner(self, owner: str, since: datetime, until: datetime, *, consistent: bool = True) -> list[Row]:
        """Return an owner's rows that began in an interval, in order; an inconsistent read costs half."""
        pages = self._pages(
            "query",
            IndexName=BY_TIME,
            KeyConditionExpression="#owner = :owner AND #from BETWEEN :since AND :until",
            ExpressionAttributeNames={"#owner": "owner", "#from": "from"},
            ExpressionAttributeValues=serialized(
                {
                    ":owner": owner,
                    ":since": format_whole_seconds(since),
                    ":until": format_whole_seconds(until - timedelta(seconds=1)),
                }
            ),
            ConsistentRead=consistent,
        )
        return [row_from_item(deserialized(item)) for page in pages for item in page]

    async def rows_of(self, owner: str, since: datetime, until: datetime) -> list[Row]:
        """Return the same for a request."""
        return await self.calls.run(self.of_owner, owner, since, until)

    def all_rows(self, since: datetime, until: datetime) -> Iterator[Row]:
        """Yield all rows that began in an interval. It scans the whole table: for reports."""
        pages = self._pages(
            "scan",
            FilterExpression="#from >= :since AND #from < :until",
            ExpressionAttributeNames={"#from": "from"},
            ExpressionAttributeValues=serialized(
                {":since": format_whole_seconds(since), ":until": format_whole_seconds(until)}
            ),
        )
        return (row_from_item(deserialized(item)) for page in pages for item in page)

    def _expires(self, row: Row) -> datetime:
        # All rows of a day expire together, so that no report shows half a day.
        return midnight_after(row.began) + self._retention

    def _pages(self, operation: str, **parameters: Any) -> Iterator[list[Mapping[str, Any]]]:
        start: dict[str, Any] = {}
        while True:
            response = self._call(operation, **parameters, **start)
            yield response.get("Items", [])
            if not response.get("LastEvaluatedKey"):
                return
            start = {"ExclusiveStartKey": response["LastEvaluatedKey"]}

    def _batches(self, keys: list[Any]) -> Iterator[Mapping[str, Any]]:
        """Yield the items of many keys; keys that a busy table leaves unprocessed are requested again."""
        remaining = list(keys)
        empty_responses = 0
        while remaining:
            batch, remaining = remaining[:_READS], remaining[_READS:]
            response = self._call("batch_get_item", RequestItems={self._table: {"Keys": batch, "ConsistentRead": True}})
            items = response.get("Responses", {}).get(self._table, [])
            unprocessed = response.get("UnprocessedKeys", {}).get(self._table, {}).get("Keys", [])
            remaining += unprocessed
            empty_responses = 0 if items or not unprocessed else empty_responses + 1
            if empty_responses > _MOST_PIECES:
                raise aws.AwsUnavailableError("the table returns none of the requested rows")
            yield from (deserialized(item) for item in items)

    def _call(self, operation: str, **parameters: Any) -> dict[str, Any]:
        table = {} if operation == "batch_get_item" else {"TableName": self._table}
        response = aws.call(self._client, operation, **table, **parameters)
        self._observe_date(response)
        return response

    def _observe_date(self, response: Mapping[str, Any]) -> None:
        """Update the clock offset from a response's Date header, which has whole seconds."""
        date = response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
        if not date:
            return
        ahead = parsedate_to_datetime(date) - datetime.now(UTC)
        self._clock_offset = ahead if abs(ahead) > timedelta(seconds=2) else timedelta()
