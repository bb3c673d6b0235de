"""The table of docs/e2b.md names every method of the client, so that none is left unsaid."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from e2b import AsyncSandbox, Sandbox, Secret, Template, Volume
from e2b.sandbox_sync.commands.command import Commands
from e2b.sandbox_sync.commands.pty import Pty
from e2b.sandbox_sync.filesystem.filesystem import Filesystem
from e2b.sandbox_sync.git import Git

PAGE = Path(__file__).resolve().parents[4] / "docs" / "e2b.md"
TYPES: dict[str, type] = {
    "Sandbox": Sandbox,
    "commands": Commands,
    "files": Filesystem,
    "pty": Pty,
    "git": Git,
    "Template": Template,
    "Volume": Volume,
    "Secret": Secret,
}


def _documented() -> set[tuple[str, str]]:
    rows = re.findall(r"^\| (`[^|]+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    named: set[tuple[str, str]] = set()
    for row in rows:
        kind = ""
        for text in re.findall(r"`([^`]+)`", row):
            prefix, _, method = text.rpartition(".")
            kind = prefix or kind
            named.add((kind, method))
    return named


def _methods(kind: str) -> set[str]:
    return {name for name, _ in inspect.getmembers(TYPES[kind], callable) if not name.startswith("_")}


@pytest.mark.parametrize("kind", ["Sandbox", "commands", "files", "pty", "git", "Volume", "Secret"])
def test_every_method_has_a_row(kind: str) -> None:
    named = {method for each, method in _documented() if each == kind}
    assert "*" in named or named == _methods(kind)


def test_the_table_names_no_method_that_does_not_exist() -> None:
    for kind, method in _documented():
        assert kind in TYPES
        assert method == "*" or method in _methods(kind), f"{kind}.{method}"


def test_both_clients_have_the_same_methods() -> None:
    both = {name for name, _ in inspect.getmembers(AsyncSandbox, callable) if not name.startswith("_")}
    assert both == _methods("Sandbox")
