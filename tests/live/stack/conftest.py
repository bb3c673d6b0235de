"""One stage with a control plane, for tests that deploy a whole environment."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentenv.rehearsal.stage.cluster import ClusterOptions
from agentenv.rehearsal.stage.stage import Stage, stage
from agentenv.rehearsal.tools.progress import terminal_progress


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The engine's tools, the simulated cloud, and a control plane that serves all its clusters."""
    with stage(terminal_progress(), under=tmp_path_factory.mktemp("runs"), cluster=ClusterOptions()) as running:
        yield running
