"""Tell a chat or a pager what waits for an approval: a signed request to the address of the settings.

The name is resolved once, each address is checked, and the connection goes to the checked one. So a name that leads
into the VPC, or to the metadata of a node, is refused, unless the settings allow its range.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

import httpx2

from agentenv.core.gateway.access_records import Approval
from agentenv.core.values.timestamps import format_timestamp

TIMESTAMP, SIGNATURE = "X-Agentenv-Timestamp", "X-Agentenv-Signature"
ATTEMPTS, PAUSE_SECONDS, TIMEOUT_SECONDS = 3, 2.0, 10.0
Address = IPv4Address | IPv6Address


class AddressRefusedError(Exception):
    """The host has an address that the settings do not allow."""


@dataclass(frozen=True)
class Webhook:
    """Where a message is sent, the secret of its signature, and further ranges that the host may be in."""

    url: str
    secret: Callable[[], Awaitable[str]]
    ranges: Sequence[str]
    link: str  # where a person answers
    now: Callable[[], datetime]

    async def send(self, request: Approval) -> None:
        """Send a call that waits; raise where it was not received."""
        body = json.dumps(_message(request, self.link)).encode()
        timestamp = str(int(self.now().timestamp()))
        headers = {
            "Content-Type": "application/json",
            TIMESTAMP: timestamp,
            SIGNATURE: f"v1={signature(await self.secret(), timestamp, body)}",
        }
        for attempt in range(ATTEMPTS):
            try:
                await self._post(body, headers)
            except (httpx2.HTTPError, OSError):
                if attempt == ATTEMPTS - 1:
                    raise
                await asyncio.sleep(PAUSE_SECONDS * 2**attempt)
            else:
                return

    async def _post(self, body: bytes, headers: dict[str, str]) -> None:
        parts = urlsplit(self.url)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        address = await self._address(host, port)
        literal = f"[{address}]" if address.version == 6 else str(address)
        target = parts._replace(netloc=f"{literal}:{port}").geturl()
        # To the checked address, as the host that the certificate has to name. No proxy, no redirect leads elsewhere.
        async with httpx2.AsyncClient(trust_env=False, follow_redirects=False, timeout=TIMEOUT_SECONDS) as client:
            request = client.build_request(
                "POST",
                target,
                content=body,
                headers={**headers, "Host": parts.netloc.rpartition("@")[2]},
                extensions={"sni_hostname": host},
            )
            response = await client.send(request, stream=True)
            try:
                response.raise_for_status()
            finally:
                await response.aclose()

    async def _address(self, host: str, port: int) -> Address:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = [ip_address(row[4][0]) for row in found]
        for address in addresses:
            if not is_allowed_address(address, self.ranges):
                raise AddressRefusedError(f"{host} has an address of a private range")
        return addresses[0]


def is_allowed_address(address: Address, ranges: Sequence[str]) -> bool:
    """Return whether an address is public, or in a range of the settings."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    if mapped is not None:
        return is_allowed_address(mapped, ranges)
    networks: list[IPv4Network | IPv6Network] = [ip_network(each) for each in ranges]
    if any(address.version == network.version and address in network for network in networks):
        return True
    return address.is_global and not address.is_multicast


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """Return the signature of a message: HMAC-SHA256 of its time and body."""
    return hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def _message(request: Approval, link: str) -> dict[str, object]:
    text = f"{request.tool} in {request.workspace} waits for an approval: {link}"
    return {
        "type": "approval.requested",
        "id": request.id,
        "workspace": request.workspace,
        "owner": request.owner,
        "tool": request.tool,
        "asked": request.text,
        "created": format_timestamp(request.created),
        "held_until": format_timestamp(request.held_until),
        "link": link,
        "text": text,
    }
