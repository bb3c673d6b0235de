"""A plugin's process: a gRPC server on a free loopback port, printed for the engine, until the engine leaves."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import grpc
from pulumi.runtime.proto import provider_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Sequence

LARGEST: Final = 400 * 1024 * 1024
THREADS: Final = 256  # most of them wait
GRACE: Final = 15.0  # seconds an operation under way gets when we are asked to leave
OPTIONS: Final = (("grpc.max_receive_message_length", LARGEST), ("grpc.max_send_message_length", LARGEST))


def start(servicer: provider_pb2_grpc.ResourceProviderServicer) -> tuple[grpc.Server, int]:
    """A server for a provider, on a free loopback port."""
    server = grpc.server(ThreadPoolExecutor(THREADS), options=OPTIONS)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port


def engine_address(arguments: Sequence[str]) -> str:
    """Where the engine listens: the plugin's only argument that is no option."""
    return next((one for one in arguments if not one.startswith("-")), "")


def serve(servicer: provider_pb2_grpc.ResourceProviderServicer) -> int:
    """Serve until told to leave, or until the engine is gone."""
    leave = threading.Event()
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, lambda *_: leave.set())
    _follow_parent(leave)
    server, port = start(servicer)
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    leave.wait()
    server.stop(GRACE).wait()
    return 0


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
