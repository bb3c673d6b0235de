"""How benchmarks compare creates with raw claims of the same pool."""

from __future__ import annotations

from bench.warm_pool import compared


def test_creates_are_compared_with_raw_claims() -> None:
    assert compared([10.0, 20.0, 40.0], [30.0, 50.0, 60.0], "e2b") == {
        "raw": {"p50_ms": 20.0, "p99_ms": 40.0},
        "e2b": {"p50_ms": 50.0, "p99_ms": 60.0},
        "added_ms": 30.0,
        "ratio": {"p50": 2.5, "p99": 1.5},
        "count": 3,
    }
