"""Programs of the control plane that ended are started again, and none once the plane is being stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from agentenv.local import processes
from agentenv.rehearsal.controlplane import restarts
from agentenv.rehearsal.controlplane.client import until

TIMEOUT = 180.0
COMMAND = ["sleep", "1234"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a plane with one program, which is watched."""
    monkeypatch.setenv(processes.MARK, tmp_path.name)
    (tmp_path / "logs").mkdir()
    ended = threading.Event()
    watching = threading.Thread(target=restarts.run, args=(tmp_path, ended))
    watching.start()
    try:
        yield tmp_path
    finally:
        ended.set()
        watching.join()
        processes.end(tmp_path.name)


def started(folder: Path) -> int:
    pid = processes.start(COMMAND, environment={}, log=folder / "logs" / "first.log", folder=folder).pid
    restarts.write(folder, {"kube-controller-manager": (pid, COMMAND)})
    return pid


def running(folder: Path) -> Callable[[], list[psutil.Process]]:
    return lambda: processes.marked(folder.name)


def test_killed_program_is_started_again_each_time_with_a_line(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    psutil.Process(started(folder)).kill()
    for number in (1, 2):
        (again,) = until(running(folder), TIMEOUT)
        assert again.cmdline() == COMMAND
        assert f"kube-controller-manager has ended and is started again ({number})" in caplog.text
        again.kill()
        assert until(lambda again=again: not again.is_running(), TIMEOUT)


def test_program_that_is_gone_when_the_watch_begins_is_started(folder: Path) -> None:
    gone = processes.start(["true"], environment={}, log=folder / "logs" / "first.log", folder=folder)
    gone.wait()
    restarts.write(folder, {"kube-scheduler": (gone.pid, COMMAND)})
    assert until(running(folder), TIMEOUT)


def test_nothing_is_started_again_while_the_plane_stops(folder: Path) -> None:
    process = psutil.Process(started(folder))
    restarts.stop(folder)
    process.kill()
    # A second plane's watch, of the same kind, has seen an end and acted on it meanwhile.
    other = folder / "other"
    (other / "logs").mkdir(parents=True)
    ended = threading.Event()
    watching = threading.Thread(target=restarts.run, args=(other, ended))
    watching.start()
    restarts.write(other, {"kube-scheduler": (process.pid, ["sleep", "4321"])})
    assert until(running(folder), TIMEOUT)
    ended.set()
    watching.join()
    assert [each.cmdline() for each in processes.marked(folder.name)] == [["sleep", "4321"]]
