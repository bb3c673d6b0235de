"""Building with Go, played by a script: what is kept, what is said when it fails, what is left when it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from agentenv.rehearsal.controlplane.client import until
from agentenv.rehearsal.tools import build, cache, catalog, ensure, go_compiler, survey
from agentenv.rehearsal.tools.errors import (
    BuildFailed,
    CacheUnwritable,
    CompilerKilled,
    DiskFull,
    DownloadFailed,
    NoCompiler,
    ToolError,
    UnknownTool,
)
from agentenv.rehearsal.tools.progress import Lines, Silent
from tests.fast.rehearsal.tools import fake_go


class Bench:
    """A machine with nothing on PATH but the fake go."""

    def __init__(self, folder: Path) -> None:
        self.orders = folder / "orders"
        self.path = folder / "bin"
        self.orders.mkdir()
        fake_go.install(self.path)

    def behave(self, how: str) -> None:
        temporary = self.orders / "new"
        temporary.write_text(how, encoding="utf-8")
        temporary.rename(self.orders / "behaviour")

    def calls(self, verb: str) -> int:
        log = self.orders / "calls"
        return sum(line.startswith(verb) for line in log.read_text().splitlines()) if log.exists() else 0

    def left(self) -> list[str]:
        return sorted(path.name for path in cache.place("x").parent.iterdir() if path.suffix != ".lock")


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    found = Bench(tmp_path)
    monkeypatch.setenv("FAKE_GO", str(found.orders))
    monkeypatch.setenv("PATH", str(found.path))
    monkeypatch.setenv("AGENTENV_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(cache.shutil, "disk_usage", lambda _: SimpleNamespace(free=2**40))
    return found


def test_builds_once_and_then_needs_neither_go_nor_network(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {tool.source for tool in survey()} == {"absent"}
    first = ensure(["pulumi", "language-python-exec"], Silent())
    assert (bench.calls("build"), bench.calls("mod")) == (1, 1)
    assert os.access(first.path("language-python-exec"), os.X_OK)
    folder = first.path("pulumi").parent
    assert sorted(path.name for path in folder.iterdir()) == ["manifest.json", "pulumi"]
    monkeypatch.setenv("PATH", "/nowhere")
    again = ensure(["pulumi", "language-python-exec"], Silent())
    assert again.path("pulumi") == first.path("pulumi")
    assert [tool.name for tool in survey() if tool.source == "cache"] == ["pulumi", "language-python-exec"]
    assert bench.calls("build") == 1


def test_a_damaged_tool_is_built_again(bench: Bench) -> None:
    path = ensure(["pulumi"], Silent()).path("pulumi")
    path.write_text("half")
    assert survey()[0].source == "absent"
    assert ensure(["pulumi"], Silent()).path("pulumi").read_text() != "half"
    assert bench.calls("build") == 2


def test_concurrent_builds_run_once_and_the_second_reports_that_it_waits(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.behave("slow")
    results: list[Path] = []
    first = threading.Thread(target=lambda: results.append(ensure(["pulumi"], Silent()).path("pulumi")))
    first.start()
    assert until((bench.orders / "pids").exists, 180)
    second = threading.Thread(target=lambda: results.append(ensure(["pulumi"], Lines(sys.stdout)).path("pulumi")))
    second.start()
    output = ""

    def waits() -> bool:
        nonlocal output
        output += capsys.readouterr().out
        return "waiting for it" in output

    assert until(waits, 180)
    bench.behave("good")
    first.join()
    second.join()
    assert len(results) == 2
    assert results[0] == results[1]
    assert bench.calls("build") == 1


def test_killed_build_ends_go_and_the_next_build_succeeds(bench: Bench) -> None:
    bench.behave("slow")
    code = (
        "from agentenv.rehearsal.tools import ensure; from agentenv.rehearsal.tools.progress import Silent; "
        "ensure(['pulumi'], Silent())"
    )
    parent = subprocess.Popen([sys.executable, "-c", code])
    try:
        assert until(lambda: (bench.orders / "pids").exists() and bool((bench.orders / "pids").read_text()), 180)
    finally:
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
    for pid in (bench.orders / "pids").read_text().split():
        assert until(lambda pid=int(pid): not alive(pid), 180)
    assert any(".building-" in name for name in bench.left())
    bench.behave("good")
    ensure(["pulumi"], Silent())
    assert bench.left() == [catalog.key(catalog.recipe("pulumi"))]


def test_ctrl_c_ends_go_and_leaves_nothing(bench: Bench) -> None:
    bench.behave("slow")
    code = (
        "import sys; from agentenv.rehearsal.tools import ensure\n"
        "from agentenv.rehearsal.tools.progress import Silent\n"
        "try: ensure(['pulumi'], Silent())\n"
        "except KeyboardInterrupt: sys.exit(130)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code])
    assert until(lambda: (bench.orders / "pids").exists() and bool((bench.orders / "pids").read_text()), 180)
    parent.send_signal(signal.SIGINT)
    assert parent.wait(timeout=30) == 130
    for pid in (bench.orders / "pids").read_text().split():
        assert until(lambda pid=int(pid): not alive(pid), 180)
    assert bench.left() == []


@pytest.mark.parametrize(
    ("behaviour", "error", "words"),
    [
        ("no network", DownloadFailed, r"GOPROXY(.|\n)*no such host"),
        ("no space", DiskFull, "disk is full"),
        ("killed", CompilerKilled, "memory"),
        ("compiler killed", CompilerKilled, r"GOMAXPROCS(.|\n)*signal: killed"),
        ("mistake", BuildFailed, r"ended with 1(.|\n)*undefined: thing"),
        ("wrong version", BuildFailed, r"not version v3\.259\.0: it says 1\.0\.0"),
        ("old", NoCompiler, r"it is Go 1\.20\.1, and 1\.26\.0 or newer"),
    ],
)
def test_each_failure_has_a_message_and_leaves_nothing(
    bench: Bench, behaviour: str, error: type[ToolError], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(go_compiler, "PACKAGE", "no-such-package")
    bench.behave(behaviour)
    with pytest.raises(error, match=words) as caught:
        ensure(["pulumi"], Silent())
    assert "secret" not in str(caught.value)
    assert not cache.place("x").parent.exists() or bench.left() == []
    bench.behave("good")
    assert ensure(["pulumi"], Silent()).path("pulumi").is_file()


def test_missing_compiler_names_what_to_install(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(go_compiler, "PACKAGE", "no-such-package")
    with pytest.raises(NoCompiler, match=r"version 1\.26\.0 or newer.*no-such-package.*go\.dev/dl"):
        ensure(["pulumi"], Silent())


def test_too_little_disk_space_is_refused_before_any_download(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache.shutil, "disk_usage", lambda _: SimpleNamespace(free=100 * 2**20))
    with pytest.raises(DiskFull, match=r"100 MB are free.*are needed"):
        ensure(["pulumi"], Silent())
    assert bench.calls("list") == 0


def test_a_name_without_a_recipe_is_refused() -> None:
    with pytest.raises(UnknownTool, match=r"'terraform'.*pulumi"):
        ensure(["terraform"], Silent())


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        (["verifying module: checksum mismatch", "SECURITY ERROR"], DownloadFailed),
        (["go: x@v1: reading https://p/x.zip: 403 Forbidden"], DownloadFailed),
        (["mkdir /go/pkg: read-only file system"], CacheUnwritable),
        (["open /root/.cache/go-build/x: no space left on device"], DiskFull),
        (["fatal error: runtime: out of memory"], CompilerKilled),
        ([], BuildFailed),
    ],
)
def test_output_of_go_is_parsed(lines: list[str], error: type[ToolError], bench: Bench) -> None:
    assert type(build.failure("thing", 1, lines)) is error


def test_the_compiler_of_the_package_is_found_when_path_has_none(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("GOCACHE", raising=False)
    found = go_compiler.find(catalog.least_go(catalog.recipe("pulumi")), lambda _: None)
    assert (Path(found.environment()["GOROOT"]) / "src" / "fmt").is_dir()
    assert found.environment()["GOCACHE"].startswith(str(cache.root()))
    assert found.environment()["GOTOOLCHAIN"] == "local"


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
