"""What the documents point to is there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(ROOT / name for name in subprocess.check_output(
    ["git", "ls-files", "*.md"], cwd=ROOT, text=True
).split())  # fmt: skip


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    local = [target for target in targets if "://" not in target]
    missing = [target for target in local if not (page.parent / target).exists()]
    assert not missing
    assert all(target.startswith("https://") for target in targets if "://" in target)


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = set(re.findall(r"\]\(([a-z-]+\.md)\)", (folder / "README.md").read_text(encoding="utf-8")))
    assert listed == {path.name for path in folder.glob("*.md")} - {"README.md"}
