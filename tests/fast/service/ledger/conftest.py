"""A table of the ledger in a simulated account."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from moto import mock_aws

from agentenv.core.ledger.table import create_table
from agentenv.service.aws import clients as aws
from agentenv.service.ledger.table import Ledger

REGION, TABLE = "us-east-1", "ledger"


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return a DynamoDB client with the table."""
    for name, value in {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        client = aws.client("dynamodb", REGION)
        client.create_table(**create_table(TABLE))
        yield client


@pytest.fixture
def ledger(table: Any) -> Ledger:
    return Ledger(table, TABLE)
