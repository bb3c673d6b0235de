"""A stage says what is wrong with its cloud or its disk in words."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from agentenv.local import run_folders
from agentenv.rehearsal import tools
from agentenv.rehearsal.stage.engine import Engine
from agentenv.rehearsal.stage.stage import Stage, StageError, stage
from agentenv.rehearsal.tools.progress import terminal_progress
from agentenv.rehearsal.tools.toolbox import Toolbox


@pytest.fixture
def fallen(tmp_path: Path) -> Stage:
    """A stage whose cloud is gone; only its log is left."""
    run = run_folders.create(tmp_path)
    (run.logs / "cloud.log").write_text("".join(f"line {n}\n" for n in range(20)), encoding="utf-8")
    return Stage(run, tmp_path / "bin" / "pulumi", "http://127.0.0.1:1", {"PATH": "/usr/bin"}, {})


def test_unresponsive_cloud_is_reported_with_its_log(fallen: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:2")  # loopback is not asked through it
    with pytest.raises(StageError, match=r"does not answer.*refused.*\nline 10\n(line \d+\n){8}line 19$"):
        fallen.leftovers()


def test_retained_stage_has_the_engine_on_path(fallen: Stage) -> None:
    engine = Engine(fallen.pulumi, fallen.run.folder, "local", dict(fallen.environment), fallen.run.logs)
    fallen.keep(engine)
    [record] = run_folders.kept_runs(fallen.run.folder.parent)
    assert json.loads(json.dumps(record))["environment"]["PATH"] == f"{fallen.pulumi.parent}:/usr/bin"


def test_too_little_disk_space_is_reported_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "ensure", lambda *_: Toolbox())
    almost_full = shutil.disk_usage(tmp_path)._replace(free=50 * 2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: almost_full)
    with (
        pytest.raises(StageError, match=r"50 MB are free .* needs 100; .*AGENTENV_CACHE"),
        stage(terminal_progress(), under=tmp_path),
    ):
        raise AssertionError("it opened")
    assert list(tmp_path.iterdir()) == []
