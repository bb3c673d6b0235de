"""Tests of every rule with requests to the real API server: those that it must refuse, and those that must pass."""

from __future__ import annotations

import pytest

from agentenv.core.guardrails import policies
from tests.live.guardrails.attempts import ATTEMPTS
from tests.live.guardrails.attempts.attempt import Attempt
from tests.live.guardrails.guarded import Guarded

RULES = [(policy.name, rule.id) for policy in policies(["fs-1"]) for rule in policy.rules]


@pytest.mark.parametrize(("policy", "rule"), RULES)
def test_each_rule_has_refused_and_allowed_attempts(policy: str, rule: str) -> None:
    about = [attempt for attempt in ATTEMPTS if attempt.policy == policy and rule in attempt.rules]
    assert any(not attempt.passes for attempt in about), "no attempt shows that it refuses anything"
    assert any(attempt.passes for attempt in about), "no attempt shows that it lets anything pass"


def test_attempts_name_existing_rules() -> None:
    named = {(attempt.policy, rule) for attempt in ATTEMPTS for rule in attempt.rules}
    assert named <= set(RULES)
    assert len({attempt.id for attempt in ATTEMPTS}) == len(ATTEMPTS)


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.id)
def test_attempt(guarded: Guarded, attempt: Attempt) -> None:
    answer = attempt.answer(guarded)
    if not attempt.passes:
        assert f"'sandbox-guardrail-{attempt.policy}'" in answer, answer
        assert f"[{attempt.rules[0]}]" in answer
    elif attempt.reaches_node:
        assert "ValidatingAdmissionPolicy" not in answer
    else:
        assert answer == ""
