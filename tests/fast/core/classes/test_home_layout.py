"""Tests of the layout of homes: fresh and older homes get it, and no file is lost if the move is killed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from agentenv.core.classes.pods.home_layout import script

if TYPE_CHECKING:
    import pytest

# Names as users have them, with those of the layout itself, and what a glob does not find by itself.
FILES = {
    "notes.md": "notes",
    ".profile": "profile",
    "..odd": "odd",
    "with space/and\nline": "both",
    "-rf": "dash",
    "current/mine": "a folder that is called like the layout's",
    "state/mine": "another",
    "next": "a file",
    ".config/deep/er": "deep",
}
LINKS = {"broken": "nowhere", "to-notes": "notes.md"}
COMMANDS = ("mkdir", "mv", "rmdir")


def old_home(folder: Path) -> Path:
    """Return a home in the old layout."""
    home = folder / "home"
    for name, content in FILES.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(content, encoding="utf-8")
    for name, target in LINKS.items():
        (home / name).symlink_to(target)
    return home


def contents(folder: Path) -> dict[str, str]:
    """Return every file and link below a folder, with its content or target."""
    return {
        str(path.relative_to(folder)): str(path.readlink()) if path.is_symlink() else path.read_text(encoding="utf-8")
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    }


def run(home: Path, killed_at: int | None = None) -> int:
    """Run the script; kill it with SIGKILL before its n-th command that changes the home."""
    tools, count = home.parent / "tools", home.parent / "count"
    shutil.rmtree(tools, ignore_errors=True)
    tools.mkdir()
    count.write_text("0", encoding="utf-8")
    for command in COMMANDS:
        real = shutil.which(command)
        wrapper = tools / command
        wrapper.write_text(
            f'#!/bin/sh\nn=$(($(cat "{count}") + 1))\necho $n >"{count}"\n'
            f'[ "$n" != "{killed_at}" ] || {{ kill -9 $PPID; exit 1; }}\nexec {real} "$@"\n',
            encoding="utf-8",
        )
        wrapper.chmod(0o755)
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["/bin/sh", "-c", script(), "home", str(home)], env={**os.environ, "PATH": path}, check=False
    ).returncode


def steps(home: Path) -> int:
    return int((home.parent / "count").read_text(encoding="utf-8"))


EXPECTED = {**FILES, **LINKS}


def is_complete(home: Path) -> bool:
    return (
        sorted(entry.name for entry in home.iterdir()) == ["current", "next", "state"]
        and contents(home / "current") == EXPECTED
        and list((home / "next").iterdir()) == []
        and contents(home / "state") == {"home-layout": "1\n"}
    )


def test_a_fresh_home_gets_the_layout(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    assert run(home) == 0
    assert sorted(entry.name for entry in home.iterdir()) == ["current", "next", "state"]
    assert contents(home) == {"state/home-layout": "1\n"}
    assert (home / "current").stat().st_mode & 0o777 == 0o700


def test_a_home_in_the_old_layout_is_moved_with_every_file(tmp_path: Path) -> None:
    home = old_home(tmp_path)
    inodes = {name: (home / name).lstat().st_ino for name in FILES}
    assert run(home) == 0
    assert is_complete(home)
    # Renamed and not copied, so that it takes no time and no space.
    assert {name: (home / "current" / name).lstat().st_ino for name in FILES} == inodes


def test_nothing_is_lost_wherever_the_move_is_killed(tmp_path: Path) -> None:
    whole = old_home(tmp_path / "whole")
    assert run(whole) == 0
    last = steps(whole)
    assert last > len(FILES)
    for step in range(1, last + 1):
        home = old_home(tmp_path / f"killed-{step}")
        assert run(home, killed_at=step) != 0
        remaining = sorted(contents(home).values())
        assert [value for value in remaining if value != "1\n"] == sorted(EXPECTED.values()), step
        assert run(home) == 0, step
        assert is_complete(home), step


def test_a_move_that_is_killed_after_each_file_still_arrives(tmp_path: Path) -> None:
    home = old_home(tmp_path)
    while entries := [entry for entry in home.iterdir() if not entry.name.startswith(".home-")]:
        # It makes its folder, moves one entry, and is killed before the next.
        assert run(home, killed_at=3) != 0
        left = [entry for entry in home.iterdir() if not entry.name.startswith(".home-")]
        assert len(left) == len(entries) - 1
    assert run(home) == 0
    assert is_complete(home)


def test_a_home_with_the_layout_stays_as_it_is(tmp_path: Path) -> None:
    home = old_home(tmp_path)
    assert run(home) == 0
    (home / "next" / "snapshot").write_text("s", encoding="utf-8")
    assert run(home) == 0
    assert contents(home / "current") == EXPECTED
    assert contents(home / "next") == {"snapshot": "s"}


def test_what_an_older_release_left_beside_the_layout_is_moved_too(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    home = old_home(tmp_path)
    assert run(home) == 0
    (home / "later.txt").write_text("later", encoding="utf-8")
    (home / "notes.md").write_text("other notes", encoding="utf-8")
    assert run(home) == 0
    assert contents(home / "current") == {**EXPECTED, "later.txt": "later"}
    # The name is taken: neither of the two is lost.
    assert (home / "notes.md").read_text(encoding="utf-8") == "other notes"
    assert "notes.md is in current already" in capfd.readouterr().err


def test_a_folder_in_the_way_is_no_reason_to_lose_files(tmp_path: Path) -> None:
    home = old_home(tmp_path)
    last = 4 + len(list(home.iterdir()))
    assert run(home, killed_at=last) != 0
    (home / "current").mkdir()
    (home / "current" / "new").write_text("new", encoding="utf-8")
    assert run(home) == 1
    assert {**EXPECTED}.items() <= contents(home / ".home-moving").items()
    assert (home / "current" / "new").read_text(encoding="utf-8") == "new"
