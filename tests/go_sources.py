"""The sources of workspaced, and the Go compiler that the tests build them with."""

from __future__ import annotations

import sys
from pathlib import Path

from agentenv.rehearsal.tools import go_compiler
from agentenv.rehearsal.tools.versions import Version

SOURCES = Path(__file__).resolve().parent.parent / "workspaced"


def compiler() -> go_compiler.Compiler:
    """Return a compiler that is new enough, from PATH or from the rehearsal's tools."""
    return go_compiler.find(Version(1, 26, 0), lambda line: print(line, file=sys.stderr))
