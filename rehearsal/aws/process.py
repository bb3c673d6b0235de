"""The plugin's process: serving on a free loopback port, and leaving when the engine says so or is gone."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import grpc
from pulumi.runtime.proto import provider_pb2_grpc

from rehearsal.aws.plugin import Servicer
from rehearsal.aws.provider import Provider

LARGEST: Final = 400 * 1024 * 1024
THREADS: Final = 64
GRACE: Final = 15.0  # seconds an operation under way gets when we are asked to leave
OPTIONS: Final = (("grpc.max_receive_message_length", LARGEST), ("grpc.max_send_message_length", LARGEST))


def start(provider: Provider | None = None) -> tuple[grpc.Server, int]:
    """A server on a free loopback port."""
    server = grpc.server(ThreadPoolExecutor(THREADS), options=OPTIONS)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(Servicer(provider), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port


def _follow_parent(leave: threading.Event) -> None:
    """Leave when the engine is gone, however it went.

    The kernel's own signal for that is of no use: it comes when the thread that started us ends, and Go ends threads.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        leave.set()

    threading.Thread(target=watch, daemon=True).start()


def main() -> int:
    leave = threading.Event()
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, lambda *_: leave.set())
    _follow_parent(leave)
    server, port = start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    leave.wait()
    server.stop(GRACE).wait()
    return 0
