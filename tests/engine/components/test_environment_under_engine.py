"""An environment that lives: made, grown in place, cut back on purpose, and gone without a trace."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from rehearsal.engine import Engine, Outcome
from rehearsal.stage import Stage

ROOT = Path(__file__).resolve().parents[3]
SMALL: dict[str, Any] = {
    "aws:region": "us-east-1",
    "agent-environment:network": {"cidr": "10.60.0.0/16", "zones": 2, "nat": "single", "endpoints": ["sts"]},
    "agent-environment:storage": {"fileSystems": 1},
}
LARGE: dict[str, Any] = {
    "aws:region": "us-east-1",
    "agent-environment:network": {"cidr": "10.60.0.0/16", "zones": 3, "nat": "per-zone", "endpoints": ["sts", "logs"]},
    "agent-environment:storage": {"fileSystems": 2, "archiveAfter": "90d"},
}


def configured(engine: Engine, config: dict[str, Any]) -> None:
    """Change the stack file as a person does; the engine keeps its salt in it."""
    file = engine.project / "config" / f"Pulumi.{engine.stack}.yaml"
    kept = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    file.write_text(yaml.safe_dump({**kept, "config": config}, sort_keys=False), encoding="utf-8")


def told(outcome: Outcome, operation: str) -> dict[str, list[str]]:
    """The resources that an operation touched, by name, with the properties that made it do so."""
    return {urn.rsplit("::", 1)[-1]: changed for done, urn, changed in outcome.touched() if done == operation}


def test_an_environment_through_its_life(opened: Stage) -> None:
    before = set(opened.left())
    engine = opened.program(ROOT / "stacks", "dev", SMALL, {"name": "agent-environment"})
    try:
        engine.up()
        outputs_are_what_others_need(engine.outputs())
        configured(engine, LARGE)
        growing_moves_nothing_that_runs(engine.up())
        assert len(engine.outputs()["fileSystemIds"]) == 2
        configured(engine, SMALL)
        cutting_back_takes_the_last_and_leaves_the_first(engine.up())
        assert set(opened.left()) > before
    finally:
        engine.destroy()
    assert engine.state() == []
    assert set(opened.left()) == before


def outputs_are_what_others_need(outputs: dict[str, Any]) -> None:
    assert outputs["clusterName"] == "agent-environment-dev"
    assert outputs["zones"] == ["us-east-1a", "us-east-1b"]
    assert len(outputs["privateSubnetIds"]) == len(outputs["publicSubnetIds"]) == 2
    assert len(outputs["natAddresses"]) == len(outputs["fileSystemIds"]) == 1


def growing_moves_nothing_that_runs(grown: Outcome) -> None:
    made = Counter(operation for operation, _, _ in grown.touched())
    assert set(made) == {"create", "update"}, grown.touched()
    # That nothing else is touched says that a second update alone would have had nothing to do.
    assert set(told(grown, "update")) == {
        "agents-network-private-1",  # a route, which leads to a gateway of its own zone now
        "agents-network-s3",  # the gateways and the endpoint reach the new zone too
        "agents-network-dynamodb",
        "agents-network-endpoint-sts",
        "agents-storage-0",  # the lifecycle
    }


def cutting_back_takes_the_last_and_leaves_the_first(cut: Outcome) -> None:
    gone = set(told(cut, "delete"))
    assert {"agents-storage-1", "agents-network-private-2", "agents-network-nat-1"} <= gone
    assert not {"agents-storage-0", "agents-network-private-0", "agents-network-nat-0", "agents-network-vpc"} & gone
