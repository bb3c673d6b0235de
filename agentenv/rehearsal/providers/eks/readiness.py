"""Waiting for a cluster's API: /healthz, every five seconds, for five minutes, whatever certificate it shows."""

from __future__ import annotations

import asyncio
import http.client
import ssl
from collections.abc import Callable
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

PAUSE: Final = 5.0
TRIES: Final = 60
ANSWER_WITHIN: Final = 1.0


async def healthy(endpoint: str, tell: Callable[[str], None], *, pause: float = PAUSE, tries: int = TRIES) -> bool:
    """Whether the API answers in time; says after each try how much longer it will be tried."""
    for count in range(tries):
        if await asyncio.to_thread(answers, endpoint):
            return True
        tell(f"Waiting up to {(tries - count) * pause:g} more seconds for {endpoint}/healthz")
        await asyncio.sleep(pause)
    return False


def answers(endpoint: str) -> bool:
    """Whether /healthz says 200 now."""
    parts = urlsplit(endpoint)
    if parts.scheme != "https" or not parts.hostname:
        return False
    # The cluster's own authority has signed it, which no machine knows; nothing is sent that could be stolen.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    line = http.client.HTTPSConnection(parts.hostname, parts.port or 443, timeout=ANSWER_WITHIN, context=context)
    try:
        line.request("GET", f"{parts.path.rstrip('/')}/healthz")
        return line.getresponse().status == HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        line.close()
