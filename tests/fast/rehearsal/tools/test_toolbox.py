"""Selection of a tool where PATH, cache and plugin folders hold several, and shims for missing tools."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

from agentenv.cli.main import main
from agentenv.rehearsal.tools import plugins, program_versions, survey
from agentenv.rehearsal.tools.errors import UnknownTool
from tests.fast.rehearsal.tools import fake_go


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without tools, and with caches of its own."""
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    monkeypatch.setenv("AGENTENV_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PULUMI_IGNORE_AMBIENT_PLUGINS", raising=False)


def install(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def on_path(monkeypatch: pytest.MonkeyPatch, *folders: Path) -> None:
    monkeypatch.setenv("PATH", ":".join(map(str, folders)))


def test_a_new_enough_tool_on_path_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = install(tmp_path / "bin" / "pulumi", fake_go.program("v3.300.1"))
    on_path(monkeypatch, path.parent)
    tool = survey()[0]
    assert (tool.source, tool.version, tool.path) == ("path", "3.300.1", path)


def test_old_and_broken_tools_are_skipped_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = install(tmp_path / "old" / "pulumi", fake_go.program("v3.100.0"))
    broken = install(tmp_path / "broken" / "pulumi", "#!/bin/sh\necho cannot start >&2\nexit 127\n")
    silent = install(tmp_path / "silent" / "pulumi", fake_go.program("hello"))
    good = install(tmp_path / "good" / "pulumi", fake_go.program("v3.259.0"))
    on_path(monkeypatch, old.parent, broken.parent, silent.parent, good.parent)
    tool = survey()[0]
    assert tool.path == good
    assert f"{old} is passed over: it is version 3.100.0, and 3.259.0 or newer is needed" in tool.detail
    assert f"{broken} is passed over: 'pulumi version' ended with 127: cannot start" in tool.detail
    assert f"{silent} is passed over: 'pulumi version' printed no version" in tool.detail


def test_unresponsive_tool_is_skipped(tmp_path: Path) -> None:
    path = install(tmp_path / "pulumi", "#!/bin/sh\nexec /bin/sleep 600\n")
    assert program_versions.version_of(path, ("version",), timeout=0.2) == "'pulumi version' did not answer within 0 s"


def test_plugin_on_path_is_used_with_any_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = install(tmp_path / "bin" / "pulumi-resource-aws", fake_go.program(""))
    on_path(monkeypatch, path.parent)
    assert plugins.find("resource", "aws", "7.51.1") == path
    monkeypatch.setenv("PULUMI_IGNORE_AMBIENT_PLUGINS", "true")
    assert plugins.find("resource", "aws", "7.51.1") is None


def test_plugin_cache_needs_the_exact_version(tmp_path: Path) -> None:
    plugin_folder = tmp_path / "home" / "plugins" / "resource-aws-v7.51.1"
    path = install(plugin_folder / "pulumi-resource-aws", fake_go.program(""))
    assert plugins.find("resource", "aws", "7.51.1") == path
    assert plugins.find("resource", "aws", "v7.51.1") == path
    assert plugins.find("resource", "aws", "7.51.2") is None
    assert plugins.find("resource", "aws", "7.51.1", home=tmp_path / "other") is None
    plugin_folder.with_name(f"{plugin_folder.name}.partial").touch()
    assert plugins.find("resource", "aws", "7.51.1") is None, "the engine has not finished installing it"


def test_a_language_host_beside_the_engine_counts_and_brings_the_executor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulumi = install(tmp_path / "opt" / "pulumi", fake_go.program("v3.260.0"))
    host = install(tmp_path / "opt" / "pulumi-language-python", fake_go.program("v3.260.0"))
    executor = install(tmp_path / "opt" / plugins.EXECUTOR, "")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "pulumi").symlink_to(pulumi)
    on_path(monkeypatch, tmp_path / "bin")
    assert plugins.find("language", "python") == host
    assert [(tool.source, tool.version, tool.path) for tool in survey() if tool.path] == [
        ("path", "3.260.0", tmp_path / "bin" / "pulumi"),
        ("path", "3.260.0", executor),
    ]


def test_shims_are_written_only_for_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = install(tmp_path / "executor", "# the executor\n")
    python = Path(sys.executable)
    shims = plugins.shims(tmp_path / "shims", python, executor=executor)
    providers = ["pulumi-resource-aws", "pulumi-resource-eks", "pulumi-resource-kubernetes"]
    assert [shim.name for shim in shims] == ["pulumi-language-python", *providers, "aws"]
    assert (tmp_path / "shims" / plugins.EXECUTOR).read_text() == "# the executor\n"
    on_path(monkeypatch, tmp_path / "shims")
    assert plugins.find("language", "python") is None, "our own shim is not an official plugin"

    official = install(tmp_path / "bin" / "pulumi-language-python", fake_go.program("v3.260.0"))
    on_path(monkeypatch, official.parent)
    shims = plugins.shims(tmp_path / "others", python, executor=executor)
    assert [shim.name for shim in shims] == [*providers, "aws"]
    assert sorted(path.name for path in (tmp_path / "others").iterdir()) == ["aws", *providers]

    command = install(tmp_path / "bin" / "aws", "the AWS CLI")
    on_path(monkeypatch, command.parent)
    assert [shim.name for shim in plugins.shims(tmp_path / "more", python, executor=executor)] == providers


def test_shims_need_the_executor(tmp_path: Path) -> None:
    with pytest.raises(UnknownTool, match="language-python-exec"):
        plugins.shims(tmp_path / "shims", Path(sys.executable))


def test_a_shim_is_not_shadowed_by_the_folder_it_is_started_in(tmp_path: Path) -> None:
    executor = install(tmp_path / "executor", "")
    plugins.shims(tmp_path / "my shims", Path(sys.executable), executor=executor)
    program = tmp_path / "program"
    for shadow in ("agentenv", "asyncio", "signal"):
        install(program / f"{shadow}.py", "raise SystemExit('shadowed')\n")
    answer = subprocess.run(
        [str(tmp_path / "my shims" / "pulumi-language-python"), "--version"],
        cwd=program,
        env={"PYTHONPATH": str(program), "PATH": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (answer.stdout, answer.stderr) == ("v3.259.0\n", "")


def test_required_version_of_the_sdk_is_read_without_import() -> None:
    metadata = json.loads(
        Path(str(distribution("pulumi_aws").locate_file("pulumi_aws/pulumi-plugin.json"))).read_text()
    )
    assert plugins.requested("aws") == metadata["version"]
    assert plugins.requested("no-such-package") is None


def test_missing_official_plugins_are_listed_with_their_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = plugins.missing_official()
    assert f"pulumi plugin install resource aws {plugins.requested('aws')}" in commands
    assert "put pulumi-language-python on PATH" in commands
    for stand_in in plugins.STAND_INS:
        install(tmp_path / "bin" / stand_in.program, fake_go.program("v3.260.0"))
    on_path(monkeypatch, tmp_path / "bin")
    assert plugins.missing_official() == []


def test_a_rehearsal_with_official_plugins_does_not_start_without_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rehearse", "--plugins", "official"]) == 1
    assert "official plugins are missing:\n  put pulumi-language-python on PATH\n" in capsys.readouterr().err
