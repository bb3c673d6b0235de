"""A DynamoDB table in the simulated AWS of this process.

`mock_aws` would reset all of it for each test: every service that another test has used, which takes most of a second,
and takes from a running `Cloud` what it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from moto.core.models import botocore_stubber

from agentenv.service.aws import clients as aws

REGION = "us-east-1"


@contextmanager
def simulated_aws() -> Iterator[None]:
    """Answer the clients of AWS that are created and used within, except those of another endpoint."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "test")
        patch.delenv("AWS_ENDPOINT_URL", raising=False)
        patch.setattr(botocore_stubber, "enabled", True)
        yield


@contextmanager
def table_client(definition: Mapping[str, Any]) -> Iterator[Any]:
    """Yield a DynamoDB client, and the table only within."""
    with simulated_aws():
        client = aws.client("dynamodb", REGION)
        client.create_table(**definition)
        try:
            yield client
        finally:
            client.delete_table(TableName=definition["TableName"])
