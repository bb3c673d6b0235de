"""The cache: whole or not there, one writer at a time, and words when it cannot be written."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from agentenv.rehearsal.tools import cache
from agentenv.rehearsal.tools.errors import CacheUnwritable, DiskFull

KEY = "thing-v1-abc"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGENTENV_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def keep(content: bytes = b"a tool") -> Path:
    with cache.locked(KEY, lambda _: None), cache.workplace(KEY) as folder:
        (folder / "thing").write_bytes(content)
        return cache.publish(KEY, folder, "thing", {"version": "v1"})


def test_stored_tool_is_found() -> None:
    path = keep()
    assert cache.lookup(KEY, "thing") == path
    assert path.read_bytes() == b"a tool"
    assert not list(path.parent.parent.glob("*.building-*"))


@pytest.mark.parametrize("damage", ["shorter", "altered", "no manifest", "broken manifest", "no file"])
def test_damaged_tool_is_replaced(damage: str) -> None:
    path = keep()
    match damage:
        case "shorter":
            path.write_bytes(b"a to")
        case "altered":
            path.write_bytes(b"a fool")
        case "no manifest":
            (path.parent / cache.MANIFEST).unlink()
        case "broken manifest":
            (path.parent / cache.MANIFEST).write_text('{"size": 6')
        case _:
            path.unlink()
    assert cache.lookup(KEY, "thing") is None
    keep()
    assert cache.lookup(KEY, "thing") == path


def test_a_failed_build_leaves_nothing(own_cache: Path) -> None:
    def fail() -> None:
        with cache.locked(KEY, lambda _: None), cache.workplace(KEY) as folder:
            (folder / "thing").write_bytes(b"half")
            raise RuntimeError("the compiler gave up")

    with pytest.raises(RuntimeError, match="gave up"):
        fail()
    assert cache.lookup(KEY, "thing") is None
    assert [path.suffix for path in cache.place(KEY).parent.iterdir()] == [".lock"]


def test_files_of_a_killed_build_are_removed() -> None:
    leftover = cache.place(KEY).with_name(f"{KEY}.building-old")
    leftover.mkdir(parents=True)
    (leftover / "thing").write_bytes(b"half")
    other = cache.place(KEY).with_name("other-v1-abc.building-new")
    other.mkdir()
    keep()
    assert not leftover.exists()
    assert other.exists(), "another tool's build may be going on"


def test_lock_names_its_holder_and_is_released_when_it_is_killed() -> None:
    code = (
        "import sys, time\n"
        "from agentenv.rehearsal.tools import cache\n"
        f"with cache.locked({KEY!r}, lambda _: None):\n"
        "    print('held', flush=True)\n"
        "    time.sleep(600)\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        heard: list[str] = []

        def waiting(who: str) -> None:
            heard.append(who)
            os.kill(holder.pid, signal.SIGKILL)

        with cache.locked(KEY, waiting):
            assert heard
            assert set(heard) == {str(holder.pid)}
    finally:
        holder.kill()
        holder.communicate()


def test_a_cache_that_cannot_be_written_is_named(own_cache: Path) -> None:
    # A file in its place: folder permissions do not hold back a test that runs as root.
    own_cache.write_text("")
    with pytest.raises(CacheUnwritable, match=rf"{own_cache}.*AGENTENV_CACHE"):
        keep()


def test_cache_that_cannot_be_created_is_named_before_a_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTENV_CACHE", "/proc/cache")
    with pytest.raises(CacheUnwritable, match=r"/proc/cache cannot be written"):
        cache.require_writable()


def test_full_disk_is_reported(own_cache: Path) -> None:
    own_cache.mkdir()
    with pytest.raises(DiskFull, match="disk is full"), cache.writing(own_cache):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_other_system_errors_are_raised(own_cache: Path) -> None:
    with pytest.raises(OSError, match="too many"), cache.writing(own_cache):
        raise OSError(errno.EMFILE, "too many open files")


def test_disk_space_is_added_up_by_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache.shutil, "disk_usage", lambda _: SimpleNamespace(free=1000 * 2**20))
    cache.require_room({tmp_path / "a" / "b": 600, tmp_path / "c": 400})
    with pytest.raises(DiskFull, match=r"1000 MB are free.*1100 MB are needed"):
        cache.require_room({tmp_path / "a" / "b": 600, tmp_path / "c": 500})


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"AGENTENV_CACHE": "/given"}, "/given"),
        ({"XDG_CACHE_HOME": "/xdg"}, "/xdg/agentenv"),
        ({"HOME": "/somebody"}, "/somebody/.cache/agentenv"),
    ],
)
def test_where_the_cache_is(variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AGENTENV_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache.root() == Path(expected)
