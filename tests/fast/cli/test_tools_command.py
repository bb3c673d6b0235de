"""`agentenv tools`: its table and its JSON, with and without installed tools."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from agentenv.cli.main import main
from agentenv.rehearsal.tools import catalog, plugins


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Hide all installed tools."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("AGENTENV_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PULUMI_IGNORE_AMBIENT_PLUGINS", raising=False)
    return tmp_path


def test_a_machine_without_tools_gets_the_build_effort(bare: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tools"]) == 0
    lines = capsys.readouterr().out.splitlines()
    tools = [recipe.name for recipe in catalog.RECIPES]
    stand_ins = [stand_in.program for stand_in in plugins.STAND_INS]
    assert [line.split()[0] for line in lines] == ["NAME", *tools, *stand_ins]
    assert lines[1].startswith("pulumi ")
    assert lines[1].endswith("absent    would be built, about 5 min")
    assert all("absent" in line for line in lines[1 : len(tools) + 1])
    assert all("stand-in" in line for line in lines[len(tools) + 1 :])
    assert not (bare / "cache").exists(), "asking must build nothing"


def test_the_json_has_each_tool_with_its_version_and_source(bare: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("pulumi", "pulumi-language-python", "pulumi-language-python-exec", "pulumi-resource-aws"):
        path = bare / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\necho v3.300.0\n")
        path.chmod(0o755)
    assert main(["tools", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out.splitlines()[-1])
    shown = {tool["name"]: (tool["version"], tool["source"], tool["path"]) for tool in answer["tools"]}
    expected = {
        "pulumi": ("3.300.0", "path", os.fspath(bare / "bin" / "pulumi")),
        "language-python-exec": ("3.300.0", "path", os.fspath(bare / "bin" / "pulumi-language-python-exec")),
        "pulumi-language-python": ("3.300.0", "path", os.fspath(bare / "bin" / "pulumi-language-python")),
        "pulumi-resource-aws": ("any", "path", os.fspath(bare / "bin" / "pulumi-resource-aws")),
    }
    assert {name: shown[name] for name in expected} == expected
