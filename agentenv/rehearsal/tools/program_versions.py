"""Run programs found on PATH for their version, tolerating programs that fail."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from agentenv.rehearsal.tools.versions import Version, parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

TIMEOUT_SECONDS = 20.0


def candidates(name: str, also: str = "") -> Iterator[Path]:
    """Yield every executable of that name on PATH, in order: a broken one may come before a working one.

    `also` is a variable that may name a folder to look into first.
    """
    yielded: set[Path] = set()
    first = os.environ.get(also, "") if also else ""
    for folder in (first, *os.environ.get("PATH", os.defpath).split(os.pathsep)):
        executable = shutil.which(name, path=folder) if folder else None
        if executable is not None and (path := Path(executable).absolute()) not in yielded:
            yielded.add(path)
            yield path


def version_of(
    program: Path,
    arguments: Sequence[str],
    environment: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT_SECONDS,
) -> Version | str:
    """Return the version that the program prints, or a text that says why there is none."""
    command = " ".join((program.name, *arguments))
    try:
        completed = subprocess.run(
            [str(program), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
            # Go reads a go.mod of the current folder, and Pulumi a project: neither is asked about here.
            cwd=Path(program.anchor or "/"),
            env={**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true", **(environment or {})},
        )
    except subprocess.TimeoutExpired:
        return f"'{command}' did not answer within {timeout:.0f} s"
    except OSError as error:
        return f"it cannot be run: {error.strerror or error}"
    if completed.returncode != 0:
        lines = (completed.stderr.strip() or completed.stdout.strip()).splitlines()
        return f"'{command}' ended with {completed.returncode}" + (f": {lines[-1]}" if lines else "")
    return parse(completed.stdout) or f"'{command}' printed no version"
