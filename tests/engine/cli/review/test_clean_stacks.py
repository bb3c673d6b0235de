"""The stacks of this repository have no findings, before anything is created."""

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
def test_stacks_of_this_repository_have_no_findings(stack: str, least: int) -> None:
    state = preview_tree(ROOT, stack)
    evaluator = rule_evaluator(ReviewRequest(ROOT, stack, offline=True), state.settings, datetime.now(UTC).date())
    assert len(state.graph) > least
    assert [row.as_json() for row in evaluator.evaluate(None, state.graph)] == []
