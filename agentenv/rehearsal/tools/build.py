"""Build a program with Go, or fetch a file from a Go module, into a given folder.

Go runs under `tied_command.py`, so that it ends with this process, however that ends. Its output is read for progress
and, after a failure, for the reason.
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

_TIED_COMMAND = Path(__file__).with_name("tied_command.py")
_REMEMBERED_LINES = 400
_SHOWN_LINES = 12

_DISK_FULL = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)
_KILLED = re.compile(r"signal: killed|out of memory|cannot allocate memory", re.IGNORECASE)
_UNWRITABLE = re.compile(r"read-only file system|permission denied|build cache is required", re.IGNORECASE)
_CHECKSUM = re.compile(r"SECURITY ERROR|checksum mismatch")
_NETWORK = re.compile(
    r"dial tcp|no such host|i/o timeout|connection re(?:fused|set)|proxyconnect|TLS handshake|x509:|server misbehaving"
    r"|network is unreachable|unexpected EOF|context deadline exceeded|Client\.Timeout|module lookup disabled"
    r"|\b(?:403|404|410|429|50\d) ",
    re.IGNORECASE,
)
_OTHER_MEMBERS = re.compile(r'\s*"(?!Error)\w+":')  # of the JSON in which `go mod download` complains
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")


def build(program: Program, compiler: Compiler, folder: Path, task: Task) -> Path:
    """Download the modules, compile, and write the program to the folder."""
    _check_disk_space(program, compiler)
    # A killed compiler leaves its scratch folder; here it is deleted with the rest.
    scratch = folder / "scratch"
    with cache.writing(scratch):
        scratch.mkdir()
    fetched = 0

    def fetching(line: str) -> None:
        nonlocal fetched
        if line.startswith("go: downloading "):
            fetched += 1
            task.doing(f"module {fetched}: {line.removeprefix('go: downloading ')}")

    # Only stale packages are compiled and printed, so progress counts only those.
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
    """Download the module and copy its file or folder to the folder."""
    _check_disk_space(file, compiler)
    task.doing(f"module {file.module}")
    output = _Go(file, compiler, task, folder).run(("mod", "download", "-json", file.module), task.doing)
    module = Path(json.loads("\n".join(output))["Dir"])
    source, target = module / file.member, folder / file.name
    if not source.exists():
        raise BuildFailed(f"{file.module} {file.version} has no {file.member}: the row of '{file.name}' is out of date")
    with cache.writing(target):
        # Files of the module cache are read-only, and so would be a copy, which could not be deleted
        if source.is_dir():
            shutil.copytree(source, target, copy_function=shutil.copyfile)
            for directory in (target, *(member for member in target.rglob("*") if member.is_dir())):
                directory.chmod(0o755)
        else:
            shutil.copyfile(source, target)
            target.chmod(0o755)  # a script has to be executable
    return target


def _check_disk_space(row: Program | ModuleFile, compiler: Compiler) -> None:
    completed = subprocess.run(
        [str(compiler.path), "env", "-json", "GOCACHE", "GOMODCACHE"],
        env=compiler.environment(),
        cwd=catalog.folder(row),
        capture_output=True,
        text=True,
        check=False,
    )
    if completed.returncode != 0:
        raise BuildFailed(f"'go env' ended with {completed.returncode}: {_excerpt(completed.stderr.splitlines())}")
    folders = json.loads(completed.stdout)
    needed = {cache.root(): row.room_mb}
    for name in ("GOCACHE", "GOMODCACHE"):
        if folders[name] and folders[name] != "off":
            needed[Path(folders[name])] = row.go_room_mb // 2
    cache.require_room(needed)


@dataclass(frozen=True)
class _Go:
    """Go, run in a recipe's folder with a scratch folder of its own."""

    row: Program | ModuleFile
    compiler: Compiler
    task: Task
    scratch: Path

    def run(self, arguments: Sequence[str], on_line: Callable[[str], None]) -> list[str]:
        """Run Go to its end, pass on each line of stderr, and return the lines of stdout."""
        recent: deque[str] = deque(maxlen=_REMEMBERED_LINES)
        printed: list[str] = []
        process = subprocess.Popen(
            [sys.executable, "-IS", str(_TIED_COMMAND), str(self.compiler.path), *arguments],
            cwd=catalog.folder(self.row),
            env={**self.compiler.environment(), "GOTMPDIR": str(self.scratch)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            # Ctrl-C reaches only this process, and closing the pipe ends go: a compiler that is stopped twice in
            # different ways leaves half a line of output behind.
            start_new_session=True,
        )

        def listen() -> None:
            for line in process.stderr or ():
                recent.append(line.rstrip())
                on_line(line.rstrip())

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
                    # The linker runs for half a minute without output.
                    self.task.beat()
            for reader in readers:
                reader.join()
        finally:
            _stop(process)
        if code != 0:
            raise failure(self.row.name, code, [*recent, *printed[-_SHOWN_LINES:]])
        return printed


def _stop(process: subprocess.Popen[str]) -> None:
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
    """Return the error for a failed run, from its output and exit code."""
    text = "\n".join(lines)
    excerpt = _excerpt(lines)
    if _DISK_FULL.search(text):
        return cache.full(cache.root(), 0)
    if code in {128 + signal.SIGKILL, -signal.SIGKILL} or _KILLED.search(text):
        return CompilerKilled(
            f"the compiler was killed while it built '{name}'; as a rule the machine ran out of memory (2 GB free are "
            f"needed). Close what uses it, or build with less at a time: GOMAXPROCS=1. Nothing was left behind{excerpt}"
        )
    if _CHECKSUM.search(text):
        return DownloadFailed(
            f"a module of '{name}' is not the one that go.sum pins. Something between here and the registry altered "
            f"it: do not go on, look into GOPROXY and the proxy it names{excerpt}"
        )
    if _NETWORK.search(text):
        return DownloadFailed(
            f"the Go modules of '{name}' could not be downloaded. Check the network and GOPROXY (a registry of Go "
            f"modules that this machine can reach), then run the command again: what arrived is kept{excerpt}"
        )
    if _UNWRITABLE.search(text):
        return CacheUnwritable(
            f"go could not write what it keeps while it built '{name}'. Name folders that can be written: "
            f"GOCACHE=<folder> and GOMODCACHE=<folder>{excerpt}"
        )
    return BuildFailed(f"'{name}' could not be built: go ended with {code}{excerpt}")


def _excerpt(lines: Sequence[str]) -> str:
    """Return the last relevant lines, without credentials in a proxy's address."""
    relevant = [line for line in lines if line and not line.startswith(("go: downloading ", "# "))]
    # Names of packages alone are the progress of `go build -v`.
    relevant = [line for line in relevant if " " in line.strip() and not _OTHER_MEMBERS.match(line)]
    if not relevant:
        return ""
    return ". Go said:\n" + "\n".join("  " + _CREDENTIALS.sub("…@", line) for line in relevant[-_SHOWN_LINES:])
