"""The connection of `agentenv connect ssh` with the gateway."""

from __future__ import annotations

import socket

from agentenv.cli.workspaces.ssh import connected


def test_keystrokes_are_sent_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with connected(f"http://127.0.0.1:{port}") as connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
