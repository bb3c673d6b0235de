"""`make test`: every check and every group of tests, and a table of what ran and what did not.

What the engine and live tests run is built first, where it is not there yet. The live tests wait more than they work,
so they go beside everything else, except with CI set, where nobody waits and quiet counts for more; the checks, which
need one core, go beside the fast tests. Nothing is skipped in silence: each test that did not run is listed with its
reason, and with CI set it fails the gate, unless --without names the variable that it needs. The type checker, which
reads three thousand files to say the same again, is not asked twice about the same sources: the table says so then, and
with CI set it is asked whatever happened before.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET

from agentenv.rehearsal import tools
from agentenv.rehearsal.tools import catalog
from agentenv.rehearsal.tools.progress import terminal_progress

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
SPEAKING = threading.Lock()


@dataclass(frozen=True)
class Check:
    """A command that must end with 0."""

    name: str
    command: tuple[str, ...]
    remembered: bool = False  # it reads nothing but sources, settings and locked packages


@dataclass(frozen=True)
class Group:
    """A folder of tests."""

    name: str
    workers: int


@dataclass
class Result:
    """How a check or a group ended."""

    name: str
    ok: bool
    seconds: float
    said: str
    output: str
    counts: Counter[str] = field(default_factory=Counter)
    not_run: list[str] = field(default_factory=list)


CHECKS = (
    Check("format", ("ruff", "format", "--check", "--quiet", ".")),
    Check("lint", ("ruff", "check", "--quiet", ".")),
    Check("imports", ("lint-imports", "--no-logo")),
    Check("generated", ("python", "-m", "agentenv.generate", "--check")),
    Check("types", ("pyright",), remembered=True),
)
# What a test may need that a repository cannot hold: the official providers' schemas and recorded calls
OPTIONAL = ("AGENTENV_FACTS",)
# Each lane's groups follow one another; the lanes go side by side.
LANES = ((Group("fast", 2), Group("engine", 2)), (Group("live", 1),))
# Every worker and plugin would else compile our sources anew, on a machine that is told not to keep what it compiles.
SURROUNDINGS = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def main() -> int:
    """Run it all, or what was asked for."""
    parser = argparse.ArgumentParser(prog="make test", description=__doc__)
    parser.add_argument("--lint", action="store_true", help="the checks only")
    parser.add_argument("--group", choices=[row.name for lane in LANES for row in lane], help="one group only")
    parser.add_argument(
        "--without", action="append", default=[], choices=OPTIONAL,
        help="with CI set, too, allow tests to be skipped that need this variable",
    )  # fmt: skip
    wanted = parser.parse_args()
    without: tuple[str, ...] = tuple(wanted.without)
    checks: list[Callable[[], Result]] = [functools.partial(run_check, check) for check in CHECKS]
    lanes: list[list[Callable[[], Result]]] = [
        [functools.partial(run_group, row, without) for row in lane if wanted.group in {None, row.name}]
        for lane in LANES
    ]
    began = time.monotonic()
    if not wanted.lint and wanted.group != "fast" and not (built := announced(build_tools())).ok:
        return conclude([built], time.monotonic() - began)
    if os.environ.get("CI"):
        lanes = [[part for lane in lanes for part in lane]]
    results = side_by_side([[] if wanted.group else checks, *([] if wanted.lint else lanes)])
    return conclude(results, time.monotonic() - began, without)


def build_tools() -> Result:
    """Everything that the engine and live tests run: a build beside them would try their patience."""
    began = time.monotonic()
    try:
        box = tools.ensure([row.name for row in catalog.RECIPES], terminal_progress(sys.stdout))
    except tools.ToolError as failure:
        return Result("tools", False, time.monotonic() - began, "", str(failure))
    return Result("tools", True, time.monotonic() - began, f"{len(box.tools)} at hand", "")


def side_by_side(lanes: Sequence[Sequence[Callable[[], Result]]]) -> list[Result]:
    """All lanes at once, what is in each one after the other; the results in the order in which they stand here."""
    with ThreadPoolExecutor(max_workers=len(lanes)) as pool:
        running = [pool.submit(lambda lane=lane: [announced(part()) for part in lane]) for lane in lanes]
        return [result for future in running for result in future.result()]


def run_check(check: Check) -> Result:
    """One check, its output kept for when it fails."""
    began = time.monotonic()
    stamp, sources = ROOT / ".venv" / f".{check.name}-passed", ""
    if check.remembered and not os.environ.get("CI"):
        sources = fingerprint()
        if stamp.exists() and stamp.read_text(encoding="utf-8") == sources:
            return Result(check.name, True, time.monotonic() - began, "unchanged since it passed", "")
    program, *rest = check.command
    ended = subprocess.run(
        [str(BIN / program), *rest], cwd=ROOT, env=SURROUNDINGS, capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    output = (ended.stdout + ended.stderr).strip()
    if ended.returncode == 0 and sources and fingerprint() == sources and stamp.parent.is_dir():
        stamp.write_text(sources, encoding="utf-8")
    return Result(check.name, ended.returncode == 0, time.monotonic() - began, "", output)


def fingerprint() -> str:
    """Tells two states of the sources, the settings, the installed packages or the Python apart."""
    found = hashlib.sha256(sys.version.encode())
    if (synced := ROOT / ".venv" / ".synced").exists():
        found.update(str(synced.stat().st_mtime_ns).encode())
    rooms = [folder for folder in sorted(ROOT.iterdir()) if folder.is_dir() and not folder.name.startswith(".")]
    sources = [path for room in rooms for ending in ("py", "pyi") for path in sorted(room.rglob(f"*.{ending}"))]
    for path in (ROOT / "pyproject.toml", ROOT / "uv.lock", *sources):
        if path.is_file():
            found.update(f"{path.relative_to(ROOT)}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return found.hexdigest()


def run_group(group: Group, without: Sequence[str] = ()) -> Result:
    """One folder of tests under pytest, its counts read from the JUnit file it writes."""
    folder = ROOT / "tests" / group.name
    if not any(folder.rglob("test_*.py")):
        return Result(f"tests/{group.name}", True, 0.0, "no tests yet", "")
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        command = [sys.executable, "-m", "pytest", str(folder), "-q", f"--junitxml={report}"]
        # A file stays in one worker, so that what its tests share is made once.
        command += ["-n", str(group.workers), "--dist", "loadfile"]
        ended = subprocess.run(
            command, cwd=ROOT, env=SURROUNDINGS, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        counts, not_run = read_report(report)
    ok = ended.returncode == 0 and counts["passed"] > 0 and not (refused(not_run, without) and os.environ.get("CI"))
    said = f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} not run"
    return Result(f"tests/{group.name}", ok, time.monotonic() - began, said, ended.stdout, counts, not_run)


def refused(not_run: Sequence[str], without: Sequence[str]) -> list[str]:
    """Return the skipped tests that do not need a variable which was declared to be absent."""
    return [line for line in not_run if not any(f": needs {name}" in line for name in without)]


def read_report(report: Path) -> tuple[Counter[str], list[str]]:
    """Passed, failed and skipped, and the reason for each that was skipped."""
    counts: Counter[str] = Counter()
    not_run: list[str] = []
    if not report.exists():
        return counts, not_run
    for case in ET.parse(report).getroot().iter("testcase"):  # noqa: S314 - written by our own pytest a moment ago
        if case.find("failure") is not None or case.find("error") is not None:
            counts["failed"] += 1
        elif (skipped := case.find("skipped")) is not None:
            counts["skipped"] += 1
            not_run.append(f"{case.get('classname')}.{case.get('name')}: {skipped.get('message')}")
        else:
            counts["passed"] += 1
    return counts, not_run


def announced(result: Result) -> Result:
    """Say at once how a part ended, with its output where it failed."""
    with SPEAKING:
        if not result.ok:
            sys.stdout.write(f"\n--- {result.name}\n{result.output}\n")
        line = f"{'ok  ' if result.ok else 'FAIL'} {result.name:<14} {result.seconds:6.1f} s  {result.said}"
        sys.stdout.write(f"{line.rstrip()}\n")
        sys.stdout.flush()
    return result


def conclude(results: Sequence[Result], seconds: float, without: Sequence[str] = ()) -> int:
    """The table's end: what did not run, the totals, and the verdict."""
    not_run = [line for result in results for line in result.not_run]
    failing = refused(not_run, without) if os.environ.get("CI") else []
    allowed = [line for line in not_run if line not in failing]
    for consequence, lines in (("a failure, because CI is set", failing), ("allowed", allowed)):
        if lines:
            sys.stdout.write(f"\nnot run ({consequence}):\n" + "".join(f"  {line}\n" for line in lines))
    failed = [result.name for result in results if not result.ok]
    counts: Counter[str] = sum((result.counts for result in results), Counter())
    sys.stdout.write(f"\n{'failed: ' + ', '.join(failed) if failed else 'all good'} ({seconds:.0f} s)\n")
    if any(result.counts for result in results):
        sys.stdout.write(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
