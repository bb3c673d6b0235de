"""The end of a rehearsal with protected data, with the engine's own refusal."""

from __future__ import annotations

from pathlib import Path

from agentenv.rehearsal.scenario.scenario import Scenario
from agentenv.rehearsal.stage.stage import Stage


class Heard:
    """Remembers what each step came to."""

    def __init__(self) -> None:
        self.results: dict[str, str] = {}

    def started(self, step: str) -> None: ...

    def finished(self, step: str, seconds: float, result: str) -> None:  # noqa: ARG002 - as a listener is called
        self.results[step] = result


def test_a_protected_stack_refuses_to_go_and_leaves_only_its_data(opened: Stage) -> None:
    opened.baseline = opened.query("census")  # others play on this stage too
    engine = opened.program(Path(__file__).parent / "guarded", "dev", {"aws:region": "eu-west-1"})
    heard = Heard()
    course = Scenario(opened, engine, heard)
    course.up()
    [key] = [row["id"] for row in engine.state() if row["type"] == "aws:kms/key:Key"]
    course.away()
    assert heard.results["protected"] == "destroy refused for the sake of 1, then unprotected"
    assert heard.results["destroy"] == "nothing left but 1 that outlive the stack on purpose"
    assert course.report.retained == [f"kms.keys {key}"]
    assert course.report.left_after_destroy == 0
    kms = course._client("kms")
    assert kms.describe_key(KeyId=key)["KeyMetadata"]["Arn"].split(":")[3] == "eu-west-1"
    kms.schedule_key_deletion(KeyId=key)
