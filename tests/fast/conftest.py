"""The extracts of the official providers' schemas and calls, which are too large for the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FACTS = "AGENTENV_FACTS"


@pytest.fixture(scope="session")
def facts() -> Path:
    """Return the folder of the extracts; skip the test without it."""
    folder = os.environ.get(FACTS)
    if not folder:
        pytest.skip(f"needs {FACTS}: the folder with extracts of the official providers' schemas and calls")
    return Path(folder)
