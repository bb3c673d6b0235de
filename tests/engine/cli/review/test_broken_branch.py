"""A branch with twelve violations is refused for each by its rule, while all ids are unknown."""

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
Blocking = set[tuple[str, str]]


def call(opened: Stage, *cases: str) -> Call:
    engine = opened.program(SAMPLE, "prod", {"aws:region": "us-east-1", "broken:cases": list(cases)})
    return Call(engine.pulumi, engine.project, ROOT, "prod", engine.environment)


def review_findings(preview: Preview, config: Path | None = None) -> list[ReviewFinding]:
    request = ReviewRequest(ROOT, "prod", packs_config=config)
    return rule_evaluator(request, None, date.today()).evaluate(None, preview.after)  # noqa: DTZ011 - the packs' own clock


def blocking_findings(findings: list[ReviewFinding]) -> Blocking:
    return {(row.finding.urn.rsplit("::", 1)[-1], row.finding.rule) for row in findings if row.blocks}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the packs' configuration, with the waivers of the branch."""
    path = tmp_path_factory.mktemp("config") / "packs.json"
    path.write_text(json.dumps({"waivers": str(SAMPLE / "waivers.yaml")}), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def broken(opened: Stage, config: Path) -> Preview:
    """Preview the branch with both packs."""
    settings = json.loads(config.read_text(encoding="utf-8"))
    return preview_stack(call(opened, *(case for case, _, _ in CASES)), ROOT / "policies", settings).preview


@pytest.fixture(scope="module")
def without_violations(opened: Stage) -> Blocking:
    """Return the findings of the same program without violations."""
    return blocking_findings(review_findings(call(opened).preview()))


def mandatory_violations(preview: Preview) -> Blocking:
    return {(event.urn.rsplit("::", 1)[-1], event.policy) for event in preview.policies if event.mandatory}


@pytest.mark.parametrize(("case", "name", "rule"), CASES, ids=[case for case, _, _ in CASES])
def test_each_violation_is_refused_by_its_rule(broken: Preview, case: str, name: str, rule: str) -> None:
    assert (name, rule) in mandatory_violations(broken), case


def test_program_without_violations_has_no_findings(without_violations: Blocking) -> None:
    rules = {rule for _, _, rule in CASES}
    assert {(name, rule) for name, rule in without_violations if rule in rules} == set()


def test_expired_waiver_is_a_violation_and_waives_nothing(broken: Preview) -> None:
    assert ("privileged-sandbox", "POD-01") in mandatory_violations(broken)
    (violation,) = [event for event in broken.policies if event.policy == "WVR-01"]
    assert violation.mandatory
    assert "until-the-move" in violation.message


def test_engine_refuses_the_update(broken: Preview) -> None:
    assert broken.refused
    assert not any(resource.inputs.get("id") for resource in broken.after.values())


def test_review_has_the_same_findings_as_the_packs(broken: Preview, config: Path) -> None:
    found = review_findings(broken, config)
    ours = {(row.finding.urn, row.finding.rule) for row in found if row.blocks}
    theirs = {(event.urn, event.policy) for event in broken.policies if event.mandatory}
    assert ours == theirs
    assert engine_refusals(broken, found) == []
