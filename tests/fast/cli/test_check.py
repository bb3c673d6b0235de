"""`agentenv check`: its text, its JSON and its exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path

import pytest

from agentenv.cli import main as cli
from agentenv.cli.commands import check as command
from agentenv.cli.stack_files import read_stack_file
from agentenv.cli.terminal_text import has_colour
from agentenv.config.sections.cluster import Cluster
from agentenv.core.nodes.kubernetes_support import upgrade_warning
from agentenv.core.pinned_versions import releases
from agentenv.rehearsal.cloud.rows.eks_common import catalog

ROOT = Path(__file__).resolve().parents[3]

BAD = """\
config:
  aws:region: us-east1
  agent-environment:network:
    cidr: 10.40.0.0/16
    nat: singel
    nat: single
  agent-environment:sandboxClasses:
    - name: a
      image: sandbox:latest
    - {name: b, compute: fargate, tier: untrusted, gpu: 1,
       image: "x/y@sha256:0000000000000000000000000000000000000000000000000000000000000000"}
  agent-environment:storge: {}
  agent-environment:cluster: {publicAccessCidrs: [203.0.113.0/24]}
confg: {}
"""
# A file without a way to the API server has one mistake more.
REACHED = "  agent-environment:cluster: {publicAccessCidrs: [203.0.113.0/24]}\n"


def write_file(folder: Path, text: str = BAD, name: str = "Pulumi.dev.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def check(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = cli.main(["check", *arguments])
    return code, capsys.readouterr().out


def test_the_stack_files_of_the_project_have_no_mistakes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT / "docs")
    monkeypatch.setattr(command, "today", lambda: date(2026, 11, 20))
    assert check(capsys) == (0, f"6 stack files in {ROOT / 'stacks'}, no mistakes\n")
    assert check(capsys, "--stack", "prod", "--json") == (0, '{"errors": [], "warnings": []}\n')


def test_end_of_standard_support_is_a_warning_sixty_days_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_file(tmp_path, f"config:\n  aws:region: us-east-1\n{REACHED}".replace("{pub", "{version: '1.35', pub"))
    monkeypatch.chdir(tmp_path)
    end = releases().standard_support["1.35"]
    for day, warned in ((end - timedelta(days=61), False), (end - timedelta(days=60), True), (end, True)):
        monkeypatch.setattr(command, "today", lambda day=day: day)
        code, text = check(capsys, "--file", path.name)
        assert code == 0
        assert text.endswith(f"1 stack file in {tmp_path}, no mistakes{', 1 warning' if warned else ''}\n")
    assert text.startswith(
        "Pulumi.dev.yaml:3  agent-environment:cluster.version\n    warning standard support of 1.35 ends on 2027-03-27,"
    )
    [warning] = json.loads(check(capsys, "--file", path.name, "--json")[1])["warnings"]
    assert (warning["file"], warning["line"]) == ("Pulumi.dev.yaml", 3)


@pytest.mark.parametrize("cluster", [{"support_policy": "extended"}, {"existing": "theirs"}, {"version": "1.36"}])
def test_clusters_that_eks_does_not_upgrade_soon_have_no_warning(cluster: dict[str, str]) -> None:
    end = releases().standard_support["1.35"]
    settings = Cluster.model_construct(**{"version": "1.35", "support_policy": "standard", "existing": None, **cluster})
    assert upgrade_warning(settings, end) == ""


def test_simulated_eks_ends_support_on_the_same_days() -> None:
    versions = catalog()["cluster_versions"]
    ends = {version: row["standard_until"] for version, row in versions.items() if "standard_until" in row}
    assert {version: str(end) for version, end in releases().standard_support.items()}.items() <= ends.items()


def test_every_mistake_has_its_line(tmp_path: Path) -> None:
    assert [(mistake.line, mistake.path) for mistake in read_stack_file(write_file(tmp_path), "dev").mistakes] == [
        (2, "aws:region"),
        (6, "agent-environment:network"),
        (9, "agent-environment:sandboxClasses[0].image"),
        (10, "agent-environment:sandboxClasses[1].gpu"),
        (12, "agent-environment:storge"),
        (14, "confg"),
    ]


def test_the_text_has_a_section_for_each_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_file(tmp_path)
    monkeypatch.chdir(tmp_path)
    code, text = check(capsys, "--file", "Pulumi.dev.yaml")
    assert code == 1
    assert (
        "Pulumi.dev.yaml:2  aws:region\n    found   'us-east1'\n    allowed an AWS region such as us-east-1\n" in text
    )
    assert "    hint    did you mean 'storage'?\n" in text
    assert text.endswith(f"\n6 mistakes in 1 stack file in {tmp_path}\n")
    assert "\x1b" not in text


def test_control_characters_of_a_file_are_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = '"\\e[31mred": 1\nconfig:\n  "\\e[2Jx": {"\\e[1m": 1, "\\e[1m": 2}\n'
    code, output = check(capsys, "--file", str(write_file(tmp_path, text)))
    assert code == 1
    assert "\x1b" not in output
    assert "\\x1b[31mred" in output


def test_the_json_has_each_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_file(tmp_path)
    code, text = check(capsys, "--file", str(path), "--json")
    assert code == 1
    errors = json.loads(text.splitlines()[-1])["errors"]
    assert errors[-2] == {
        "path": "agent-environment:storge",
        "found": "the key 'storge'",
        "allowed": errors[-2]["allowed"],
        "hint": "did you mean 'storage'?",
        "file": str(path),
        "line": 12,
    }
    assert len(errors) == 6


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "an empty file"),
        ("- a\n", "a list"),
        ("config: [1]\n", "a list"),
        ("config: text\n", "'text'"),
        ("config:\n  1: 2\n", "the key 1"),
        ("config: {\n", "did not find expected node content"),
        ("config:\n  aws:region: {secure: v1:abc}\n", "a secret"),
        ("config:\n  aws:region: us-east-1\n  agent-environment:network:\n", "nothing"),
        ("config:\n  aws:region: us-east-1\n  agent-environment:cost: {owner: 2026-01-01}\n", "a date"),
        ("aws:region: us-east-1\n", "the key 'aws:region'"),
    ],
)
def test_a_file_of_another_shape_is_a_mistake(
    text: str, found: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, answer = check(capsys, "--file", str(write_file(tmp_path, text)), "--json")
    assert code == 1
    assert found in [error["found"] for error in json.loads(answer)["errors"]]


def test_a_missing_file_is_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = check(capsys, "--file", str(tmp_path / "Pulumi.x.yaml"), "--json")
    assert code == 1
    assert json.loads(answer)["errors"][0]["found"] == "no such file"


def test_an_unknown_stack_lists_the_existing_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "--stack", "production"]) == 1
    output = capsys.readouterr().err
    assert "there is no" in output
    assert "adopted, dev, full, local, prod, staging" in output


def test_a_path_is_not_a_stack(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "--stack", "../prod"]) == 1
    assert "--file" in capsys.readouterr().err


def test_the_name_of_the_file_selects_the_stack(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    public = 'config: {"aws:region": us-east-1, "agent-environment:cluster": {publicAccessCidrs: [0.0.0.0/0]}}'
    assert check(capsys, "--file", str(write_file(tmp_path, public)))[0] == 0
    assert check(capsys, "--file", str(write_file(tmp_path, public, "Pulumi.prod.yaml")))[0] == 1
    assert check(capsys, "--file", str(write_file(tmp_path, public)), "--stack", "prod")[0] == 1


def test_a_region_may_come_from_an_esc_environment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(capsys, "--file", str(write_file(tmp_path, f"environment: [team]\nconfig:\n{REACHED}")))[0] == 0
    assert check(capsys, "--file", str(write_file(tmp_path, "config: {}\n")))[0] == 1


def test_no_heavy_module_is_imported(tmp_path: Path) -> None:
    program = (
        "import sys; from agentenv.cli import main as cli; cli.main(['check', '--file', sys.argv[1]]);"
        "sys.exit(any(name in sys.modules for name in ('pulumi', 'boto3', 'botocore', 'rich', 'grpc')))"
    )
    path = write_file(tmp_path, f"config:\n  aws:region: us-east-1\n{REACHED}")
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_pipe_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert cli.main(["check", "--file", str(pipe)]) == 1
    assert "is not a regular file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("region", "hint"),
    [("us-esat-1", "did you mean 'us-east-1'?"), ("eu-wets-3", "did you mean 'eu-west-3'?"), ("mars-1", "")],
)
def test_an_invalid_region_is_a_mistake(
    region: str, hint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_file(tmp_path, f"config:\n  aws:region: {region}\n{REACHED}")
    [error] = json.loads(check(capsys, "--file", str(path), "--json")[1])["errors"]
    assert (error["path"], error["found"], error["hint"]) == ("aws:region", f"'{region}'", hint)


@pytest.mark.parametrize("region", ["ap-southeast-7", "mx-central-1", "nz-central-1"])
def test_a_well_formed_region_is_valid(region: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(capsys, "--file", str(write_file(tmp_path, f"config:\n  aws:region: {region}\n{REACHED}")))[0] == 0


@pytest.mark.parametrize("region", ["cn-northwest-1", "us-gov-west-1", "eusc-de-east-1", "us-isob-east-1"])
def test_a_region_of_another_partition_is_refused(
    region: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_file(tmp_path, f"config:\n  aws:region: {region}\n{REACHED}")
    [error] = json.loads(check(capsys, "--file", str(path), "--json")[1])["errors"]
    assert (error["path"], error["allowed"]) == ("aws:region", "regions of the partition aws")


def test_a_mistyped_region_key_is_one_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_file(tmp_path, f"config:\n  aws:regoin: us-east-1\n  aws:profile: team\n{REACHED}")
    [error] = json.loads(check(capsys, "--file", str(path), "--json")[1])["errors"]
    assert (error["path"], error["hint"], error["line"]) == ("aws:regoin", "write aws:region", 2)


def test_a_loop_of_links_is_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loop = tmp_path / "Pulumi.loop.yaml"
    loop.symlink_to(loop)
    code, text = check(capsys, "--file", str(loop))
    assert code == 1
    assert "    found   Too many levels of symbolic links\n" in text


def test_standard_input_is_read(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "agentenv", "check", "--file", "-"]
    ended = subprocess.run(command, input=BAD, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ended.returncode == 1
    assert ended.stdout.startswith("standard input:2  aws:region\n")
    assert ended.stdout.endswith("\n6 mistakes in 1 stack file from standard input\n")


def test_a_dumb_terminal_has_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    main_end, terminal_end = os.openpty()
    with os.fdopen(main_end), os.fdopen(terminal_end, "w") as terminal:
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.setenv("TERM", "xterm")
        assert has_colour(terminal)
        monkeypatch.setenv("TERM", "dumb")
        assert not has_colour(terminal)
