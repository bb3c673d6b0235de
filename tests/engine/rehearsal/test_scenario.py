"""A rehearsal of a stack with protected data: the engine refuses to destroy it."""

from __future__ import annotations

from pathlib import Path

from agentenv.rehearsal.scenario.scenario import Scenario
from agentenv.rehearsal.stage.stage import Stage


class RecordedSteps:
    """Records the result of each step."""

    def __init__(self) -> None:
        self.results: dict[str, str] = {}

    def started(self, step: str) -> None: ...

    def finished(self, step: str, seconds: float, result: str) -> None:  # noqa: ARG002 - as a listener is called
        self.results[step] = result


def test_protected_stack_is_not_destroyed_and_leaves_only_its_data(opened: Stage) -> None:
    opened.baseline = opened.query("census")  # other tests use this stage, too
    engine = opened.program(Path(__file__).parent / "protected", "dev", {"aws:region": "eu-west-1"})
    steps = RecordedSteps()
    scenario = Scenario(opened, engine, steps)
    scenario.up()
    [key] = [row["id"] for row in engine.state() if row["type"] == "aws:kms/key:Key"]
    scenario.away()
    assert steps.results["protected"] == "destroy refused for the sake of 1, then unprotected"
    assert steps.results["destroy"] == "nothing left but 1 that outlive the stack on purpose"
    assert scenario.report.retained == [f"kms.keys {key}"]
    assert scenario.report.left_after_destroy == 0
    kms = scenario._client("kms")
    assert kms.describe_key(KeyId=key)["KeyMetadata"]["Arn"].split(":")[3] == "eu-west-1"
    kms.schedule_key_deletion(KeyId=key)
