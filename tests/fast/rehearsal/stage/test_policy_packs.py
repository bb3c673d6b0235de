"""Policy packs on a stage: what runs, on which Python, and what is said of a pack that did not get to its end."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, cast

import pytest
import yaml

from agentenv.cli.commands.rehearse_view import View
from agentenv.rehearsal.scenario.scenario import Scenario, ScenarioError
from agentenv.rehearsal.stage.policy_packs import Packs, prepare
from tests.fast.rehearsal.scenario.test_scenario import FakeEngine, FakeStage, Silence

if TYPE_CHECKING:
    from pathlib import Path

    from agentenv.rehearsal.stage.engine import Engine
    from agentenv.rehearsal.stage.stage import Stage


@pytest.fixture
def packs(tmp_path: Path) -> Packs:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "PulumiPolicy.yaml").write_text("version: 0.1.0\nruntime: python\n", encoding="utf-8")
        (tmp_path / name / "__main__.py").write_text(f"print('{name}')\n", encoding="utf-8")
    return prepare([tmp_path / "one", tmp_path / "two"], tmp_path / "staged")


FINDING = {"id": "POD-01", "severity": "Critical", "verdict": "fail", "urn": "urn::web", "message": "privileged"}


def record(packs: Packs, index: int, **figures: int) -> None:
    counts: dict[str, object] = {"passed": 0, "failed": 0, "indeterminate": 0, "waived": 0, **figures}
    counts["findings"] = [FINDING] * figures.get("failed", 0)
    (packs.folders[index] / "record.json").write_text(json.dumps(counts), encoding="utf-8")


def test_a_staged_pack_runs_on_this_python_and_records(packs: Packs) -> None:
    first, second = packs.folders
    assert packs.options == [
        *("--policy-pack", str(first), "--policy-pack-config", str(first / "config.json")),
        *("--policy-pack", str(second), "--policy-pack-config", str(second / "config.json")),
    ]
    described = yaml.safe_load((first / "PulumiPolicy.yaml").read_text(encoding="utf-8"))
    assert described["runtime"]["options"]["virtualenv"] == sys.prefix
    assert described["version"] == "0.1.0"
    assert (second / "__main__.py").read_text(encoding="utf-8") == "print('two')\n"
    assert json.loads((second / "config.json").read_text(encoding="utf-8")) == {
        "two": {"record": str(second / "record.json")}
    }


def test_the_first_update_runs_the_packs_and_reports_both(packs: Packs, capsys: pytest.CaptureFixture[str]) -> None:
    engine = FakeEngine()
    played = Scenario(cast("Stage", FakeStage()), cast("Engine", engine), Silence(), packs=packs)
    record(packs, 0, passed=5, failed=1)
    record(packs, 1, passed=2, waived=3)
    played.up()
    played.again()
    assert engine.options == [tuple(packs.options), ()]
    assert played.report.policy == {"passed": 7, "failed": 1, "indeterminate": 0, "waived": 3}
    assert played.report.policy_findings == [FINDING]
    view = View(to_terminal=False)
    view.summary(played.report)
    assert "Critical POD-01 fail: web: privileged" in capsys.readouterr().err


def test_an_incomplete_pack_fails_the_scenario(packs: Packs) -> None:
    record(packs, 0, passed=5)
    played = Scenario(cast("Stage", FakeStage()), cast("Engine", FakeEngine()), Silence(), packs=packs)
    with pytest.raises(ScenarioError, match="did not complete"):
        played.up()
