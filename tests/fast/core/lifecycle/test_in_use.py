"""Tests that a volume in use needs no action, whatever its other fields."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as some

from agentenv.core.lifecycle.retention import Home, is_in_use, retention_decision
from tests.fast.core.lifecycle.samples import LIMITS, NOW

MOMENTS = some.none() | some.integers(-400, 400).map(lambda days: NOW + timedelta(days=days))


@given(
    some.builds(
        Home,
        volume=some.just("pv"),
        phase=some.sampled_from(["Bound", "Released", "Available", "going", ""]),
        policy=some.sampled_from(["Retain", "Delete"]),
        owner=some.sampled_from(["", "u-1"]),
        workspace=some.just("w-1"),
        mode=some.sampled_from(["user", "session"]),
        deleted_at=MOMENTS,
        destroy_after=MOMENTS,
        archive_ended=MOMENTS,
        held=some.booleans(),
        claimed=some.booleans(),
        workspace_exists=some.booleans(),
        returning=MOMENTS,
    )
)
def test_a_volume_in_use_needs_no_action(home: Home) -> None:
    assert not is_in_use(home) or retention_decision(home, LIMITS, NOW).do == "leave"
