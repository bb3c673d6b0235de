"""Time a warm rehearsal of the local stack, compared with the same engine calls on an empty program.

The baseline is the fixed time of any rehearsal: the start of the cloud, and the start and end of each engine call.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from agentenv.rehearsal.stage.stage import stage
from agentenv.rehearsal.tools.progress import terminal_progress
from bench.timing import best


def measure(repeat: int) -> dict[str, Any]:
    """Time the command, and the empty scenario."""
    reports: list[dict[str, Any]] = []
    whole, empty = best(repeat, lambda: reports.append(_rehearse()), _empty)
    return {
        "rehearse_s": round(whole, 1),
        "empty_course_s": round(empty, 1),
        "ratio": round(whole / empty, 2),
        "resources": reports[-1]["resources"],
        "steps_s": reports[-1]["seconds"],
    }


def _rehearse() -> dict[str, Any]:
    command = [str(Path(sys.executable).parent / "agentenv"), "rehearse", "--json"]
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, text=True)
    return json.loads(ended.stdout.splitlines()[-1])


def _empty() -> None:
    with stage(terminal_progress()) as opened:
        folder = opened.run.folder / "empty"
        folder.mkdir()
        (folder / "__main__.py").write_text('"""Creates nothing."""\n', encoding="utf-8")
        engine = opened.program(folder, "local")
        for operation in (engine.up, engine.up, engine.refresh, engine.up, engine.destroy):
            operation()
