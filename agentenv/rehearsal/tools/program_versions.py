"""Asks programs found on PATH for their version, without trusting them to answer."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from agentenv.rehearsal.tools.versions import Version, parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PATIENCE_SECONDS = 20.0


def candidates(name: str, also: str = "") -> Iterator[Path]:
    """Every executable of that name on PATH, in its order: a broken one may stand before a good one.

    `also` is a variable that may name a folder to look into first.
    """
    seen: set[Path] = set()
    first = os.environ.get(also, "") if also else ""
    for folder in (first, *os.environ.get("PATH", os.defpath).split(os.pathsep)):
        found = shutil.which(name, path=folder) if folder else None
        if found is not None and (path := Path(found).absolute()) not in seen:
            seen.add(path)
            yield path


def version_of(
    program: Path,
    arguments: Sequence[str],
    environment: Mapping[str, str] | None = None,
    patience: float = PATIENCE_SECONDS,
) -> Version | str:
    """The version that the program prints, or in words why there is none."""
    said = " ".join((program.name, *arguments))
    try:
        answer = subprocess.run(
            [str(program), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=patience,
            check=False,
            # Go reads a go.mod of the current folder, and Pulumi a project: neither is asked about here.
            cwd=Path(program.anchor or "/"),
            env={**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true", **(environment or {})},
        )
    except subprocess.TimeoutExpired:
        return f"'{said}' did not answer within {patience:.0f} s"
    except OSError as error:
        return f"it cannot be run: {error.strerror or error}"
    if answer.returncode != 0:
        words = (answer.stderr.strip() or answer.stdout.strip()).splitlines()
        return f"'{said}' ended with {answer.returncode}" + (f": {words[-1]}" if words else "")
    return parse(answer.stdout) or f"'{said}' printed no version"
