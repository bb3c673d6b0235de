"""`agentenv review` and `agentenv waivers`: their files, output and exit codes."""

from __future__ import annotations

import argparse
import json
import shutil
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agentenv.cli.commands import review as command
from agentenv.cli.commands import waivers
from agentenv.cli.main import CommandError, main
from agentenv.cli.review import offline
from agentenv.cli.review import review as reviewing
from agentenv.cli.review.formats.report import Report
from agentenv.cli.review.offline import DesiredState
from tests.fast.cli.review.resources import FILE_SYSTEM, judged, of, report, resource, urn, waiver
from tests.fast.cli.review.test_markdown import whole

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a checkout with stack files and no program."""
    shutil.copy(ROOT / "Pulumi.yaml", tmp_path)
    shutil.copytree(ROOT / "stacks", tmp_path / "stacks")
    (tmp_path / "policies").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def stub_review(monkeypatch: pytest.MonkeyPatch, report_: Report) -> list[Any]:
    requests: list[Any] = []

    def stub(question: Any, _progress: object) -> Report:
        requests.append(question)
        return report_

    monkeypatch.setattr(reviewing, "review", stub)
    return requests


@pytest.mark.usefixtures("project")
def test_every_format_is_written_and_a_blocking_review_fails(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    requests = stub_review(monkeypatch, whole())
    call = ["review", "-s", "prod", "--offline", "--base", "main", "--format", "markdown,sarif,json", "--out", "out"]
    assert main([*call, "--json", "--links", "there", "--commit", "abc"]) == 1
    (question,) = requests
    assert question.commit == "abc"
    assert (question.stack, question.base, question.offline, question.links) == ("prod", "main", True, "there/")
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["changes"]["replace"] == 1
    assert Path("out/review.md").read_text(encoding="utf-8").startswith("<!-- agentenv-review:prod -->")
    assert json.loads(Path("out/review.sarif").read_text(encoding="utf-8"))["version"] == "2.1.0"
    assert json.loads(Path("out/review.json").read_text(encoding="utf-8"))["stack"] == "prod"


@pytest.mark.usefixtures("project")
def test_no_sarif_is_written_if_the_program_cannot_be_previewed(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("out").mkdir()
    Path("out/review.sarif").write_text("of another time", encoding="utf-8")
    failed = report()
    failed.failure = "it has a mistake"
    stub_review(monkeypatch, failed)
    call = ["review", "-s", "prod", "--offline", "--format", "markdown,sarif", "--out", "out"]
    assert main(call) == 1
    assert sorted(path.name for path in Path("out").iterdir()) == ["review.md"]


@pytest.mark.usefixtures("project")
def test_the_sarif_can_leave_out_waived_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    waived = judged("EFS-02", state="waived", blocks=False, waiver=waiver())
    stub_review(monkeypatch, report(findings=[judged(blocks=False), waived]))
    call = ["review", "-s", "prod", "--offline", "--format", "sarif", "--out", "out"]
    for more, expected in (([], ["POD-01", "EFS-02"]), (["--without-waived"], ["POD-01"])):
        assert main([*call, *more]) == 0
        (run,) = json.loads(Path("out/review.sarif").read_text(encoding="utf-8"))["runs"]
        assert [result["ruleId"] for result in run["results"]] == expected


@pytest.mark.usefixtures("project")
def test_without_a_folder_the_format_is_printed_and_nothing_else(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    stub_review(monkeypatch, report())
    assert main(["review", "-s", "prod", "--offline", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["blocking"] == []
    assert main(["review", "-s", "prod", "--offline"]) == 0
    assert capsys.readouterr().out.startswith("Review of prod against main")


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-s", "nowhere", "--offline"], "there is no stacks/Pulumi.nowhere.yaml"),
        (["-s", "prod", "--offline", "--drift"], "give one of them"),
    ],
)
def test_options_that_exclude_each_other_are_errors(arguments: list[str], message: str, capsys: Any) -> None:
    assert main(["review", *arguments]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.usefixtures("project")
def test_a_review_of_the_real_stack_needs_the_engine_on_path(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["review", "-s", "prod"]) == 1
    assert "--offline --base REV" in capsys.readouterr().err


def test_an_unknown_format_is_an_error() -> None:
    assert command.formats("sarif, json") == ["sarif", "json"]
    with pytest.raises(argparse.ArgumentTypeError, match="allowed are markdown, sarif, json"):
        command.formats("pdf")


def test_the_json_of_a_review_has_the_documented_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    changes_from_steps = report(findings=[judged()]).as_json()
    assert set(changes_from_steps["changes"]) == {"create", "update", "replace", "delete"}
    assert set(changes_from_steps["cost"]) >= {"before", "after", "per_user"}
    assert {"id", "severity", "verdict", "urn", "message"} <= set(changes_from_steps["findings"][0])


@pytest.mark.usefixtures("project")
def test_the_packs_configuration_is_read_and_its_mistakes_are_errors(project: Path) -> None:
    path = project / "packs.json"
    question = reviewing.ReviewRequest(project, "prod", offline=True, packs_config=path)
    path.write_text(json.dumps({"poolCap": 7, "rules": {"POD-01": "advisory"}}), encoding="utf-8")
    bench = reviewing.rule_evaluator(question, None, date(2026, 3, 1))
    assert bench.context.pool_cap == 7
    assert bench.enforcement.level(judged().finding) == "advisory"
    for text, message in (("{", "not JSON"), ("[]", "one JSON object"), ('{"poolcap": 7}', "did you mean 'poolCap'")):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(CommandError, match=message):
            reviewing.rule_evaluator(question, None, date(2026, 3, 1))


def entry(name: str, created: date, expires: date, of_name: str = "fs") -> str:
    return (
        f"  - id: {name}\n    rule: EFS-01\n    urn: {urn(FILE_SYSTEM, of_name)}\n    environment: prod\n"
        f"    reason: it moves\n    owners: [storage, security]\n    ticket: OPS-1\n"
        f"    created: {created}\n    expires: {expires}\n"
    )


def test_waivers_are_listed_with_their_expiry_and_use(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    today = datetime.now(UTC).date()
    soon, later = today + timedelta(days=5), today + timedelta(days=30)
    text = "waivers:\n" + entry("later-one", today, later) + entry("soon-one", today, soon, "gone")
    (project / "policies" / "waivers.yaml").write_text(text, encoding="utf-8")
    desired = of(resource(FILE_SYSTEM, "fs", {"encrypted": False}))
    monkeypatch.setattr(offline, "preview_tree", lambda *_: DesiredState(None, desired))
    assert main(["waivers", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["waivers"]
    assert [(row["id"], row["rule"], row["expires"], row["used"], row["days_left"]) for row in rows] == [
        ("soon-one", "EFS-01", soon.isoformat(), False, 5),
        ("later-one", "EFS-01", later.isoformat(), True, 30),
    ]
    assert main(["waivers", "--fast"]) == 0
    assert "use not checked" in capsys.readouterr().out


def test_an_expired_or_invalid_waiver_fails(project: Path, capsys: Any) -> None:
    today = datetime.now(UTC).date()
    text = "waivers:\n" + entry("old-one", today - timedelta(days=60), today - timedelta(days=1)) + "  - {id: half}\n"
    (project / "policies" / "waivers.yaml").write_text(text, encoding="utf-8")
    assert main(["waivers", "--fast"]) == 1
    message = capsys.readouterr().out
    assert "invalid: waiver half: 'rule' is missing" in message
    assert "expired on" in message


def test_no_waivers_is_a_success(project: Path, capsys: Any) -> None:
    assert waivers.table([], ()) == "no waivers\n"
    (project / "policies" / "waivers.yaml").write_text("waivers: []\n", encoding="utf-8")
    assert main(["waivers", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"waivers": [], "wrong": []}
