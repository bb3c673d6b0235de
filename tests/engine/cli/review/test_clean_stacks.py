"""The stacks of this repository are as their own rules want them, before anything of them is made."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from agentenv.cli.review.offline import preview_tree
from agentenv.cli.review.review import ReviewRequest, rule_evaluator

ROOT = Path(__file__).resolve().parents[4]


@pytest.mark.parametrize(
    ("stack", "least"), [("dev", 100), ("staging", 100), ("prod", 200), ("local", 50), ("full", 300)]
)
def test_nothing_is_found_in_a_stack_of_this_repository(stack: str, least: int) -> None:
    wanted = preview_tree(ROOT, stack)
    found = rule_evaluator(ReviewRequest(ROOT, stack, offline=True), wanted.settings, datetime.now(UTC).date())
    assert len(wanted.graph) > least
    assert [one.as_json() for one in found.evaluate(None, wanted.graph)] == []
