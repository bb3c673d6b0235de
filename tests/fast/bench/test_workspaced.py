"""The figures of workspaced's benchmark keep their baselines, and say which are out of their bounds."""

from __future__ import annotations

from bench.workspaced import figures


def test_figures_have_their_baselines_and_whether_they_hold() -> None:
    true = {"name": "run true, p50", "value": 12.25, "baseline": 4.0, "figure": 8.25, "bound": 15, "what": "ms"}
    up = {"name": "1024 MB up", "value": 500.0, "baseline": 1000.0, "figure": 0.5, "bound": 0.6, "what": "of cp"}
    memory = {"name": "  memory of both", "value": 29.0, "figure": 31.0, "bound": 30, "what": "MiB"}
    shown = figures([true, {**up, "least": True}, memory])
    assert shown["run true, p50"] == {
        "value": 12.25, "baseline": 4.0, "figure": 8.25, "bound": 15, "held": True, "what": "ms",
    }  # fmt: skip
    assert shown["1024 MB up"]["held"] is False
    assert shown["memory of both"]["held"] is False
    assert "baseline" not in shown["memory of both"]
