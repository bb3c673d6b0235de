"""A rehearsal fails when it must: a second up that changes, drift that nobody notices or mends, things left behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from botocore.exceptions import EndpointConnectionError

from agentenv.rehearsal.scenario import drift, scenario
from agentenv.rehearsal.scenario.scenario import Scenario, ScenarioError
from agentenv.rehearsal.stage.engine import Engine, EngineError, Outcome
from agentenv.rehearsal.stage.stage import Stage, StageError

URN = "urn:pulumi:local::p::aws:ec2/vpc:Vpc::vpc"
VPC = {"type": "aws:ec2/vpc:Vpc", "urn": URN, "id": "vpc-1", "inputs": {}, "outputs": {}}


def outcome(call: str, **changes: int) -> Outcome:
    steps = [{"op": op, "urn": URN, "detailedDiff": {"tags.owner": {}}} for op in changes for _ in range(changes[op])]
    return Outcome(call, 0, 1.0, changes, steps, [], "")


@dataclass
class FakeEngine:
    """Answers with what each call is said to have done."""

    ups: list[Outcome] = field(default_factory=lambda: [outcome("up", create=2), outcome("up", same=2), outcome("up")])
    noticed: Outcome = field(default_factory=lambda: outcome("refresh", update=1, same=1))
    resources: list[list[dict[str, Any]]] = field(default_factory=lambda: [[VPC], [VPC], []])
    environment: dict[str, str] = field(default_factory=lambda: {"AWS_REGION": "us-east-1"})
    unprotected: int = 0
    options: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])

    def up(self, *options: str) -> Outcome:
        self.options.append(options)
        return self.ups.pop(0)

    def refresh(self) -> Outcome:
        return self.noticed

    def destroy(self) -> Outcome:
        return outcome("destroy", delete=2)

    def destroy_with_preview(self) -> Outcome:
        return Outcome("destroy", 255, 1.0, {}, [], ["it is protected"], "")

    def unprotect(self) -> None:
        self.unprotected += 1

    def state(self) -> list[dict[str, Any]]:
        return self.resources.pop(0)


@dataclass
class FakeStage:
    """A cloud in which some things may be left."""

    things: list[str] = field(default_factory=list)
    cluster: None = None

    def query(self, page: str) -> list[str]:
        return {"kept": ["efs PutBackupPolicy"], "unknown": []}[page]

    def not_simulated(self) -> list[str]:
        return ["helm release of a chart"]

    def leftovers(self) -> list[str]:
        return self.things

    def cloud_log_tail(self) -> str:
        return "the end of its log"


class Silence:
    """A listener that listens only."""

    def started(self, step: str) -> None: ...

    def finished(self, step: str, seconds: float, result: str) -> None: ...


def play(engine: FakeEngine, stage: FakeStage | None = None) -> Scenario:
    scenario = Scenario(cast("Stage", stage or FakeStage()), cast("Engine", engine), Silence())
    scenario.play()
    return scenario


@pytest.fixture(autouse=True)
def by_hand(monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """One change by hand, of which a test says whether an update mends it."""
    world = {"mended": True}
    row = drift.Change(VPC["type"], "the tag overwritten", lambda *_: None, lambda *_: world["mended"])
    monkeypatch.setattr(drift, "ROWS", (row,))
    monkeypatch.setattr(scenario, "client", lambda *_: None)
    return world


def test_successful_scenario_reports_the_fields_of_the_contract() -> None:
    report = play(FakeEngine()).report.as_json()
    assert report["resources"] == 2
    assert report["second_up_changes"] == 0
    assert report["drift"] == {"made": 1, "noticed": 1, "mended": 1}
    assert report["left_after_destroy"] == 0
    assert report["not_simulated"] == ["efs PutBackupPolicy", "helm release of a chart"]
    assert {
        "up_seconds",
        "policy",
        "pools",
        "new_workspace_ms",
        "first_command_ms",
        "wake_ms",
        "gateway_added_ms",
    } <= report.keys()


def test_a_second_up_that_changes_something_fails() -> None:
    engine = FakeEngine(ups=[outcome("up", create=2), outcome("up", same=1, update=1)])
    with pytest.raises(ScenarioError, match=r"changed 1 resources:\n  update   aws:ec2/vpc:Vpc::vpc tags.owner"):
        play(engine)


def test_drift_that_a_refresh_does_not_notice_fails() -> None:
    with pytest.raises(ScenarioError, match="did not notice: the tag overwritten"):
        play(FakeEngine(noticed=outcome("refresh", same=2)))


def test_drift_that_an_update_does_not_repair_fails(by_hand: dict[str, bool]) -> None:
    by_hand["mended"] = False
    with pytest.raises(ScenarioError, match="did not mend: the tag overwritten"):
        play(FakeEngine())


def test_anything_left_in_the_cloud_or_in_the_state_fails() -> None:
    with pytest.raises(ScenarioError, match=r"ec2\.vpcs vpc-2"):
        play(FakeEngine(), FakeStage(["ec2.vpcs vpc-2"]))
    with pytest.raises(ScenarioError, match=f"state {URN}"):
        play(FakeEngine(resources=[[VPC], [VPC], [VPC]]))


def test_an_engine_that_fails_is_not_a_report(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = FakeEngine()

    def broken() -> Outcome:
        raise EngineError("up", 1, "the provider said no")

    monkeypatch.setattr(engine, "up", broken)
    with pytest.raises(EngineError, match="the provider said no"):
        play(engine)


def test_cloud_error_is_a_failure_with_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise EndpointConnectionError(endpoint_url="http://127.0.0.1:1")

    monkeypatch.setattr(drift, "apply_changes", refused)
    with pytest.raises(ScenarioError, match=r"Could not connect.*\nthe end of its log"):
        play(FakeEngine())


def test_lost_stage_fails_the_step() -> None:
    class Fallen(FakeStage):
        def leftovers(self) -> list[str]:
            raise StageError("the simulated cloud does not answer")

    with pytest.raises(ScenarioError, match="does not answer"):
        play(FakeEngine(), Fallen())


def test_drift_is_made_in_the_region_of_the_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[Mapping[str, str]] = []
    monkeypatch.setattr(scenario, "client", lambda _, around: requests.append(around))
    monkeypatch.setattr(drift, "apply_changes", lambda clients, _: clients("ec2") or [])
    engine = FakeEngine()
    engine.environment["AWS_REGION"] = "eu-north-1"
    play(engine)
    assert [around["AWS_REGION"] for around in requests] == ["eu-north-1"]


def test_scenario_without_destroy_reports_no_leftovers() -> None:
    scenario = Scenario(cast("Stage", FakeStage()), cast("Engine", FakeEngine()), Silence())
    assert scenario.play(keep=True).as_json()["left_after_destroy"] is None


KEY = {"type": "aws:kms/key:Key", "urn": "urn:key", "id": "key-1", "protect": True, "retainOnDelete": True}


def test_protected_data_stops_a_destroy_and_outlives_the_stack() -> None:
    engine = FakeEngine(resources=[[VPC, KEY], [VPC, KEY], [VPC, KEY], []])
    report = play(engine, FakeStage(["kms.keys key-1"])).report
    assert engine.unprotected == 1
    assert (report.left_after_destroy, report.retained) == (0, ["kms.keys key-1"])


def test_a_destroy_that_protected_resources_do_not_stop_fails() -> None:
    with pytest.raises(ScenarioError, match="1 protected resources went on, and deleted 1"):
        play(FakeEngine(resources=[[VPC, KEY], [VPC, KEY], [KEY]]))


def test_only_what_is_retained_may_stay() -> None:
    with pytest.raises(ScenarioError, match=r"left behind:\n  kms\.keys key-2"):
        play(FakeEngine(resources=[[VPC, KEY], [VPC, KEY], [VPC, KEY], []]), FakeStage(["kms.keys key-2"]))
