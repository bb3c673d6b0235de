"""The stacks of this repository are as their own rules want them, before anything of them is made."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from agentenv.cli.review.offline import desired
from agentenv.cli.review.review import Question, bench_of

ROOT = Path(__file__).resolve().parents[4]


@pytest.mark.parametrize(
    ("stack", "least"), [("dev", 100), ("staging", 100), ("prod", 200), ("local", 50), ("full", 300)]
)
def test_nothing_is_found_in_a_stack_of_this_repository(stack: str, least: int) -> None:
    wanted = desired(ROOT, stack)
    found = bench_of(Question(ROOT, stack, offline=True), wanted.settings, datetime.now(UTC).date())
    assert len(wanted.wanted) > least
    assert [one.as_json() for one in found.judged(None, wanted.wanted)] == []
