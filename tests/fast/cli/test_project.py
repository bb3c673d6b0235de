"""The project of the current folder: which `Pulumi.yaml` counts, and where its stack files are."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from agentenv.cli.main import FAILED, OK, CommandError, main
from agentenv.cli.project import checkout, project

ROOT = Path(__file__).resolve().parents[3]
COMMANDS_OF_A_CHECKOUT = (
    ["rehearse", "--stack", "minimal"],
    ["review", "--stack", "minimal", "--offline"],
    ["waivers", "--fast"],
    ["prove", "--stack", "minimal", "--rehearse"],
)


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy an example out of the checkout, and enter it."""
    folder = tmp_path / "environment"
    shutil.copytree(ROOT / "examples" / "environment", folder, ignore=shutil.ignore_patterns(".venv", "__pycache__"))
    monkeypatch.chdir(folder)
    return folder


def test_check_reads_the_stack_files_beside_the_nearest_description(
    example: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check"]) == OK
    assert capsys.readouterr().out == f"4 stack files in {example}, no mistakes\n"
    (example / "below").mkdir()
    monkeypatch.chdir(example / "below")
    file = example / "Pulumi.gpu.yaml"
    file.write_text(file.read_text("utf-8").replace("sandboxClasses:", "sandboxClases:"), "utf-8")
    assert main(["check"]) == FAILED
    assert "did you mean 'sandboxClasses'?" in capsys.readouterr().out


def test_an_unknown_stack_is_not_read_elsewhere(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("check", "estimate", "preflight"):
        assert main([command, "--stack", "prod"]) == FAILED
        error = capsys.readouterr().err
        assert "there is no Pulumi.prod.yaml; there are stack files for adopted-vpc, fargate, gpu, minimal" in error
    assert main(["estimate", "--stack", "minimal", "--json"]) == OK
    assert json.loads(capsys.readouterr().out)["region"]


def test_stack_files_are_in_the_folder_that_the_description_names(
    example: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (example / "Pulumi.yaml").open("a", encoding="utf-8") as description:
        description.write("stackConfigDir: config/stacks\n")
    assert main(["check"]) == FAILED
    assert f"there are no stack files in {example / 'config' / 'stacks'}" in capsys.readouterr().err
    (example / "config" / "stacks").mkdir(parents=True)
    (example / "Pulumi.gpu.yaml").rename(example / "config" / "stacks" / "Pulumi.gpu.yml")
    assert main(["check", "--stack", "gpu"]) == OK
    assert capsys.readouterr().out == "1 stack file in config/stacks, no mistakes\n"


def test_without_a_project_it_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (["check"], ["estimate", "--stack", "prod"], ["releases", "--stack", "prod"], ["waivers"]):
        assert main(words) == FAILED
        assert f"there is no Pulumi.yaml in {tmp_path} or above it" in capsys.readouterr().err
    (tmp_path / "Pulumi.yaml").write_text("name: [\n", encoding="utf-8")
    assert main(["check"]) == FAILED
    assert f"{tmp_path / 'Pulumi.yaml'} cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize("words", COMMANDS_OF_A_CHECKOUT, ids=" ".join)
def test_commands_of_a_checkout_refuse_another_project(
    words: list[str], example: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == FAILED
    error = capsys.readouterr().err
    assert f"it needs a checkout of agent-environment, and {example} is the project 'agents'" in error


def test_a_checkout_is_found_from_below() -> None:
    assert project(ROOT / "tests" / "fast").folder == ROOT
    assert checkout(ROOT / "docs") == ROOT
    with pytest.raises(CommandError, match="is the project 'agents'"):
        checkout(ROOT / "examples" / "environment")


@pytest.mark.parametrize("words", ["releases --stack minimal", "recover --stack minimal", "recover --file {}"])
def test_outputs_are_those_of_the_project(
    words: str, example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    if "{}" in words:
        monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    pulumi = tmp_path / "bin" / "pulumi"
    pulumi.write_text('#!/bin/sh\necho "in $PWD: $*" >&2; exit 255\n', encoding="utf-8")
    pulumi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{pulumi.parent}{os.pathsep}/bin")
    assert main(words.format(example / "Pulumi.minimal.yaml").split()) == FAILED
    assert f"in {example}: stack output kubeconfig --json --stack minimal" in capfd.readouterr().err
