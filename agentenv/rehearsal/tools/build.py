"""Builds a program with Go, or fetches a file out of a Go module, into a folder that it is given.

Go runs on a leash (leash.py), so that it ends when we do, however we end. What it prints is read for progress, and
when it fails for the reason.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentenv.rehearsal.tools import cache, catalog
from agentenv.rehearsal.tools.errors import BuildFailed, CacheUnwritable, CompilerKilled, DownloadFailed, ToolError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agentenv.rehearsal.tools.catalog import ModuleFile, Program
    from agentenv.rehearsal.tools.go_compiler import Compiler
    from agentenv.rehearsal.tools.progress import Task

_LEASH = Path(__file__).with_name("tied_command.py")
_REMEMBERED_LINES = 400
_SHOWN_LINES = 12

_FULL = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)
_KILLED = re.compile(r"signal: killed|out of memory|cannot allocate memory", re.IGNORECASE)
_UNWRITABLE = re.compile(r"read-only file system|permission denied|build cache is required", re.IGNORECASE)
_TAMPERED = re.compile(r"SECURITY ERROR|checksum mismatch")
_NETWORK = re.compile(
    r"dial tcp|no such host|i/o timeout|connection re(?:fused|set)|proxyconnect|TLS handshake|x509:|server misbehaving"
    r"|network is unreachable|unexpected EOF|context deadline exceeded|Client\.Timeout|module lookup disabled"
    r"|\b(?:403|404|410|429|50\d) ",
    re.IGNORECASE,
)
_OTHER_MEMBERS = re.compile(r'\s*"(?!Error)\w+":')  # of the JSON in which `go mod download` complains
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")


def build(program: Program, compiler: Compiler, folder: Path, task: Task) -> Path:
    """Fetch the modules, compile, and leave the program in the folder."""
    _require_room(program, compiler)
    # A compiler that is killed leaves its scratch behind; here it is swept with the rest.
    scratch = folder / "scratch"
    with cache.writing(scratch):
        scratch.mkdir()
    fetched = 0

    def fetching(line: str) -> None:
        nonlocal fetched
        if line.startswith("go: downloading "):
            fetched += 1
            task.doing(f"module {fetched}: {line.removeprefix('go: downloading ')}")

    # Only what is out of date is compiled and printed, so only that can be counted against.
    stale = "{{if .Stale}}{{.ImportPath}}{{end}}"
    go = _Go(program, compiler, task, scratch)
    packages = go.run(("list", "-deps", *program.flags(), "-f", stale, program.package), fetching)
    waiting = {line for line in packages if line}
    total, task_total = len(waiting), len(waiting) + 1
    task.reached(0, task_total)

    def compiling(line: str) -> None:
        if line in waiting:
            waiting.discard(line)
            task.reached(total - len(waiting), task_total)
        task.doing(line if line.startswith("go: ") or line.count(" ") == 0 else "")

    target = folder / program.name
    go.run(("build", "-v", *program.flags(), "-o", str(target), program.package), compiling)
    task.reached(task_total, task_total)
    shutil.rmtree(scratch, ignore_errors=True)
    if not target.is_file():
        raise BuildFailed(f"go ended well but left no {program.name}; report this with the output of 'go env'")
    return target


def fetch(file: ModuleFile, compiler: Compiler, folder: Path, task: Task) -> Path:
    """Fetch the module and leave its file or folder in the folder."""
    _require_room(file, compiler)
    task.doing(f"module {file.module}")
    answer = _Go(file, compiler, task, folder).run(("mod", "download", "-json", file.module), task.doing)
    module = Path(json.loads("\n".join(answer))["Dir"])
    source, target = module / file.member, folder / file.name
    if not source.exists():
        raise BuildFailed(f"{file.module} {file.version} has no {file.member}: the row of '{file.name}' is out of date")
    with cache.writing(target):
        # What the module cache holds is read-only, and so would be a copy: nobody could sweep it
        if source.is_dir():
            shutil.copytree(source, target, copy_function=shutil.copyfile)
            for place in (target, *(member for member in target.rglob("*") if member.is_dir())):
                place.chmod(0o755)
        else:
            shutil.copyfile(source, target)
            target.chmod(0o755)  # a script has to be executable
    return target


def _require_room(row: Program | ModuleFile, compiler: Compiler) -> None:
    answer = subprocess.run(
        [str(compiler.path), "env", "-json", "GOCACHE", "GOMODCACHE"],
        env=compiler.environment(),
        cwd=catalog.folder(row),
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode != 0:
        raise BuildFailed(f"'go env' ended with {answer.returncode}: {_words(answer.stderr.splitlines())}")
    places = json.loads(answer.stdout)
    needed = {cache.root(): row.room_mb}
    for name in ("GOCACHE", "GOMODCACHE"):
        if places[name] and places[name] != "off":
            needed[Path(places[name])] = row.go_room_mb // 2
    cache.require_room(needed)


@dataclass(frozen=True)
class _Go:
    """Go, run in a row's folder and with a scratch folder of ours."""

    row: Program | ModuleFile
    compiler: Compiler
    task: Task
    scratch: Path

    def run(self, arguments: Sequence[str], heard: Callable[[str], None]) -> list[str]:
        """Run it to its end; what it prints is returned, and each line of its news is passed on."""
        news: deque[str] = deque(maxlen=_REMEMBERED_LINES)
        printed: list[str] = []
        process = subprocess.Popen(
            [sys.executable, "-IS", str(_LEASH), str(self.compiler.path), *arguments],
            cwd=catalog.folder(self.row),
            env={**self.compiler.environment(), "GOTMPDIR": str(self.scratch)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            # Ctrl-C reaches us alone, and letting go of the leash is what ends go: a compiler that is told to stop
            # twice by different means leaves half a line of complaint behind.
            start_new_session=True,
        )

        def listen() -> None:
            for line in process.stderr or ():
                news.append(line.rstrip())
                heard(line.rstrip())

        def collect() -> None:
            printed.extend(line.rstrip("\n") for line in process.stdout or ())

        readers = [threading.Thread(target=read, daemon=True) for read in (listen, collect)]
        try:
            for reader in readers:
                reader.start()
            while True:
                try:
                    code = process.wait(timeout=1)
                    break
                except subprocess.TimeoutExpired:
                    # The linker works for half a minute without a word.
                    self.task.beat()
            for reader in readers:
                reader.join()
        finally:
            _let_go(process)
        if code != 0:
            raise failure(self.row.name, code, [*news, *printed[-_SHOWN_LINES:]])
        return printed


def _let_go(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(OSError):
        if process.stdin is not None:
            process.stdin.close()
    deadline = time.monotonic() + 10
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    if process.poll() is None:
        process.kill()
        process.wait()


def failure(name: str, code: int, lines: Sequence[str]) -> ToolError:
    """Tell from what go said, and how it ended, why the tool could not be had."""
    said = "\n".join(lines)
    words = _words(lines)
    if _FULL.search(said):
        return cache.full(cache.root(), 0)
    if code in {128 + signal.SIGKILL, -signal.SIGKILL} or _KILLED.search(said):
        return CompilerKilled(
            f"the compiler was killed while it built '{name}'; as a rule the machine ran out of memory (2 GB free are "
            f"needed). Close what uses it, or build with less at a time: GOMAXPROCS=1. Nothing was left behind{words}"
        )
    if _TAMPERED.search(said):
        return DownloadFailed(
            f"a module of '{name}' is not the one that go.sum pins. Something between here and the registry altered "
            f"it: do not go on, look into GOPROXY and the proxy it names{words}"
        )
    if _NETWORK.search(said):
        return DownloadFailed(
            f"the Go modules of '{name}' could not be downloaded. Check the network and GOPROXY (a registry of Go "
            f"modules that this machine can reach), then run the command again: what arrived is kept{words}"
        )
    if _UNWRITABLE.search(said):
        return CacheUnwritable(
            f"go could not write what it keeps while it built '{name}'. Name folders that can be written: "
            f"GOCACHE=<folder> and GOMODCACHE=<folder>{words}"
        )
    return BuildFailed(f"'{name}' could not be built: go ended with {code}{words}")


def _words(lines: Sequence[str]) -> str:
    """The last lines that mean something, without the credentials that a proxy's address may hold."""
    telling = [line for line in lines if line and not line.startswith(("go: downloading ", "# "))]
    # Names of packages alone are the progress of `go build -v`.
    telling = [line for line in telling if " " in line.strip() and not _OTHER_MEMBERS.match(line)]
    if not telling:
        return ""
    return ". Go said:\n" + "\n".join("  " + _CREDENTIALS.sub("…@", line) for line in telling[-_SHOWN_LINES:])
