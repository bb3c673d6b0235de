"""`make test`: run every check and every group of tests, and print a table of the results.

Missing tools of the engine and live tests are built first. The live tests mostly wait, so they run in parallel with the
others; with CI set they run after them, because stable times matter more. The checks need one core, and run in parallel
with the fast tests. Each skipped test is listed with its reason. With CI set it fails the gate, unless --without names
the variable that it needs. A few failing tests are run again by themselves; what passes then is listed as unsteady,
with the output of its failure. The type checker is not run again for unchanged sources unless CI is set.
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

import pytest

from agentenv.rehearsal import tools
from agentenv.rehearsal.tools import catalog
from agentenv.rehearsal.tools.progress import terminal_progress

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
OUTPUT_LOCK = threading.Lock()


@dataclass(frozen=True)
class Check:
    """A command that must end with 0."""

    name: str
    command: tuple[str, ...]
    cached: bool = False  # its result depends only on sources, settings and locked packages


@dataclass(frozen=True)
class Group:
    """A folder of tests."""

    name: str
    workers: int
    repeats: int = 0  # up to so many failures are run again: the tests share a busy machine with real programs


@dataclass
class Result:
    """The result of a check or a group."""

    name: str
    ok: bool
    seconds: float
    summary: str
    output: str
    counts: Counter[str] = field(default_factory=Counter)
    not_run: list[str] = field(default_factory=list)
    unsteady: list[str] = field(default_factory=list)


CHECKS = (
    Check("format", ("ruff", "format", "--check", "--quiet", ".")),
    Check("lint", ("ruff", "check", "--quiet", ".")),
    Check("imports", ("lint-imports", "--no-logo")),
    Check("generated", ("python", "-m", "agentenv.generate", "--check")),
    Check("types", ("pyright",), cached=True),
)
# Data that tests may need and the repository does not have: schemas and recorded calls of the official providers
OPTIONAL = ("AGENTENV_FACTS",)
# The groups of a lane run in sequence; the lanes run in parallel. The fast tests wait for a third of their time in two
# workers, so there are three.
LANES = ((Group("fast", 3, 2), Group("engine", 2, 2)), (Group("live", 3, 3),))
# Without the variable's removal, every worker and plugin would compile the sources again.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run everything, or the selected checks and groups."""
    parser = argparse.ArgumentParser(prog="make test", description=__doc__)
    parser.add_argument("--lint", action="store_true", help="the checks only")
    parser.add_argument(
        "group", nargs="?", choices=[row.name for lane in LANES for row in lane], help="this group of tests only"
    )
    parser.add_argument(
        "--without", action="append", default=[], choices=OPTIONAL,
        help="with CI set, too, allow tests to be skipped that need this variable",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    without: tuple[str, ...] = tuple(options.without)
    checks: list[Callable[[], Result]] = [functools.partial(run_check, check) for check in CHECKS]
    lanes: list[list[Callable[[], Result]]] = [
        [functools.partial(run_group, row, without) for row in lane if options.group in {None, row.name}]
        for lane in LANES
    ]
    began = time.monotonic()
    if not options.lint and options.group != "fast" and not (built := print_result(build_tools())).ok:
        return print_summary([built], time.monotonic() - began)
    if os.environ.get("CI"):
        lanes = [[part for lane in lanes for part in lane]]
    results = side_by_side([[] if options.group else checks, *([] if options.lint else lanes)])
    return print_summary(results, time.monotonic() - began, without)


def build_tools() -> Result:
    """Build the tools of the engine and live tests, so that no build runs during the tests."""
    began = time.monotonic()
    try:
        box = tools.ensure([row.name for row in catalog.RECIPES], terminal_progress(sys.stdout))
    except tools.ToolError as failure:
        return Result("tools", False, time.monotonic() - began, "", str(failure))
    return Result("tools", True, time.monotonic() - began, f"{len(box.tools)} available", "")


def side_by_side(lanes: Sequence[Sequence[Callable[[], Result]]]) -> list[Result]:
    """Run the lanes in parallel, and the parts of each in sequence. The results have the order of the lanes."""
    with ThreadPoolExecutor(max_workers=len(lanes)) as pool:
        running = [pool.submit(lambda lane=lane: [print_result(part()) for part in lane]) for lane in lanes]
        return [result for future in running for result in future.result()]


def run_check(check: Check) -> Result:
    """Run one check, and keep its output for a failure."""
    began = time.monotonic()
    stamp, sources = ROOT / ".venv" / f".{check.name}-passed", ""
    if check.cached and not os.environ.get("CI"):
        sources = fingerprint()
        if stamp.exists() and stamp.read_text(encoding="utf-8") == sources:
            return Result(check.name, True, time.monotonic() - began, "unchanged since it passed", "")
    program, *rest = check.command
    ended = subprocess.run(
        [str(BIN / program), *rest], cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    output = (ended.stdout + ended.stderr).strip()
    if ended.returncode == 0 and sources and fingerprint() == sources and stamp.parent.is_dir():
        stamp.write_text(sources, encoding="utf-8")
    return Result(check.name, ended.returncode == 0, time.monotonic() - began, "", output)


def fingerprint() -> str:
    """Return a hash of the sources, the settings, the installed packages and the Python version."""
    found = hashlib.sha256(sys.version.encode())
    if (synced := ROOT / ".venv" / ".synced").exists():
        found.update(str(synced.stat().st_mtime_ns).encode())
    folders = [folder for folder in sorted(ROOT.iterdir()) if folder.is_dir() and not folder.name.startswith(".")]
    sources = [path for folder in folders for ending in ("py", "pyi") for path in sorted(folder.rglob(f"*.{ending}"))]
    for path in (ROOT / "pyproject.toml", ROOT / "uv.lock", *sources):
        if path.is_file():
            found.update(f"{path.relative_to(ROOT)}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return found.hexdigest()


def run_group(group: Group, without: Sequence[str] = ()) -> Result:
    """Run one folder of tests with pytest, and read the counts from its JUnit file."""
    folder = ROOT / "tests" / group.name
    if not any(folder.rglob("test_*.py")):
        return Result(f"tests/{group.name}", True, 0.0, "no tests yet", "")
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        # A file runs in one worker, so that shared fixtures are created once.
        first = run_tests(folder, Path(scratch), "-n", str(group.workers), "--dist", "loadfile")
        again = run_tests(folder, Path(scratch), "--last-failed") if first.can_repeat(group.repeats) else None
    steady = again is None or not again.ok
    counts = first.counts if steady else first.counts + Counter(passed=len(first.failed), failed=-len(first.failed))
    ok = (first.ok or not steady) and counts["passed"] > 0
    ok = ok and not (not_allowed(first.not_run, without) and os.environ.get("CI"))
    summary = f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} not run"
    output = first.output if again is None else f"{first.output}\n--- run again\n{again.output}"
    seconds, unsteady = time.monotonic() - began, [] if steady else first.failed
    return Result(f"tests/{group.name}", ok, seconds, summary, output, +counts, first.not_run, unsteady)


@dataclass
class Run:
    """The result of one pytest command."""

    code: int
    output: str
    counts: Counter[str] = field(default_factory=Counter)
    not_run: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return self.code == 0

    def can_repeat(self, repeats: int) -> bool:
        """Return whether nothing but a few tests failed."""
        return self.code == pytest.ExitCode.TESTS_FAILED and 0 < len(self.failed) <= repeats


def run_tests(folder: Path, scratch: Path, *options: str) -> Run:
    """Run pytest on a folder, and read its JUnit file."""
    report = scratch / "report.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", str(folder), "-q", f"--junitxml={report}"]
    command += ["-o", f"cache_dir={scratch / 'cache'}", *options]
    ended = subprocess.run(
        command, cwd=ROOT, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return read_report(report, Run(ended.returncode, ended.stdout))


def not_allowed(not_run: Sequence[str], without: Sequence[str]) -> list[str]:
    """Return the skipped tests that do not need a variable which was declared to be absent."""
    return [line for line in not_run if not any(f": needs {name}" in line for name in without)]


def read_report(report: Path, run: Run) -> Run:
    """Add the numbers of passed, failed and skipped tests, the failed ones, and the reason of each skipped test."""
    if not report.exists():
        return run
    for case in ET.parse(report).getroot().iter("testcase"):  # noqa: S314 - from the project's own pytest run
        name = f"{case.get('classname')}.{case.get('name')}"
        if case.find("failure") is not None or case.find("error") is not None:
            run.counts["failed"] += 1
            run.failed.append(name)
        elif (skipped := case.find("skipped")) is not None:
            run.counts["skipped"] += 1
            run.not_run.append(f"{name}: {skipped.get('message')}")
        else:
            run.counts["passed"] += 1
    return run


def print_result(result: Result) -> Result:
    """Print the result of a part immediately, with its output if it failed."""
    with OUTPUT_LOCK:
        if result.unsteady or not result.ok:
            sys.stdout.write(f"\n--- {result.name}\n{result.output}\n")
        line = f"{'ok  ' if result.ok else 'FAIL'} {result.name:<14} {result.seconds:6.1f} s  {result.summary}"
        sys.stdout.write(f"{line.rstrip()}\n")
        sys.stdout.flush()
    return result


def print_summary(results: Sequence[Result], seconds: float, without: Sequence[str] = ()) -> int:
    """Print the skipped tests, the totals and the verdict, and return the exit code."""
    not_run = [line for result in results for line in result.not_run]
    failing = not_allowed(not_run, without) if os.environ.get("CI") else []
    allowed = [line for line in not_run if line not in failing]
    for consequence, lines in (("a failure, because CI is set", failing), ("allowed", allowed)):
        if lines:
            sys.stdout.write(f"\nnot run ({consequence}):\n" + "".join(f"  {line}\n" for line in lines))
    if unsteady := [line for result in results for line in result.unsteady]:
        sys.stdout.write("\nunsteady (failed, and passed when run again: to be mended):\n")
        sys.stdout.write("".join(f"  {line}\n" for line in unsteady))
    failed = [result.name for result in results if not result.ok]
    counts: Counter[str] = sum((result.counts for result in results), Counter())
    sys.stdout.write(f"\n{'failed: ' + ', '.join(failed) if failed else 'all good'} ({seconds:.0f} s)\n")
    if any(result.counts for result in results):
        sys.stdout.write(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
