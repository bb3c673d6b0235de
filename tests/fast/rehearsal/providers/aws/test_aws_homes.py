"""Services with one region: where the stand-in asks them is where SDKs ask them, whichever region a provider is for.

The official provider makes its clients for its own region and leaves the rest to its SDK's rules of endpoints, which
are the same for all SDKs; so what those say decides whether a stack of another region can have the resource at all.
"""

from __future__ import annotations

import re
from typing import Any

import boto3
import pytest

from agentenv.rehearsal.providers.aws.rows import TABLE

SCOPE = re.compile(r"Credential=[^/]+/\d+/(?P<region>[^/]+)/")
AT_HOME = sorted({(row.service, row.fixed_region) for row in TABLE.values() if row.fixed_region})


class _AskedError(Exception):
    """Raised in place of a request, which nobody is to send."""


def inputs_sent(service: str, operation: str, region: str) -> tuple[str, str]:
    """Whom an SDK for a region would ask, and what region its signature is for."""
    client: Any = boto3.client(service, region_name=region, aws_access_key_id="a", aws_secret_access_key="b")

    def stop(request: Any, **_: Any) -> None:
        signed = SCOPE.search(request.headers["Authorization"].decode())
        raise _AskedError(request.url, signed["region"] if signed else "")

    client.meta.events.register("before-send", stop)
    with pytest.raises(_AskedError) as sent:
        getattr(client, operation)()
    return sent.value.args[0], sent.value.args[1]


def test_global_services_exist() -> None:
    assert {"bcm-data-exports", "budgets", "ce"} <= {service for service, _ in AT_HOME}


@pytest.mark.parametrize("region", ["us-east-1", "eu-central-1", "us-west-2"])
@pytest.mark.parametrize(
    ("service", "operation"), [("bcm-data-exports", "list_exports"), ("ce", "list_cost_allocation_tags")]
)
def test_sdks_call_global_services_in_their_home_region(service: str, operation: str, region: str) -> None:
    address, signed = inputs_sent(service, operation, region)
    assert signed == dict(AT_HOME)[service] == "us-east-1"
    assert f"//{service}.us-east-1." in address
