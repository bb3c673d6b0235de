"""Wait for the API of a cluster: poll /healthz every five seconds for five minutes, without verifying TLS."""

from __future__ import annotations

import asyncio
import http.client
import ssl
from collections.abc import Callable
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

INTERVAL: Final = 5.0
ATTEMPTS: Final = 60
TIMEOUT: Final = 1.0


async def wait_until_healthy(
    endpoint: str, report: Callable[[str], None], *, interval: float = INTERVAL, attempts: int = ATTEMPTS
) -> bool:
    """Poll the API until it is healthy or the attempts are used up. Report the remaining time after each."""
    for count in range(attempts):
        if await asyncio.to_thread(is_healthy, endpoint):
            return True
        report(f"Waiting up to {(attempts - count) * interval:g} more seconds for {endpoint}/healthz")
        await asyncio.sleep(interval)
    return False


def is_healthy(endpoint: str) -> bool:
    """Return whether /healthz has status 200."""
    parts = urlsplit(endpoint)
    if parts.scheme != "https" or not parts.hostname:
        return False
    # The certificate is signed by the cluster's own authority. The request contains no credentials.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    connection = http.client.HTTPSConnection(parts.hostname, parts.port or 443, timeout=TIMEOUT, context=context)
    try:
        connection.request("GET", f"{parts.path.rstrip('/')}/healthz")
        return connection.getresponse().status == HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
