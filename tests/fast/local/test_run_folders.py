"""Run folders: private, apart from each other, swept when their rehearsal died, kept when asked."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from agentenv.local import run_folders


def test_two_runs_never_share_a_folder(tmp_path: Path) -> None:
    first, second = run_folders.create(tmp_path), run_folders.create(tmp_path)
    assert first.folder != second.folder
    first.remove()
    second.remove()


def test_a_run_folder_is_for_its_owner_only(tmp_path: Path) -> None:
    run = run_folders.create(tmp_path)
    assert stat.S_IMODE(run.folder.stat().st_mode) == 0o700
    run.remove()
    assert not run.folder.exists()


def test_sweep_removes_dead_runs_and_leaves_live_and_retained_ones(tmp_path: Path) -> None:
    living, dead, retained = run_folders.create(tmp_path), run_folders.create(tmp_path), run_folders.create(tmp_path)
    dead.release()
    retained.keep({"run": retained.id, "folder": str(retained.folder)})
    retained.release()
    assert run_folders.sweep(tmp_path) == [dead.id]
    assert living.folder.exists()
    assert not dead.folder.exists()
    assert [row["run"] for row in run_folders.kept_runs(tmp_path)] == [retained.id]
    assert run_folders.finish(retained.id, tmp_path)
    assert not retained.folder.exists()
    living.remove()


@pytest.mark.parametrize("name", ["unknown", "..", "../..", ".", ""])
def test_only_a_retained_run_can_be_ended(tmp_path: Path, name: str) -> None:
    run = run_folders.create(tmp_path)
    assert not run_folders.finish(name, tmp_path)
    assert not run_folders.finish(run.id, tmp_path)
    assert run.folder.exists()
    run.remove()


def test_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("AGENTENV_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert run_folders.cache() == tmp_path / "xdg" / "agentenv"
    monkeypatch.setenv("AGENTENV_CACHE", str(tmp_path / "own"))
    assert run_folders.cache() == tmp_path / "own"
    monkeypatch.delenv("AGENTENV_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert run_folders.cache() == tmp_path / "home" / ".cache" / "agentenv"
