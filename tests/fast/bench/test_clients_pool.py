"""How the benchmark of clients compares both sides."""

from __future__ import annotations

from bench.clients_pool import _compared


def test_creation_is_compared_with_the_raw_claim() -> None:
    found = _compared([10.0, 20.0, 40.0], [30.0, 50.0, 60.0])
    assert found["added_ms"] == 30.0
    assert found["ratio"] == {"p50": 2.5, "p99": 1.5}
