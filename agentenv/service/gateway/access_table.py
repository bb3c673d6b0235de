"""The DynamoDB table of access. Its calls block, and callers run them in threads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from agentenv.core.gateway.access_records import ENDED_FOR, RESTS_FOR, Alias, Record, record_of, row_of, to_item
from agentenv.core.gateway.access_table import BY_CHANGE, CHANGED, ENTERED, EXPIRES, LIVE, PART, ROW, USED
from agentenv.core.values.timestamps import format_timestamp
from agentenv.service.aws import clients as aws
from agentenv.service.aws.items import deserialized, serialized

_TAKEN = "ConditionalCheckFailedException"
_BATCH = 25
_ATTEMPTS = 5


class AccessStore(Protocol):
    """Stores records; several replicas use it at once."""

    def put(self, record: Record, now: datetime) -> None:
        """Create or replace a record."""
        ...

    def take_alias(self, alias: Alias, now: datetime) -> bool:
        """Store an alias unless it is another owner's, or was freed just now; return whether it is stored."""
        ...

    def changed_since(self, since: datetime | None) -> list[Record]:
        """Return the records that changed since a time, or all."""
        ...

    def touch(self, rows: Mapping[str, datetime]) -> None:
        """Record when keys were last used, by the names of their rows."""
        ...

    def use_once(self, code: str, until: datetime) -> bool:
        """Return whether a code is used for the first time."""
        ...

    def add_entries(self, entries: Sequence[Mapping[str, Any]]) -> None:
        """Append to the audit trail; an entry has `workspace`, `at`, `id` and `expires`."""
        ...

    def entries(self, workspace: str, day: str, since: str = "") -> list[dict[str, Any]]:
        """Return the audit trail of a workspace and a day, in order, from a time on."""
        ...


class AccessTable(AccessStore):
    """The table of one environment."""

    def __init__(self, client: Any, table: str) -> None:
        """`client` is a DynamoDB client of `agentenv.service.aws.clients`."""
        self._client, self._table = client, table

    def put(self, record: Record, now: datetime) -> None:
        """Create or replace a record; the table deletes it some time after it expires."""
        self._call("put_item", Item=serialized(_row(record, now)))

    def take_alias(self, alias: Alias, now: datetime) -> bool:
        """Store an alias unless it is another owner's or was freed just now, however many replicas do at once."""
        return self._put_if(
            _row(alias, now),
            "attribute_not_exists(#row) OR #record.#owner = :owner"
            " OR (#record.#owner = :nobody AND #record.#freed <= :rested)",
            {"#row": ROW, "#record": "record", "#owner": "owner", "#freed": "freed"},
            {":nobody": "", ":owner": alias.owner, ":rested": format_timestamp(now - RESTS_FOR)},
        )

    def changed_since(self, since: datetime | None) -> list[Record]:
        """Return the records that changed since a time, or all, by a consistent read."""
        condition, values = "#part = :live", {":live": LIVE}
        names, index = {"#part": PART}, {}
        if since is not None:
            condition += " AND #changed >= :since"
            names["#changed"], values[":since"] = CHANGED, format_timestamp(since)
            index = {"IndexName": BY_CHANGE}
        items = self._query(condition, names, values, **index)
        records = (record_of(str(item[ROW]), item.get("record", {})) for item in items)
        return [record for record in records if record is not None]

    def touch(self, rows: Mapping[str, datetime]) -> None:
        """Record when keys were last used. It is no change that other replicas must read."""
        for row, at in rows.items():
            try:
                self._call(
                    "update_item",
                    Key=serialized({PART: LIVE, ROW: row}),
                    UpdateExpression="SET #record.#used = :at",
                    ConditionExpression="attribute_exists(#row)",
                    ExpressionAttributeNames={"#record": "record", "#used": "last_used", "#row": ROW},
                    ExpressionAttributeValues=serialized({":at": format_timestamp(at)}),
                )
            except aws.AwsRefusedError as refusal:
                # It expired meanwhile.
                if refusal.code != _TAKEN:
                    raise

    def use_once(self, code: str, until: datetime) -> bool:
        """Return whether a code is used for the first time, of all replicas."""
        item = {PART: USED, ROW: code, CHANGED: format_timestamp(until), EXPIRES: int(until.timestamp()) + 3600}
        return self._put_if(item, "attribute_not_exists(#row)", {"#row": ROW})

    def add_entries(self, entries: Sequence[Mapping[str, Any]]) -> None:
        """Append to the audit trail, in batches; repeating an entry changes nothing."""
        requests = [
            {
                "PutRequest": {
                    "Item": serialized(
                        {
                            **entry,
                            PART: f"{ENTERED}#{entry['at'][:10]}",
                            ROW: f"{entry['workspace']}#{entry['at']}#{entry['id']}",
                            CHANGED: entry["at"],
                        }
                    )
                }
            }
            for entry in entries
        ]
        for first in range(0, len(requests), _BATCH):
            batch = requests[first : first + _BATCH]
            for _ in range(_ATTEMPTS):
                response = aws.call(self._client, "batch_write_item", RequestItems={self._table: batch})
                batch = response.get("UnprocessedItems", {}).get(self._table, [])
                if not batch:
                    break
            else:
                raise aws.AwsUnavailableError("the table takes no more entries")

    def entries(self, workspace: str, day: str, since: str = "") -> list[dict[str, Any]]:
        """Return the audit trail of a workspace and a day, in order, from a time on."""
        condition = "#part = :day AND #row BETWEEN :first AND :last"
        # A timestamp follows, whose characters are before this one.
        values = {":day": f"{ENTERED}#{day}", ":first": f"{workspace}#{since}", ":last": f"{workspace}#~"}
        own = {PART, ROW, CHANGED, EXPIRES}
        items = self._query(condition, {"#part": PART, "#row": ROW}, values)
        return [{name: value for name, value in item.items() if name not in own} for item in items]

    def _put_if(
        self, item: Mapping[str, Any], condition: str, names: Mapping[str, str], values: Mapping[str, str] | None = None
    ) -> bool:
        """Put an item if a condition holds for the existing one; return whether it does."""
        expression_values = {"ExpressionAttributeValues": serialized(values)} if values else {}
        try:
            self._call(
                "put_item",
                Item=serialized(item),
                ConditionExpression=condition,
                ExpressionAttributeNames=names,
                **expression_values,
            )
        except aws.AwsRefusedError as refusal:
            if refusal.code != _TAKEN:
                raise
            return False
        return True

    def _query(
        self, condition: str, names: Mapping[str, str], values: Mapping[str, str], **index: str
    ) -> Iterator[dict[str, Any]]:
        start: dict[str, Any] = {}
        while True:
            response = self._call(
                "query",
                KeyConditionExpression=condition,
                ExpressionAttributeNames=names,
                ExpressionAttributeValues=serialized(values),
                ConsistentRead=True,
                **index,
                **start,
            )
            yield from (deserialized(item) for item in response.get("Items", []))
            if not response.get("LastEvaluatedKey"):
                return
            start = {"ExclusiveStartKey": response["LastEvaluatedKey"]}

    def _call(self, operation: str, **parameters: Any) -> dict[str, Any]:
        return aws.call(self._client, operation, TableName=self._table, **parameters)


def _row(record: Record, now: datetime) -> dict[str, Any]:
    delete_after = int((record.expires + ENDED_FOR).timestamp())
    changed = format_timestamp(now)
    return {PART: LIVE, ROW: row_of(record), CHANGED: changed, "record": to_item(record), EXPIRES: delete_after}
