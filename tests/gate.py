"""`make test`: every check and every group of tests, and a table of what ran and what did not.

The checks need one core and the fast tests little, so both go at the same time; the engine's tests follow. Nothing is
skipped in silence: each test that did not run is listed with its reason, and with CI set it fails the gate.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Check:
    """A command that must end with 0."""

    name: str
    command: tuple[str, ...]


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
    Check("types", ("pyright",)),
)
GROUPS = (Group("fast", 2), Group("engine", 2), Group("live", 1))


def main() -> int:
    """Run it all, or what was asked for."""
    parser = argparse.ArgumentParser(prog="make test", description=__doc__)
    parser.add_argument("--lint", action="store_true", help="the checks only")
    parser.add_argument("--group", choices=[group.name for group in GROUPS], help="one group of tests only")
    wanted = parser.parse_args()
    checks = () if wanted.group else CHECKS
    groups = () if wanted.lint else tuple(row for row in GROUPS if wanted.group in {None, row.name})
    began = time.monotonic()
    with ThreadPoolExecutor(max_workers=1) as beside:
        running = [beside.submit(run_check, check) for check in checks]
        results = [announced(run_group(group)) for group in groups]
        results = [*(announced(future.result()) for future in running), *results]
    return conclude(results, time.monotonic() - began)


def run_check(check: Check) -> Result:
    """One check, its output kept for when it fails."""
    began = time.monotonic()
    program, *rest = check.command
    ended = subprocess.run(
        [str(BIN / program), *rest], cwd=ROOT, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    output = (ended.stdout + ended.stderr).strip()
    return Result(check.name, ended.returncode == 0, time.monotonic() - began, "", output)


def run_group(group: Group) -> Result:
    """One folder of tests under pytest, its counts read from the JUnit file it writes."""
    folder = ROOT / "tests" / group.name
    if not any(folder.rglob("test_*.py")):
        return Result(f"tests/{group.name}", True, 0.0, "no tests yet", "")
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        command = [sys.executable, "-m", "pytest", str(folder), "-q", f"--junitxml={report}", "-n", str(group.workers)]
        ended = subprocess.run(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        counts, not_run = read_report(report)
    ok = ended.returncode == 0 and counts["passed"] > 0 and not (not_run and os.environ.get("CI"))
    said = f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} not run"
    return Result(f"tests/{group.name}", ok, time.monotonic() - began, said, ended.stdout, counts, not_run)


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
    if not result.ok:
        sys.stdout.write(f"\n--- {result.name}\n{result.output}\n")
    sys.stdout.write(f"{'ok  ' if result.ok else 'FAIL'} {result.name:<14} {result.seconds:6.1f} s  {result.said}\n")
    sys.stdout.flush()
    return result


def conclude(results: Sequence[Result], seconds: float) -> int:
    """The table's end: what did not run, the totals, and the verdict."""
    not_run = [line for result in results for line in result.not_run]
    if not_run:
        consequence = "a failure, because CI is set" if os.environ.get("CI") else "allowed outside CI"
        sys.stdout.write(f"\nnot run ({consequence}):\n" + "".join(f"  {line}\n" for line in not_run))
    failed = [result.name for result in results if not result.ok]
    counts: Counter[str] = sum((result.counts for result in results), Counter())
    sys.stdout.write(f"\n{'failed: ' + ', '.join(failed) if failed else 'all good'} ({seconds:.0f} s)\n")
    if any(result.counts for result in results):
        sys.stdout.write(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
