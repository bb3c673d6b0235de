"""`agentenv prove`: its journal, its report, its order, and what it refuses. A live test proves a whole stack."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import ANY, Stubber

from agentenv.cli.commands import prove
from agentenv.cli.main import CommandError, main
from agentenv.cli.prove import engine_promises, run
from agentenv.cli.prove.deployment import Deployment, Surroundings
from agentenv.cli.prove.journal import Journal, read_journal
from agentenv.cli.prove.kubernetes import _Token
from agentenv.cli.prove.promises import Broken, NotTried, Outcome, Promise
from agentenv.cli.prove.report import page, signed, signing_key, verify
from agentenv.cli.prove.run import DESTROY_SECONDS, Proof
from agentenv.cli.prove.workspace_promises import interrupt
from agentenv.cli.stack_files import selected_settings
from agentenv.rehearsal.stage.engine import Engine
from agentenv.rehearsal.stage.policy_packs import Packs

ROW = Outcome("up", "one `pulumi up` creates | the environment", "held", "345 resources <in> 30 s", 30.1)


def _no_client(service: str) -> Any:
    raise AssertionError(service)


def _no_balancer(_: Mapping[str, Any]) -> tuple[str, int, Path | None]:
    raise AssertionError


def _deployment(folder: Path, aws: Callable[[str], Any] = _no_client, *, simulated: bool = True) -> Deployment:
    engine = Engine(folder / "no-pulumi", folder, "local", os.environ, folder)
    settings = selected_settings("local", None)
    return Deployment(engine, settings, Packs(), Surroundings(simulated, aws, _no_balancer), folder)


def _proof(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    tests: Mapping[str, Callable[[Deployment], str]],
    seconds: float = 1e6,
) -> tuple[Proof, Journal]:
    """A run over the promises of `tests`, of which the first is `up` and the last is `destroy`."""
    up, *between, destroy = (Promise(name, name, test) for name, test in tests.items())
    monkeypatch.setattr(engine_promises, "UP", up)
    monkeypatch.setattr(engine_promises, "DESTROY", destroy)
    monkeypatch.setattr(run, "BETWEEN", tuple(between))
    monkeypatch.setattr(run, "PROMISES", (up, *between, destroy))
    journal = Journal(folder / "journal.json", "local")
    return Proof(_deployment(folder), journal, seconds), journal


def _verdicts(journal: Journal) -> dict[str, str]:
    saved = read_journal(journal.path.parent)
    assert saved is not None
    assert saved.outcomes == journal.outcomes
    return {outcome.name: outcome.verdict for outcome in saved.outcomes}


def _broken(_: Deployment) -> str:
    raise Broken("evidence")


def _not_tried(_: Deployment) -> str:
    raise NotTried("reason")


def test_every_promise_gets_a_verdict_and_the_stack_is_destroyed_last(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    order: list[str] = []

    def held(name: str) -> Callable[[Deployment], str]:
        return lambda _: order.append(name) or name

    tests = {"up": held("up"), "a": _broken, "b": _not_tried, "c": held("c"), "destroy": held("destroy")}
    proof, journal = _proof(monkeypatch, tmp_path, tests)
    proof.run()
    assert order == ["up", "c", "destroy"]
    expected = {"up": "held", "a": "broken", "b": "not tried", "c": "held", "destroy": "held"}
    assert _verdicts(journal) == expected
    assert journal.finished


def test_a_stack_that_does_not_come_up_is_destroyed_and_nothing_else_is_tried(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tests = {"up": _broken, "a": lambda _: "a", "destroy": lambda _: "gone"}
    proof, journal = _proof(monkeypatch, tmp_path, tests)
    proof.run()
    assert _verdicts(journal) == {"up": "broken", "a": "not tried", "destroy": "held"}


def test_without_time_left_promises_are_not_tried_and_the_stack_is_destroyed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tests = {"up": lambda _: "up", "a": lambda _: "a", "destroy": lambda _: "gone"}
    proof, journal = _proof(monkeypatch, tmp_path, tests, seconds=DESTROY_SECONDS - 1)
    proof.run()
    assert _verdicts(journal) == {"up": "held", "a": "not tried", "destroy": "held"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_run_destroys_the_stack_and_lists_what_was_not_tried(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: signal.Signals
) -> None:
    def interrupted(_: Deployment) -> str:
        signal.raise_signal(number)
        raise AssertionError("the signal did not interrupt")

    destroyed: list[bool] = []
    tests = {"up": lambda _: "up", "a": interrupted, "destroy": lambda _: destroyed.append(True) or "gone"}
    proof, journal = _proof(monkeypatch, tmp_path, tests)
    with pytest.raises(KeyboardInterrupt):
        proof.run()
    assert destroyed == [True]
    assert _verdicts(journal) == {"up": "held", "a": "not tried", "destroy": "held"}
    assert journal.finished


def test_a_run_that_was_killed_resumes_where_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tried: list[str] = []
    tests = {
        "up": lambda _: tried.append("up") or "up",
        "a": lambda _: tried.append("a") or "a",
        "b": lambda _: tried.append("b") or "b",
        "destroy": lambda _: "gone",
    }
    _, journal = _proof(monkeypatch, tmp_path, tests)
    journal.record(Outcome("up", "up", "held", "before"))
    journal.record(Outcome("a", "a", "broken", "before"))
    again = read_journal(tmp_path)
    assert again is not None
    Proof(_deployment(tmp_path), again, 1e6).run()
    assert tried == ["b"]
    assert _verdicts(again) == {"up": "held", "a": "broken", "b": "held", "destroy": "held"}


def test_a_run_that_was_killed_while_it_destroyed_only_destroys(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _, journal = _proof(monkeypatch, tmp_path, {"up": _broken, "a": _broken, "destroy": lambda _: "gone"})
    journal.destroying = True
    journal.record(Outcome("up", "up", "held", "before"))
    again = read_journal(tmp_path)
    assert again is not None
    Proof(_deployment(tmp_path), again, 1e6).run()
    assert _verdicts(again) == {"up": "held", "a": "not tried", "destroy": "held"}


def test_cleaning_up_destroys_and_tries_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tests = {"up": _broken, "a": _broken, "destroy": lambda _: "gone"}
    proof, journal = _proof(monkeypatch, tmp_path, tests)
    proof.run(clean_up_only=True)
    assert _verdicts(journal) == {"up": "not tried", "a": "not tried", "destroy": "held"}


def test_a_destroy_that_fails_leaves_the_journal_unfinished(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    proof, journal = _proof(monkeypatch, tmp_path, {"up": lambda _: "up", "destroy": _broken})
    proof.run()
    assert not journal.finished


def test_a_failed_destroy_is_tried_again_by_a_clean_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    proof, journal = _proof(monkeypatch, tmp_path, {"up": lambda _: "up", "destroy": _broken})
    proof.run()
    destroy = replace(engine_promises.DESTROY, test=lambda _: "gone")
    monkeypatch.setattr(engine_promises, "DESTROY", destroy)
    monkeypatch.setattr(run, "PROMISES", (engine_promises.UP, destroy))
    again = read_journal(tmp_path)
    assert again is not None
    Proof(_deployment(tmp_path), again, 1e6).run(clean_up_only=True)
    assert _verdicts(again) == {"up": "held", "destroy": "held"}
    assert again.finished
    assert not journal.finished


def test_a_changed_report_is_recognized_and_the_key_is_its_owners_alone(tmp_path: Path) -> None:
    key = signing_key(tmp_path / "keys" / "proof.pem")
    assert stat.S_IMODE((tmp_path / "keys" / "proof.pem").stat().st_mode) == 0o600
    report = signed({"stack": "prod", "promises": [ROW.as_json()]}, key)
    assert verify(json.loads(json.dumps(report, indent=4))) == report["public_key"]
    assert signing_key(tmp_path / "keys" / "proof.pem").public_key() == key.public_key()
    report["promises"][0]["verdict"] = "broken"
    with pytest.raises(CommandError, match="changed after it was signed"):
        verify(report)
    with pytest.raises(CommandError, match="no signature"):
        verify({"stack": "prod"})


def test_page_of_a_report_has_its_table_for_any_evidence(tmp_path: Path) -> None:
    content = {
        "stack": "prod",
        "account": "1",
        "region": "us-east-1",
        "simulated": False,
        "version": "1",
        "revision": "",
        "began": "2026-01-01",
        "promises": [ROW.as_json()],
        "seconds": 60.0,
        "cost": 1.5,
    }
    text = page(signed(content, signing_key(tmp_path / "key.pem")))
    [row] = [line for line in text.splitlines() if "345 resources" in line]
    assert row.replace("\\|", "").count("|") == 5
    assert "&lt;in>" in row
    assert "about $1.50" in text


def test_a_stack_with_resources_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "pulumi"
    state = json.dumps({"deployment": {"resources": [{"urn": "urn:pulumi:prod::agents::x::y"}]}})
    program.write_text(f"#!{sys.executable}\nprint({state!r})\n", encoding="utf-8")
    program.chmod(0o700)
    engine = Engine(program, tmp_path, "prod", os.environ, tmp_path)
    arguments = _arguments("--stack", "prod", "--yes")
    with pytest.raises(CommandError, match="has 1 resources, and a proof destroys its stack"):
        prove.confirm(arguments, engine, prove.hourly_price(selected_settings("prod", None)))


def test_nothing_is_created_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "pulumi"
    program.write_text(f"#!{sys.executable}\nprint('{{\"deployment\": {{}}}}')\n", encoding="utf-8")
    program.chmod(0o700)
    engine = Engine(program, tmp_path, "prod", os.environ, tmp_path)
    arguments, price = (
        _arguments("--stack", "prod", "--hours", "2"),
        prove.hourly_price(selected_settings("prod", None)),
    )
    with Path(os.devnull).open(encoding="utf-8") as nothing, monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", nothing)
        with pytest.raises(CommandError, match=r"at most 2 hours and about \$\d+\.\d\d; add --yes"):
            prove.confirm(arguments, engine, price)


@pytest.mark.parametrize("value", ["0", "13", "three", "nan"])
def test_a_bad_number_of_hours_is_refused(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["prove", "--stack", "local", "--hours", value])
    assert "from 1 to 12" in capsys.readouterr().err


def test_a_journal_of_an_unfinished_run_is_not_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["prove", "--stack", "local", "--output", str(tmp_path)]
    assert main([*options, "--resume"]) == 1
    assert "no journal of an unfinished run" in capsys.readouterr().err
    Journal(tmp_path / "journal.json", "local").write()
    assert main(options) == 1
    assert "--resume" in capsys.readouterr().err
    (tmp_path / "journal.json").write_text("{}", encoding="utf-8")
    assert main(options) == 1
    assert "not the journal of a proof" in capsys.readouterr().err


def test_a_token_is_renewed_before_it_expires(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    script = (
        "import json, sys, time\n"
        f"with open({str(calls)!r}, 'a+') as file:\n"
        "    file.write('x'); file.seek(0); count = len(file.read())\n"
        "ends = time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(time.time() + (60 if count == 1 else 900)))\n"
        "print(json.dumps({'status': {'token': f'token-{count}', 'expirationTimestamp': ends}}))\n"
    )
    token = _Token({"command": sys.executable, "args": ["-c", script]}, os.environ)
    # The first is about to expire when it is issued.
    assert [token(), token(), token()] == ["token-1", "token-2", "token-2"]


def test_a_credential_plugin_that_fails_is_named(tmp_path: Path) -> None:
    missing = _Token({"command": str(tmp_path / "aws")}, os.environ)
    with pytest.raises(CommandError, match="cannot be run"):
        missing()
    failing = _Token({"command": sys.executable, "args": ["-c", "import sys; sys.exit('expired session')"]}, os.environ)
    with pytest.raises(CommandError, match="expired session"):
        failing()


def test_an_interruption_of_spot_fits_the_api_of_fis_and_leaves_no_template(tmp_path: Path) -> None:
    clients = {
        name: boto3.client(name, region_name="eu-central-1", aws_access_key_id="x", aws_secret_access_key="x")
        for name in ("fis", "sts")
    }
    fis, sts = Stubber(clients["fis"]), Stubber(clients["sts"])
    sts.add_response("get_caller_identity", {"Account": "111122223333"})
    fis.add_response(
        "create_experiment_template",
        {"experimentTemplate": {"id": "EXT1"}},
        {
            "clientToken": ANY,
            "description": ANY,
            "roleArn": "arn:aws:iam::111122223333:role/fis",
            "stopConditions": [{"source": "none"}],
            "targets": {
                "instance": {
                    "resourceType": "aws:ec2:spot-instance",
                    "resourceArns": ["arn:aws:ec2:eu-central-1:111122223333:instance/i-1"],
                    "selectionMode": "ALL",
                }
            },
            "actions": ANY,
            "tags": ANY,
        },
    )
    fis.add_response(
        "start_experiment", {"experiment": {"id": "EXP1"}}, {"clientToken": ANY, "experimentTemplateId": "EXT1"}
    )
    fis.add_response("delete_experiment_template", {}, {"id": "EXT1"})
    deployment = replace(
        _deployment(tmp_path, clients.__getitem__, simulated=False), spot_role="arn:aws:iam::111122223333:role/fis"
    )
    with fis, sts:
        assert interrupt(deployment, "eu-central-1", "i-1") == "interrupted i-1 by EXP1"
    fis.assert_no_pending_responses()


def test_an_engine_that_runs_past_its_deadline_is_interrupted(tmp_path: Path) -> None:
    program = tmp_path / "pulumi"
    body = "import signal, sys, time\nsignal.signal(signal.SIGINT, lambda *_: sys.exit(7))\ntime.sleep(600)\n"
    program.write_text(f"#!{sys.executable}\n{body}", encoding="utf-8")
    program.chmod(0o700)
    engine = Engine(program, tmp_path, "local", os.environ, tmp_path, until=time.time() + 2)
    assert engine.up(check=False).code == 7


def _arguments(*options: str) -> Any:
    import argparse

    parser = argparse.ArgumentParser()
    prove.add_arguments(parser)
    return parser.parse_args(options)


def test_failed_rules_are_all_named_with_their_resources(tmp_path: Path) -> None:
    row = {"severity": "high", "path": "", "urn": "urn:pulumi:s::p::aws:s3/bucket:Bucket::logs"}
    findings = [
        {**row, "id": "NET-01", "verdict": "indeterminate", "message": "cannot tell"},
        {**row, "id": "IAM-03", "verdict": "fail", "message": "anybody may"},
        {**row, "id": "STO-02", "verdict": "fail", "message": "it has no key", "urn": "urn:pulumi:s::p::t::homes"},
    ]
    counts = {"passed": 9, "failed": 2, "indeterminate": 1, "waived": 0}
    (tmp_path / "record.json").write_text(json.dumps({**counts, "findings": findings}))
    deployment = replace(_deployment(tmp_path), packs=Packs((tmp_path,)))
    with pytest.raises(Broken) as broken:
        engine_promises.passes_policies(deployment)
    assert str(broken.value) == "2 failed: IAM-03 of logs: anybody may; STO-02 of homes: it has no key"
