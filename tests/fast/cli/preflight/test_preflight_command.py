"""`agentenv preflight` with the simulated cloud, with an unreachable one, and without credentials."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentenv.cli import main as cli


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Remove all credentials, and the instance metadata service."""
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    folder = tmp_path_factory.mktemp("nobody")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(folder / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(folder / "credentials"))


@pytest.fixture
def signed_in(nowhere: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")


def preflight(*arguments: str) -> int:
    return cli.main(["preflight", *arguments])


def test_every_check_reports_missing_credentials(nowhere: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert preflight("--stack", "prod", "--json") == cli.FAILED
    output = capsys.readouterr()
    checks = json.loads(output.out.splitlines()[-1])["checks"]
    assert len(checks) > 35
    assert all(set(check) == {"name", "needed", "limit", "ok", "why"} for check in checks)
    assert all(check["ok"] is None and "no AWS credentials" in check["why"] for check in checks)
    assert output.err.startswith("agentenv preflight: AWS answered no call: no AWS credentials were found")


def test_without_a_network_the_error_has_the_address(
    signed_in: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert preflight("--stack", "local") == cli.FAILED
    output = capsys.readouterr()
    assert "127.0.0.1:9" in output.err
    assert "without a result" in output.out.splitlines()[-1]
    assert "Traceback" not in output.err + output.out


def test_a_missing_profile_is_named(
    nowhere: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    assert preflight("--stack", "local") == cli.FAILED
    assert "nobody" in capsys.readouterr().err


def test_the_simulated_account_answers_what_it_supports(
    signed_in: None, cloud: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", cloud)
    code = preflight("--stack", "local", "--json")
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out.splitlines()[-1])["checks"]}
    assert code == (cli.FAILED if any(check["ok"] is False for check in checks.values()) else cli.OK)
    assert checks["the region is open"]["ok"] is True
    assert checks["zones"] == {"name": "zones", "needed": 2, "limit": 6, "ok": True, "why": ""}
    assert checks["add-on vpc-cni"]["ok"] is True
    assert checks["the cluster's name"]["ok"] is True
    assert checks["quota: VPCs in the region"]["limit"] == 5
    # What the simulated cloud does not know is unknown, and says who did not know it.
    assert checks["permissions: ec2"]["ok"] is None
    assert "SimulatePrincipalPolicy" in checks["permissions: ec2"]["why"]


def test_the_table_has_a_line_for_each_check(
    signed_in: None, cloud: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", cloud)
    preflight("--stack", "local")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("caller: arn:aws:")
    assert any(line.startswith("ok  zones") and line.endswith("2 of 6") for line in lines)
    assert "checks passed" in lines[-1]


def test_an_unknown_stack_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert preflight("--stack", "nowhere") == cli.FAILED
    assert "there is no stacks/Pulumi.nowhere.yaml" in capsys.readouterr().err


def test_a_region_of_an_esc_environment_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "Pulumi.dev.yaml"
    reached = "config: {'agent-environment:cluster': {publicAccessCidrs: [203.0.113.0/24]}}"
    file.write_text(f"environment: [team]\n{reached}\n", encoding="utf-8")
    assert preflight("--file", str(file)) == cli.FAILED
    assert "set aws:region in the file" in capsys.readouterr().err
