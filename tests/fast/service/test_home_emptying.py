"""The program that removes everything in a home."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentenv.service import home_emptying


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    outside = tmp_path / "outside"
    for folder in (home, outside):
        folder.mkdir()
        (folder / "notes").write_text("kept")
    (home / "a/b/c").mkdir(parents=True)
    for number in range(40):
        (home / "a/b" / f"{number}").touch()
    (home / "link").symlink_to(outside)
    (home / "file-link").symlink_to(outside / "notes")
    (home / "a/closed").mkdir()
    (home / "a/closed/file").touch()
    (home / "a/closed").chmod(0)
    os.mkfifo(home / "pipe")
    return home


def test_nothing_is_left_and_links_are_not_followed(home: Path) -> None:
    assert home_emptying.main([str(home)]) == 0
    assert [*home.iterdir()] == []
    assert (home.parent / "outside" / "notes").read_text() == "kept"


def test_it_can_be_repeated(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert home_emptying.empty(home) == 49
    assert home_emptying.main([str(home)]) == 0
    assert capsys.readouterr().out == "removed 0 entries, 0 are left\n"


def test_folders_deeper_than_a_path_may_be_are_removed(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    name = "d" * 200
    for _ in range(1200):
        os.mkdir(name, dir_fd=folder)
        below = os.open(name, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)
    assert home_emptying.main([str(tmp_path)]) == 0


def test_a_home_that_is_not_empty_afterwards_fails(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home_emptying, "empty", lambda _: 0)
    assert home_emptying.main([str(home)]) == 1
