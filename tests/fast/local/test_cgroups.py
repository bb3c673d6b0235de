"""Processors are limited by cgroups of both versions, and a cgroup ends with its processes."""

from __future__ import annotations

import subprocess
from decimal import Decimal
from pathlib import Path

import pytest

from agentenv.local import cgroups
from agentenv.local.cgroups import Cgroup


def machine(tmp_path: Path, version: int) -> tuple[Path, Path]:
    """Return folders that stand for a mount of cgroups and for this process's own entry."""
    mount, own = tmp_path / "cgroup", tmp_path / "own"
    if version == 1:
        (mount / "cpu" / "mine").mkdir(parents=True)
        own.write_text("3:cpuset:/\n1:cpu:/mine\n0::/\n", encoding="utf-8")
    else:
        (mount / "mine").mkdir(parents=True)
        for folder in (mount, mount / "mine"):
            (folder / "cgroup.subtree_control").touch()
        (mount / "cgroup.controllers").write_text("cpu memory\n", encoding="utf-8")
        own.write_text("0::/mine\n", encoding="utf-8")
    return mount, own


@pytest.mark.parametrize(("version", "folder"), [(1, "cpu/mine"), (2, "mine")])
def test_the_own_cgroup_is_where_others_are_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, folder: str
) -> None:
    monkeypatch.setattr(cgroups, "_EMPTY_SECONDS", 0.1)  # a folder with files is never deleted
    mount, own = machine(tmp_path, version)
    found, reason = cgroups.detect("run", mount, own)
    assert (found and found.parent, reason) == (mount / folder, "")
    if version == 2:
        assert (mount / folder / "cgroup.subtree_control").read_text() == "+cpu"


def test_missing_cgroups_have_a_reason(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("1:cpu:/gone\n", encoding="utf-8")
    found, reason = cgroups.detect("run", tmp_path, own)
    assert found is None
    assert "No such file" in reason
    own.write_text("1:memory:/\n", encoding="utf-8")
    assert cgroups.detect("run", tmp_path, own) == (None, "this machine has no controller of processors")


@pytest.mark.parametrize(
    ("cpus", "quota"), [(Decimal("0.5"), "50000"), (Decimal("0.001"), "1000"), (Decimal(4), "400000"), (None, None)]
)
def test_a_limit_is_a_share_of_each_period(tmp_path: Path, cpus: Decimal | None, quota: str | None) -> None:
    Cgroup(tmp_path).limit(cpus)
    assert (tmp_path / "cpu.cfs_quota_us").read_text() == (quota or "-1")
    (tmp_path / "cpu.max").touch()
    Cgroup(tmp_path).limit(cpus)
    assert (tmp_path / "cpu.max").read_text() == f"{quota or 'max'} 100000"


def test_a_process_enters_before_it_is_the_program(tmp_path: Path) -> None:
    process = subprocess.Popen(Cgroup(tmp_path).command(["cat"]), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.communicate(b"")
    assert (tmp_path / "cgroup.procs").read_text().strip() == str(process.pid)
    missing = Cgroup(tmp_path / "gone").command(["touch", str(tmp_path / "ran")])
    assert subprocess.run(missing, check=False, stderr=subprocess.DEVNULL).returncode != 0
    assert not (tmp_path / "ran").exists()


def test_the_cgroups_of_a_run_are_deleted_and_those_of_others_stay(tmp_path: Path) -> None:
    mount, own = machine(tmp_path, 1)
    parent = mount / "cpu" / "mine"
    for name in ("agentenv-a-0", "agentenv-a-1", "agentenv-b-0"):
        (parent / name).mkdir()
    cgroups.remove("a", mount, own)
    assert [path.name for path in parent.iterdir()] == ["agentenv-b-0"]
