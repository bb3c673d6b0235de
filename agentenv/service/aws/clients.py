"""AWS clients of the service, and what their errors mean.

botocore comes without types, so only this module uses it. A client retries where AWS is busy, with short timeouts: a
failed pass is repeated, and a caller is asked to retry.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from threading import Lock
from typing import Any

from agentenv.service.telemetry import traces

_TRIES = 3
_SESSION_LOCK = Lock()
# The error codes of AWS services that a retry may succeed after.
BUSY = frozenset(
    {
        "InternalFailure",
        "InternalServerError",
        "InternalServiceError",
        "LimitExceededException",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "ServiceUnavailable",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
        "TransactionConflictException",
    }
)


class AwsUnavailableError(Exception):
    """AWS does not answer, or is busy; retry later."""


class AwsRefusedError(Exception):
    """AWS refused the request; a retry does not help. `code` is AWS's error code."""

    def __init__(self, operation: str, code: str, message: str, item: dict[str, Any] | None = None) -> None:
        super().__init__(f"{operation}: {code}: {message}")
        self.code = code
        self.item = item or {}  # of DynamoDB: the existing item


def client(service: str, region: str, endpoint: str | None = None, **credentials: str) -> Any:
    """Create a client for one service, with the process's own credentials unless keys are given."""
    configuration = import_module("botocore.config").Config(
        connect_timeout=3,
        read_timeout=5,
        retries={"mode": "standard", "max_attempts": _TRIES},
        max_pool_connections=16,
    )
    # A session of its own, because sessions are not thread-safe. The service models, ten megabytes, are loaded once for
    # all of them. It is a session of botocore, as each session of boto3 would add a search path to the shared loader.
    with _SESSION_LOCK:
        session = import_module("botocore.session").Session()
        session.register_component("data_loader", _data_loader())
        return session.create_client(
            service, region_name=region, endpoint_url=endpoint, config=configuration, **credentials
        )


@cache
def _data_loader() -> Any:
    return import_module("botocore.loaders").create_loader()


def call(aws_client: Any, operation: str, **arguments: Any) -> dict[str, Any]:
    """Call an operation; raise `AwsUnavailableError` or `AwsRefusedError` where it fails."""
    with traces.client_span(f"aws {operation}", {"rpc.system": "aws-api", "rpc.method": operation}):
        return _call(aws_client, operation, arguments)


def _call(aws_client: Any, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
    errors = import_module("botocore.exceptions")
    try:
        return getattr(aws_client, operation)(**arguments)
    except errors.ClientError as refusal:
        response: dict[str, Any] = refusal.response
        error: dict[str, Any] = response.get("Error", {})
        code, message = str(error.get("Code", "")), str(error.get("Message", ""))
        if code in BUSY or response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) >= 500:
            raise AwsUnavailableError(f"{operation}: {code}: {message}") from refusal
        raise AwsRefusedError(operation, code, message, response.get("Item")) from refusal
    except errors.BotoCoreError as failure:
        raise AwsUnavailableError(f"{operation}: {failure}") from failure
