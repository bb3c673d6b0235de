"""The steps of a developer, timed in a sandbox: run by its own Python, with the standard library alone.

Prints a JSON object of the seconds of each step, by side.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

FILES, PACKAGES, PER_PACKAGE, COMMITS = 400, 30, 20, 100
LOCAL = Path("/tmp/devloop")  # noqa: S108 - the local disk of the sandbox
SEED = Path("/tmp/seed")  # noqa: S108
ENVIRONMENT = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "PYTHONDONTWRITEBYTECODE": "1"}


def run(*command: str, at: Path) -> None:
    """Run a command; its output is shown only after a failure."""
    result = subprocess.run(command, cwd=at, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {(result.stderr or result.stdout)[-500:]}")


def pack(folder: Path, name: str) -> str:
    """Create an npm package and return its location."""
    files = {f"file{number}.js": f"module.exports = {number};\n" * 50 for number in range(PER_PACKAGE)}
    files["package.json"] = json.dumps({"name": name, "version": "1.0.0"})
    with tarfile.open(folder / f"{name}.tgz", "w:gz") as archive:
        for path, text in files.items():
            member = tarfile.TarInfo(f"package/{path}")
            member.size, member.mode = len(text), 0o644
            archive.addfile(member, io.BytesIO(text.encode()))
    return f"file:{folder}/{name}.tgz"


def seed() -> None:
    """Create the repository that is cloned, with packages to install, modules to compile and tests to run."""
    work = SEED / "work"
    for number in range(FILES):
        folder = work / "src" / f"part{number % 50}"
        folder.mkdir(parents=True, exist_ok=True)
        lines = "\n".join(f"def f{row}(value):\n    return value + {row}\n" for row in range(40))
        (folder / f"module{number}.py").write_text(lines, encoding="utf-8")
    for number in range(20):
        test = "class T(unittest.TestCase):\n    def test(self):\n        open(__file__).close()\n"
        text = f"import unittest\n\n\n{test}"
        (work / f"test_{number}.py").write_text(text, encoding="utf-8")
    if shutil.which("npm"):
        packages = SEED / "packages"
        packages.mkdir()
        dependencies = {f"p{number}": pack(packages, f"p{number}") for number in range(PACKAGES)}
        about = {"name": "app", "version": "1.0.0", "dependencies": dependencies}
        (work / "package.json").write_text(json.dumps(about), encoding="utf-8")
        run("npm", "install", "--package-lock-only", "--offline", "--no-audit", at=work)
    run("git", "init", "--quiet", at=work)
    run("git", "add", ".", at=work)
    run("git", "-c", "user.name=d", "-c", "user.email=d@example.com", "commit", "--quiet", "-m", "seed", at=work)


def commits(at: Path) -> None:
    """Write rows to a database, each in a transaction that is synchronised."""
    with sqlite3.connect(at / "rows.db", isolation_level=None) as database:
        database.execute("PRAGMA synchronous = FULL")
        database.execute("CREATE TABLE rows (value TEXT)")
        for number in range(COMMITS):
            database.execute("INSERT INTO rows VALUES (?)", (f"row {number}",))


def steps(folder: Path) -> dict[str, Callable[[], None]]:
    """Return the steps in a folder, in their order."""
    work = folder / "work"
    rows: dict[str, Callable[[], None]] = {
        "git_clone": lambda: run("git", "clone", "--quiet", "--no-local", str(SEED / "work"), str(work), at=folder),
        "npm_ci": lambda: run("npm", "ci", "--offline", "--no-audit", "--no-fund", at=work),
        "build": lambda: run(sys.executable, "-m", "compileall", "-q", "src", at=work),
        "tests": lambda: run(sys.executable, "-m", "unittest", "-q", at=work),
        "git_status": lambda: run("git", "status", "--porcelain", at=work),
        "sqlite_writes": lambda: commits(work),
    }
    return rows if shutil.which("npm") else {name: step for name, step in rows.items() if name != "npm_ci"}


def main() -> None:
    """Time every step on both sides, alternately; print the best of each."""
    seed()
    best: dict[str, dict[str, float]] = {"home": {}, "local": {}}
    for _ in range(int(sys.argv[1])):
        for side, folder in (("local", LOCAL), ("home", Path.home() / "devloop")):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            for name, step in steps(folder).items():
                began = time.monotonic()
                step()
                seconds = round(time.monotonic() - began, 3)
                best[side][name] = min(seconds, best[side].get(name, seconds))
    sys.stdout.write(json.dumps(best))


if __name__ == "__main__":
    main()
