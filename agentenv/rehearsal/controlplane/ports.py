"""Reserve free ports on loopback until a server takes them."""

from __future__ import annotations

import socket
import urllib.request
from collections.abc import Sequence
from typing import Self

HOST = "127.0.0.1"
# Loopback is never reached through a proxy, whatever the environment says
DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Ports:
    """A reserved port for each name.

    The sockets are bound but never listen. To other processes the ports are in use, while a server that sets
    SO_REUSEADDR, as Go's and Python's do, may still listen there. So no port is lost between choosing and starting.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._sockets: list[socket.socket] = []
        self._numbers: dict[str, int] = {}
        for name in names:
            reserved = socket.socket()
            reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            reserved.bind((HOST, 0))
            self._sockets.append(reserved)
            self._numbers[name] = reserved.getsockname()[1]

    def __getitem__(self, name: str) -> int:
        return self._numbers[name]

    def close(self) -> None:
        """Release the ports."""
        for reserved in self._sockets:
            reserved.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
