"""The real engine with the stand-in language host, with its own backend and home."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentenv.rehearsal.tools import ensure, terminal_progress
from tests.isolated_engine import Engine, isolated_engine


@pytest.fixture(scope="session")
def pulumi() -> Path:
    """The CLI, which is built at its first use on a machine."""
    return ensure(["pulumi"], terminal_progress()).path("pulumi")


@pytest.fixture(scope="session")
def executor() -> Path:
    """The program with which the stand-in language host runs programs."""
    return ensure(["language-python-exec"], terminal_progress()).path("language-python-exec")


@pytest.fixture
def engine(tmp_path: Path, pulumi: Path, executor: Path) -> Engine:
    """An engine that finds the stand-in language host only, even where the official one is installed."""
    return isolated_engine(tmp_path, pulumi, executor)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, pulumi: Path, executor: Path) -> Engine:
    """An engine with a stack of the project `trial`, for tests that only preview a program."""
    engine = isolated_engine(tmp_path_factory.mktemp("shared"), pulumi, executor)
    (engine.folder / "Pulumi.yaml").write_text("name: trial\nruntime: python\n", encoding="utf-8")
    begun = engine.run("stack", "init", "dev")
    assert begun.returncode == 0, begun.stdout
    return engine
