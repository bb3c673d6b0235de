"""The process of a plugin: a gRPC server on a free loopback port, which runs until the engine ends."""

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

MAX_MESSAGE_BYTES: Final = 400 * 1024 * 1024
THREADS: Final = 256  # most of them are waiting
GRACE_PERIOD: Final = 15.0  # seconds a running operation gets at shutdown
OPTIONS: Final = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
)


def start(servicer: provider_pb2_grpc.ResourceProviderServicer) -> tuple[grpc.Server, int]:
    """Start a server for a provider on a free loopback port. Return the server and the port."""
    server = grpc.server(ThreadPoolExecutor(THREADS), options=OPTIONS)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port


def engine_address(arguments: Sequence[str]) -> str:
    """Return the engine's address: the plugin's only argument that is not an option."""
    return next((argument for argument in arguments if not argument.startswith("-")), "")


def serve(servicer: provider_pb2_grpc.ResourceProviderServicer) -> int:
    """Serve until a signal arrives or the engine ends."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    _watch_parent(stop)
    server, port = start(servicer)
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    stop.wait()
    server.stop(GRACE_PERIOD).wait()
    return 0


def _watch_parent(stop: threading.Event) -> None:
    """Stop when the engine ends, for whatever reason.

    The kernel's parent-death signal is of no use: it is sent when the parent's thread ends, and Go ends threads.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        stop.set()

    threading.Thread(target=watch, daemon=True).start()
