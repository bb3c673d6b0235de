"""The command line: help, unknown commands, exit codes and lazy imports."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import types
from pathlib import Path

import pytest

from agentenv.cli import main as cli


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == cli.OK
    output = capsys.readouterr().out
    assert all(f"  {row.name} " in output and row.summary in output for row in cli.COMMANDS)


def test_no_command_prints_the_overview_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == cli.USAGE
    assert "commands:" in capsys.readouterr().out


def test_an_unknown_command_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["rehears"]) == cli.USAGE
    assert "did you mean 'rehearse'?" in capsys.readouterr().err


@pytest.mark.parametrize("command", [row.name for row in cli.COMMANDS])
def test_every_command_has_help_and_json(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "--help"])
    assert ended.value.code == cli.OK
    output = capsys.readouterr().out
    assert output.startswith(f"usage: agentenv {command}")
    assert "--json" in output


def run_command(monkeypatch: pytest.MonkeyPatch, outcome: BaseException | int) -> int:
    def run(_: argparse.Namespace) -> int:
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    module = types.ModuleType("a_command", "What it does.")
    module.__dict__.update(add_arguments=lambda _: None, run=run)
    monkeypatch.setitem(sys.modules, "a_command", module)
    monkeypatch.setattr(cli, "COMMANDS", (cli.Command("some", "a_command", "…"),))
    return cli.main(["some"])


def test_exit_codes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(monkeypatch, cli.OK) == cli.OK
    assert run_command(monkeypatch, cli.CommandError("there is no such thing")) == cli.FAILED
    assert capsys.readouterr().err == "agentenv some: there is no such thing\n"
    assert run_command(monkeypatch, KeyboardInterrupt()) == cli.INTERRUPTED


def test_help_imports_nothing_heavy() -> None:
    heavy = "{'pydantic', 'boto3', 'botocore', 'rich', 'pulumi', 'yaml', 'moto'}"
    program = (
        "import sys; from agentenv.cli.main import main; code = main(['--help']);"
        f"sys.stderr.write(','.join(sorted({heavy} & sys.modules.keys()))); sys.exit(code)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stderr == ""


def test_with_json_an_error_is_an_object_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["rehearse", "--stack", "locl", "--json"]) == cli.FAILED
    output = capsys.readouterr()
    assert json.loads(output.out.splitlines()[-1])["error"].startswith("there is no stacks/Pulumi.locl.yaml")
    assert "there is no stacks/Pulumi.locl.yaml" in output.err


@pytest.mark.parametrize("port", ["0", "80", "65536", "-1", "http", "٣٤٥٦"])
def test_an_invalid_port_is_a_usage_error(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["rehearse", f"--port={port}"])
    assert ended.value.code == cli.USAGE
    assert "is not a port: a number from 1024 to 65535" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--help"], ["check"], ["check", "--json"], ["tools"]])
def test_output_that_cannot_be_written_is_an_error_without_a_traceback(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "agentenv", *arguments]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == cli.FAILED
    assert "No space left on device" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_stack_file_with_mistakes_is_not_rehearsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "stacks").mkdir()
    (tmp_path / "Pulumi.yaml").write_text("name: agent-environment\nstackConfigDir: stacks\n")
    (tmp_path / "stacks" / "Pulumi.dev.yaml").write_text(
        "config:\n  aws:region: us-east-1\n  network: {nat: both}\n"
        "  cluster: {versoin: '1.35', publicAccessCidrs: [203.0.113.0/24]}\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENTENV_CACHE", str(tmp_path / "cache"))
    assert cli.main(["rehearse", "--stack", "dev"]) == cli.FAILED
    output = capsys.readouterr().err
    assert "agent-environment:network.nat" in output
    assert "did you mean 'version'?" in output
    assert "2 mistakes in 1 stack file in stacks" in output
    assert not (tmp_path / "cache").exists(), "something was started"
