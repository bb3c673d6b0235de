"""A stack file with mistakes: all of them at once, before anything is registered, and no traceback."""

from __future__ import annotations

from pathlib import Path

from agentenv.rehearsal.stage.stage import Stage

ROOT = Path(__file__).resolve().parents[3]


def test_every_mistake_is_reported_and_nothing_is_registered(opened: Stage) -> None:
    wrong = {
        "aws:region": "us-east-1",
        "agent-environment:cluster": {"publicAccessCidrs": ["203.0.113.0/24"]},
        "agent-environment:netwrok": {"zones": 2},
        "agent-environment:network": {"nat": "both", "cidr": "10.0.0.1/16"},
        "agent-environment:storage": {"fileSystems": 0},
    }
    engine = opened.program(ROOT / "stacks", "dev", wrong, {"name": "agent-environment"})
    refused = engine.preview(check=False)
    diagnostics = "\n".join(refused.diagnostics)
    assert refused.code != 0
    assert "the stack's configuration has 4 mistakes" in diagnostics
    for path in ("netwrok", "network.nat", "network.cidr", "storage.fileSystems"):
        assert f"agent-environment:{path}: found" in diagnostics
    assert "Traceback" not in refused.output
    assert set(refused.changes) <= {"create"}
    assert refused.changes.get("create", 0) <= 1, "more than the stack itself was registered"


def test_secret_is_not_shown_in_a_mistake(opened: Stage) -> None:
    engine = opened.program(ROOT / "stacks", "dev", {"aws:region": "us-east-1"}, {"name": "agent-environment"})
    engine.call("config", "set", "--secret", "agent-environment:network", "hunter2", "--stack", "dev")
    refused = engine.preview(check=False)
    assert refused.code != 0
    assert "agent-environment:network" in "\n".join(refused.diagnostics)
    assert "hunter2" not in refused.output
