"""What the rehearsal changes by hand is noticed by the stand-in provider, and mended by an update."""

from __future__ import annotations

from typing import Any

import pytest

from rehearsal import tampering
from rehearsal.aws.provider import Provider
from tests.fast.rehearsal.aws.samples import SAMPLES
from tests.fast.rehearsal.aws.samples.sample import Ground

RULE = "aws:cloudwatch/eventRule:EventRule"


def changed_by_hand(provider: Provider, ground: Ground, token: str, asked: dict[str, Any]) -> list[str]:
    """Create the resource, change it as the rehearsal does, and return what a refresh then finds to change."""
    inputs, problems = provider.check(token, "a-sample", asked, {})
    assert problems == []
    id_, outputs = provider.create(token, inputs)
    resource = {"type": token, "id": id_, "inputs": inputs, "outputs": outputs}
    [done] = tampering.tamper(ground.client, [resource])
    assert tampering.mended(ground.client, [done]) == []
    found = provider.read(token, id_, outputs, inputs)
    assert found is not None
    changes = provider.diff(token, found[2], inputs).changes
    if changes:
        provider.update(token, id_, found[1], found[2], inputs)
        assert tampering.mended(ground.client, [done]) == [done]
    provider.delete(token, id_, outputs, inputs)
    return sorted({str(change.path[0]) for change in changes})


@pytest.mark.parametrize(("token", "noticed"), [(RULE, ["state"])])
def test_a_change_by_hand_is_noticed_and_mended(
    provider: Provider, ground: Ground, token: str, noticed: list[str]
) -> None:
    assert changed_by_hand(provider, ground, token, SAMPLES[token].inputs(ground)) == noticed


def test_a_rule_that_declares_no_state_is_not_noticed(provider: Provider, ground: Ground) -> None:
    asked = {name: value for name, value in SAMPLES[RULE].inputs(ground).items() if name != "state"}
    assert changed_by_hand(provider, ground, RULE, asked) == []
