"""A table of the ledger in a simulated account."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agentenv.core.ledger.table import create_table
from agentenv.service.ledger.table import Ledger
from tests.fast.simulated_tables import table_client

TABLE = "ledger"


@pytest.fixture
def table() -> Iterator[Any]:
    """Return a DynamoDB client with the table."""
    with table_client(create_table(TABLE)) as client:
        yield client


@pytest.fixture
def ledger(table: Any) -> Ledger:
    return Ledger(table, TABLE)
