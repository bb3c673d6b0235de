"""The stacks of this repository are as their own rules want them, before anything of them is made."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from agentenv.review.offline import desired
from agentenv.review.reviewing import Question, bench_of

ROOT = Path(__file__).resolve().parents[3]


def test_nothing_is_found_in_prod() -> None:
    wanted = desired(ROOT, "prod")
    found = bench_of(Question(ROOT, "prod", offline=True), wanted.settings, datetime.now(UTC).date())
    assert len(wanted.wanted) > 200
    assert [one.as_json() for one in found.judged(None, wanted.wanted)] == []
