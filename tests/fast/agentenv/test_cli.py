"""The command line: help, unknown words, exit codes, and imports that wait until they are needed."""

from __future__ import annotations

import argparse
import subprocess
import sys
import types

import pytest

from agentenv import cli


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == cli.OK
    said = capsys.readouterr().out
    assert all(f"  {row.name} " in said and row.summary in said for row in cli.COMMANDS)


def test_no_command_is_a_mistyped_call(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == cli.USAGE
    assert "commands:" in capsys.readouterr().out


def test_a_mistyped_command_gets_the_nearest_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["rehears"]) == cli.USAGE
    assert "did you mean 'rehearse'?" in capsys.readouterr().err


@pytest.mark.parametrize("command", [row.name for row in cli.COMMANDS])
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "--help"])
    assert ended.value.code == cli.OK
    said = capsys.readouterr().out
    assert said.startswith(f"usage: agentenv {command}")
    assert "--json" in said


def played(monkeypatch: pytest.MonkeyPatch, outcome: BaseException | int) -> int:
    def run(_: argparse.Namespace) -> int:
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    module = types.ModuleType("a_command", "What it does.")
    module.__dict__.update(add_arguments=lambda _: None, run=run)
    monkeypatch.setitem(sys.modules, "a_command", module)
    return cli.call(cli.Command("some", "a_command", "…"), [])


def test_exit_codes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert played(monkeypatch, cli.OK) == cli.OK
    assert played(monkeypatch, cli.Refusal("there is no such thing")) == cli.FAILED
    assert capsys.readouterr().err == "agentenv some: there is no such thing\n"
    assert played(monkeypatch, KeyboardInterrupt()) == cli.INTERRUPTED


def test_help_imports_nothing_heavy() -> None:
    heavy = "{'pydantic', 'boto3', 'botocore', 'rich', 'pulumi', 'yaml', 'moto'}"
    program = (
        "import sys; from agentenv.cli import main; code = main(['--help']);"
        f"sys.stderr.write(','.join(sorted({heavy} & sys.modules.keys()))); sys.exit(code)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stderr == ""
