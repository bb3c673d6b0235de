"""Write rows of this month to the ledger of a stage, for owners who have used the environment for long."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from agentenv.core.ledger.rows import Row, row_to_item
from agentenv.service.aws import clients as aws
from agentenv.service.aws.items import serialized

_BATCH, _CONCURRENT = 25, 4
_MINUTE = timedelta(minutes=1)


def write(client: Any, table: str, owners: Iterable[str], rows: int) -> None:
    """Write closed rows of a minute each for every owner, whose cost is next to nothing."""
    month = datetime.now(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    items = [_item(owner, number, month) for owner in owners for number in range(rows)]
    batches = [items[first : first + _BATCH] for first in range(0, len(items), _BATCH)]
    with ThreadPoolExecutor(_CONCURRENT) as executor:
        # The iteration raises the error of a failed call.
        for _ in executor.map(lambda batch: _write(client, table, batch), batches):
            pass


def _write(client: Any, table: str, batch: list[Any]) -> None:
    while batch:
        response = aws.call(client, "batch_write_item", RequestItems={table: batch})
        batch = response.get("UnprocessedItems", {}).get(table, [])


def _item(owner: str, number: int, month: datetime) -> Any:
    row = Row(
        owner=owner,
        claim=f"claim-{number // 100}",
        pod=f"pod-{number}",
        began=month + number * _MINUTE,
        ended=month + (number + 1) * _MINUTE,
        sandbox_class="standard",
        workspace=f"w-bench-{number // 100}",
        cpu_seconds=Decimal("0.001"),
        source="requests/none",
        closed=True,
    )
    return {"PutRequest": {"Item": serialized(row_to_item(row, row.ended + timedelta(days=400)))}}
