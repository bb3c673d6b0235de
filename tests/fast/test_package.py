"""One import name: `agentenv`, whose `components` and `policies` are the folders at the top of a checkout."""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import pytest

import agentenv

# Imports the service and its older name, without the packages that the image leaves out
START = """
import sys
sys.modules.update(dict.fromkeys(sys.argv[1:]))
import agentenv.service.__main__, agentenv.service.home_metering, agentenv.service.http.app, service
print(agentenv.__file__)
"""
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("room", ["components", "policies"])
def test_the_folders_at_the_top_are_parts_of_the_package(room: str) -> None:
    assert (ROOT / "agentenv" / room).is_symlink()
    assert (ROOT / "agentenv" / room).readlink() == Path("..", room)
    assert Path(str(importlib.import_module(f"agentenv.{room}").__file__)).resolve() == ROOT / room / "__init__.py"


@pytest.mark.parametrize("room", ["components", "policies", "components.environment", "policies.samples"])
def test_no_module_has_a_second_name(room: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", f"import {room}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert f"ImportError: import agentenv.{room.partition('.')[0]}" in ended.stderr


def test_no_file_is_imported_twice() -> None:
    for found in pkgutil.walk_packages(agentenv.__path__, "agentenv."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
    files = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
    ours = Counter(
        str(path)
        for name, file in files.items()
        if file
        and name != "__main__"
        and (path := Path(file).resolve()).is_relative_to(ROOT)
        and ".venv" not in path.parts
    )
    assert [file for file, names in ours.items() if names > 1] == []


def test_the_version_is_written_once() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert version("agent-environment") == declared
    locked = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))["package"]
    assert [row["version"] for row in locked if row["name"] == "agent-environment"] == [declared]
    files = ("*.py", "*.yaml", "*.yml", "*.toml", ":!tests", ":!pyproject.toml")
    listed = subprocess.run(
        ["git", "grep", "-lwF", declared, "--", *files], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False
    )
    # Both are generated, and checked as such
    assert listed.stdout.split() == ["policies/cost/PulumiPolicy.yaml", "policies/isolation/PulumiPolicy.yaml"]


def test_the_image_holds_every_module_that_the_service_imports(tmp_path: Path) -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    copied = re.findall(r"^COPY ((?:agentenv|image)\S*) (/app\S*)$", text, re.MULTILINE)
    allowed = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for source, target in copied:
        assert f"!{source}" in allowed
        place = tmp_path / target.removeprefix("/")
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, place, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / source, place)
    left_out = [name.replace("-", "_") for name in re.findall(r"--prune (\S+)", text)]
    assert "pulumi" in left_out
    ended = subprocess.run(
        [sys.executable, "-c", START, *left_out],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "app")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip() == str(tmp_path / "app" / "agentenv" / "__init__.py")
