"""Loopback addresses of pods: each is held by its pod alone, also against other rehearsals on this machine.

Addresses come from 127.64.0.0/10, which no resolver or service of a machine uses. Linux answers on all of them; where a
machine has only 127.0.0.1, no pod can run.
"""

from __future__ import annotations

import errno
import hashlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field

from agentenv.local.sandboxes.bundle import CannotStart

# Bound and never listened on: while it is bound, the address is taken.
_HOLD_PORT = 49981
_ATTEMPTS = 64


@dataclass(frozen=True)
class HeldAddress:
    """An address that nobody else gets until it is released."""

    ip: str
    _hold: socket.socket = field(repr=False)

    def release(self) -> None:
        """Let another pod have the address."""
        self._hold.close()


def hold(pod_uid: str) -> HeldAddress:
    """Return a free address for a pod."""
    for ip in candidates(pod_uid):
        hold_socket = socket.socket()
        try:
            hold_socket.bind((ip, _HOLD_PORT))
        except OSError as error:
            hold_socket.close()
            if error.errno == errno.EADDRINUSE:
                continue
            raise CannotStart(f"this machine has no loopback address {ip}: {error.strerror}") from error
        return HeldAddress(ip, hold_socket)
    raise CannotStart("no loopback address is free")


def inside(ip: str) -> str:
    """Return the address that a pod with an interface has in sandboxes, where loopback is each one's own."""
    return f"100.{ip.partition('.')[2]}"


def candidates(pod_uid: str) -> Iterator[str]:
    """Yield the addresses that a pod tries, in order: others for another uid."""
    for attempt in range(_ATTEMPTS):
        first, second, third = hashlib.sha256(f"{pod_uid} {attempt}".encode()).digest()[:3]
        yield f"127.{64 + first % 64}.{second}.{1 + third % 254}"
