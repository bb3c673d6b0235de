"""A branch that is broken in twelve ways is refused for each of them by the rule meant, before any id is known."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from agentenv.cli.review.findings import ReviewFinding
from agentenv.cli.review.preview import Call, Preview
from agentenv.cli.review.review import ReviewRequest, rule_evaluator
from agentenv.cli.review.stack_preview import engine_refusals, preview_stack
from agentenv.rehearsal.stage.stage import Stage

ROOT = Path(__file__).resolve().parents[4]
SAMPLE = ROOT / "tests" / "samples" / "broken"
# The case, the resource that is refused for it, and the rule that refuses
CASES = (
    ("privileged-sandbox", "privileged-sandbox", "POD-01"),
    ("metadata-reachable", "metadata-policy", "NET-02"),
    ("root-access-point", "root-access-point", "EFS-02"),
    ("shared-uid", "shared-uid-bob", "EFS-04"),
    ("shared-kernel", "kernel-template", "RT-01"),
    ("policy-for-nobody", "nobody-policy", "NET-07"),
    ("fargate-by-policy", "fargate-template", "NET-11"),
    ("untagged-file-system", "file-system", "COST-01"),
    ("pool-over-its-cap", "pool-of-warm-ones", "COST-03"),
    ("child-over-its-parent", "child-template", "NET-15"),
    ("public-endpoint", "cluster", "CLU-01"),
)
Told = set[tuple[str, str]]


def call(opened: Stage, *cases: str) -> Call:
    engine = opened.program(SAMPLE, "prod", {"aws:region": "us-east-1", "broken:cases": list(cases)})
    return Call(engine.pulumi, engine.project, ROOT, "prod", engine.environment)


def judged(preview: Preview, config: Path | None = None) -> list[ReviewFinding]:
    question = ReviewRequest(ROOT, "prod", packs_config=config)
    return rule_evaluator(question, None, date.today()).evaluate(None, preview.after)  # noqa: DTZ011 - the packs' own clock


def changes_from_steps(findings: list[ReviewFinding]) -> Told:
    return {(one.finding.urn.rsplit("::", 1)[-1], one.finding.rule) for one in findings if one.blocks}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packs' configuration, with the waivers of the branch."""
    path = tmp_path_factory.mktemp("config") / "packs.json"
    path.write_text(json.dumps({"waivers": str(SAMPLE / "waivers.yaml")}), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def broken(opened: Stage, config: Path) -> Preview:
    """The first preview of the branch, with both packs."""
    settings = json.loads(config.read_text(encoding="utf-8"))
    return preview_stack(call(opened, *(case for case, _, _ in CASES)), ROOT / "policies", settings).preview


@pytest.fixture(scope="module")
def sound(opened: Stage) -> Told:
    """What is refused of the same program where nothing is broken: by rules of which none is any case's."""
    return changes_from_steps(judged(call(opened).preview()))


def by_engine(preview: Preview) -> Told:
    return {(event.urn.rsplit("::", 1)[-1], event.policy) for event in preview.policies if event.mandatory}


@pytest.mark.parametrize(("case", "name", "rule"), CASES, ids=[case for case, _, _ in CASES])
def test_each_case_is_refused_by_the_rule_meant(broken: Preview, case: str, name: str, rule: str) -> None:
    assert (name, rule) in by_engine(broken), case


def test_no_rule_of_a_case_is_heard_where_nothing_is_broken(sound: Told) -> None:
    meant = {rule for _, _, rule in CASES}
    assert {(name, rule) for name, rule in sound if rule in meant} == set()


def test_an_expired_waiver_is_refused_and_waives_nothing(broken: Preview) -> None:
    assert ("privileged-sandbox", "POD-01") in by_engine(broken)
    (told_of,) = [event for event in broken.policies if event.policy == "WVR-01"]
    assert told_of.mandatory
    assert "until-the-move" in told_of.message


def test_the_engine_refuses_the_update(broken: Preview) -> None:
    assert broken.refused
    assert not any(resource.inputs.get("id") for resource in broken.after.values())


def test_the_review_finds_without_the_packs_exactly_what_the_packs_find(broken: Preview, config: Path) -> None:
    found = judged(broken, config)
    ours = {(one.finding.urn, one.finding.rule) for one in found if one.blocks}
    theirs = {(event.urn, event.policy) for event in broken.policies if event.mandatory}
    assert ours == theirs
    assert engine_refusals(broken, found) == []
