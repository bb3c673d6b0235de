"""Measure the gateway, with gRPC as a process needs it that starts others."""

from __future__ import annotations

import os
from typing import Any


def measure(repeat: int) -> dict[str, Any]:
    """Return the figures of the contract: times in milliseconds, memory in MB."""
    # gRPC reads it when it is imported.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
    from bench import gateway_run

    return gateway_run.measure(repeat)
