"""One stage for each worker: tools are built once, and every test creates its own project on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentenv.rehearsal.stage.stage import Stage, stage
from agentenv.rehearsal.tools.progress import terminal_progress


@pytest.fixture(scope="session")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The engine's tools and the simulated cloud, shared by the tests of a worker."""
    with stage(terminal_progress(), under=tmp_path_factory.mktemp("runs")) as running:
        yield running
