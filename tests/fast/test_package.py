"""One import name: `agentenv`, whose `components` and `policies` are the folders at the top of a checkout."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import agentenv

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
