"""A table of access in a simulated account."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agentenv.core.gateway.access_table import create_table
from agentenv.service.gateway.access_table import AccessTable
from tests.fast.simulated_tables import table_client

TABLE = "access"


@pytest.fixture
def client() -> Iterator[Any]:
    """Return a DynamoDB client with the table."""
    with table_client(create_table(TABLE)) as client:
        yield client


@pytest.fixture
def table(client: Any) -> AccessTable:
    return AccessTable(client, TABLE)
