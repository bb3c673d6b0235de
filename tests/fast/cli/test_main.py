"""The command line: help, unknown commands, exit codes and lazy imports."""

from __future__ import annotations

import argparse
import json
import shlex
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


def test_help_of_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ("check", "workspace create", "cost"):
        with pytest.raises(SystemExit) as ended:
            cli.main(["help", *words.split()])
        assert ended.value.code == cli.OK
        assert capsys.readouterr().out.startswith(f"usage: agentenv {words} ")
    assert cli.main(["help", "nosuch"]) == cli.USAGE


def test_usage_names_each_argument(capsys: pytest.CaptureFixture[str]) -> None:
    for words, usage, error in (
        ("cost", "[--json]", "required: report"),
        ("workspace exec", "ID -- COMMAND [ARG ...]", "required: ID, COMMAND"),
    ):
        with pytest.raises(SystemExit):
            cli.main(words.split())
        text = capsys.readouterr().err
        assert usage in text
        assert error in text


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


@pytest.mark.parametrize("port", ["65536", "99999", "-1", "http", "٣٤٥٦", "9" * 5000])
@pytest.mark.parametrize(
    "words", ["rehearse --port={}", "dev --port={}", "workspace open w-1 -- {}", "workspace share w-1 -- {}"]
)
def test_an_invalid_port_is_a_usage_error(words: str, port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(words.format(port).split())
    assert ended.value.code == cli.USAGE
    assert "is not a port: a number from 0 to 65535" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    ["estimate --json", "workspace list --json --nosuch", "chek --json", "login --json", "waivers --stack nope --json"],
)
def test_with_json_a_usage_error_is_an_object_too(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    try:
        code = cli.main(words.split())
    except SystemExit as ended:
        code = ended.code
    assert code == (cli.FAILED if "waivers" in words else cli.USAGE)
    out, err = capsys.readouterr()
    assert json.loads(out.splitlines()[-1])["error"] in err


def test_an_option_of_a_command_in_a_sandbox_is_not_ours(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["workspace", "exec", "--nosuch", "w-1", "--", "ls", "--json"])
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("words", ["prove --verify {}", "policies check {}/pod.yaml --sarif {}/nope/x"])
def test_errors_of_files_name_the_file(words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pod.yaml").write_text("{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {}}\n")
    target = tmp_path / "nope" if "{}/" not in words else tmp_path
    assert cli.main([*words.replace("{}", str(target)).split(), "--json"]) == cli.FAILED
    out, err = capsys.readouterr()
    assert "nope" in err
    assert "No such file or directory" in err
    assert "Errno" not in err
    assert json.loads(out.splitlines()[-1])["error"] in err


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    "words", ["--help", "check", "policies rules", "estimate --stack dev", "estimate --stack nope"]
)
def test_a_closed_stream_discards_its_output(words: str, closed: str) -> None:
    command = f"{shlex.quote(sys.executable)} -m agentenv {words} {closed}"
    ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert ended.returncode == (cli.FAILED if "nope" in words else cli.OK)
    assert "Traceback" not in ended.stderr
    assert (ended.stdout == "") == (">&-" in closed.split() or "nope" in words)


def test_an_interrupt_during_the_import_leaves_no_traceback() -> None:
    program = (
        "import sys, signal\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'agentenv.cli.main': signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "from agentenv.__main__ import main\n"
        "main()\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (cli.INTERRUPTED, "")


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
