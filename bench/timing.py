"""Measure the time and memory of the two sides of a benchmark, in turn so that noise affects both alike."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


def seconds(work: Callable[[], object]) -> float:
    """Return the seconds of one call."""
    began = time.monotonic()
    work()
    return time.monotonic() - began


def best(repeat: int, *sides: Callable[[], object]) -> list[float]:
    """Return the shortest time of each side."""
    timings = [[seconds(side) for side in sides] for _ in range(repeat)]
    return [min(column) for column in zip(*timings, strict=True)]


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this percentage of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(math.ceil(len(ordered) * share / 100), 1) - 1]


def figures(milliseconds: Sequence[float]) -> dict[str, float]:
    """Return the middle and the slow end of times."""
    return {"p50_ms": round(percentile(milliseconds, 50), 1), "p99_ms": round(percentile(milliseconds, 99), 1)}


def ratios(measured: Mapping[str, float], baseline: Mapping[str, float]) -> dict[str, float]:
    """Return each figure of one side as a multiple of the other's."""
    return {name.removesuffix("_ms"): round(value / baseline[name], 2) for name, value in measured.items()}


def load() -> float:
    """Return the load of the last minute: with more than a process for each core, the slowest times are of others."""
    return round(os.getloadavg()[0], 1)


def peak_kib(process: int | str = "self") -> int:
    """Return the peak memory of a process in KiB, as the kernel counts it, or 0 if that is not available.

    The value of getrusage would include the parent process.
    """
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")), 0)
