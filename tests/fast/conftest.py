"""A fake issuer of tokens; and the extracts of the official providers, which are too large for the repository."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import httpcore2
import pytest

if TYPE_CHECKING:
    from tests.fast.service.http.auth.issuer import FakeIssuer

FACTS = "AGENTENV_FACTS"

# Each HTTP client reads the certificates of the system for 20 ms; no test reaches a server whose certificate they sign.
httpcore2.default_ssl_context = functools.cache(httpcore2.default_ssl_context)


@pytest.fixture(scope="session")
def facts() -> Path:
    """Return the folder of the extracts; skip the test without it."""
    folder = os.environ.get(FACTS)
    if not folder:
        pytest.skip(f"needs {FACTS}: the folder with extracts of the official providers' schemas and calls")
    return Path(folder)


@pytest.fixture
def issuer() -> Iterator[FakeIssuer]:
    """Serve an issuer of tokens."""
    from tests.fast.service.http.auth.issuer import FakeIssuer

    with closing(FakeIssuer()) as fake:
        yield fake
