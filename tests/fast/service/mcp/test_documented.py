"""docs/mcp.md names every tool with the scope that it needs."""

from __future__ import annotations

import re
from pathlib import Path

from agentenv.service.mcp.app import TOOLS

PAGE = Path(__file__).resolve().parents[4] / "docs" / "mcp.md"


def test_every_tool_has_a_row() -> None:
    rows = re.findall(r"^\| (`[^|]+) \| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    named = {name for row, _ in rows for name in re.findall(r"`(\w+)`", row)}
    assert named == {tool.__name__ for tool in TOOLS}
