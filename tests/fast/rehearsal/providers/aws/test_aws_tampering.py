"""Drift is noticed by the stand-in provider, and reverted by an update."""

from __future__ import annotations

from typing import Any

import pytest

from agentenv.rehearsal.providers.aws.provider import Provider
from agentenv.rehearsal.scenario import drift
from tests.fast.rehearsal.providers.aws.samples import SAMPLES
from tests.fast.rehearsal.providers.aws.samples.sample import Ground

BUDGET = "aws:budgets/budget:Budget"
RULE = "aws:cloudwatch/eventRule:EventRule"


def changed_by_hand(provider: Provider, ground: Ground, token: str, declared: dict[str, Any]) -> list[str]:
    """Create the resource, change it as the rehearsal does, and return what a refresh then finds to change."""
    inputs, problems = provider.check(token, "a-sample", declared, {})
    assert problems == []
    id_, outputs = provider.create(token, inputs)
    resource = {"type": token, "id": id_, "inputs": inputs, "outputs": outputs}
    [done] = drift.apply_changes(ground.client, [resource])
    assert drift.reverted(ground.client, [done]) == []
    result = provider.read(token, id_, outputs, inputs)
    assert result is not None
    changes = provider.diff(token, result[2], inputs).changes
    if changes:
        provider.update(token, id_, result[1], result[2], inputs)
        assert drift.reverted(ground.client, [done]) == [done]
    provider.delete(token, id_, outputs, inputs)
    return sorted({str(change.path[0]) for change in changes})


@pytest.mark.parametrize(("token", "noticed"), [(RULE, ["state"]), (BUDGET, ["notifications"])])
def test_manual_change_is_noticed_and_repaired(
    provider: Provider, ground: Ground, token: str, noticed: list[str]
) -> None:
    assert changed_by_hand(provider, ground, token, SAMPLES[token].inputs(ground)) == noticed


def test_a_rule_that_declares_no_state_is_not_noticed(provider: Provider, ground: Ground) -> None:
    declared = {name: value for name, value in SAMPLES[RULE].inputs(ground).items() if name != "state"}
    assert changed_by_hand(provider, ground, RULE, declared) == []


def test_drift_deletes_one_of_several_notifications_of_a_budget(provider: Provider, ground: Ground) -> None:
    """The official plugin does not notice a budget that has lost all of them."""
    inputs, _ = provider.check(BUDGET, "a-sample", SAMPLES[BUDGET].inputs(ground), {})
    id_, outputs = provider.create(BUDGET, inputs)
    resource = {"type": BUDGET, "id": id_, "inputs": inputs, "outputs": outputs}
    drift.apply_changes(ground.client, [resource])
    where = {"AccountId": outputs["accountId"], "BudgetName": outputs["name"]}
    budgets = ground.client("budgets")
    (left,) = budgets.describe_notifications_for_budget(**where)["Notifications"]
    left.pop("NotificationState")
    budgets.delete_notification(**where, Notification=left)
    result = provider.read(BUDGET, id_, outputs, inputs)
    assert result is not None
    assert result[1]["notifications"] == outputs["notifications"]
    assert provider.diff(BUDGET, result[2], inputs).changes == []
    # A program that wants none has none afterwards.
    none = {name: value for name, value in inputs.items() if name != "notifications"}
    updated = provider.update(BUDGET, id_, result[1], result[2], none)
    assert updated["notifications"] == []
    provider.delete(BUDGET, id_, outputs, inputs)


def test_drift_spares_a_budget_with_one_notification() -> None:
    budget = {"type": BUDGET, "inputs": {"notifications": [{}]}}
    assert drift.apply_changes(lambda _: None, [budget]) == []
