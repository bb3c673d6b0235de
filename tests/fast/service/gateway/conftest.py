"""A table of access in a simulated account."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from moto import mock_aws

from agentenv.core.gateway.access_table import create_table
from agentenv.service.aws import clients as aws
from agentenv.service.gateway.access_table import AccessTable

REGION, TABLE = "us-east-1", "access"


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return a DynamoDB client with the table."""
    for name, value in {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        client = aws.client("dynamodb", REGION)
        client.create_table(**create_table(TABLE))
        yield client


@pytest.fixture
def table(client: Any) -> AccessTable:
    return AccessTable(client, TABLE)
