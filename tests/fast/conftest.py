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

from tests import file_order

if TYPE_CHECKING:
    from tests.fast.service.http.auth.issuer import FakeIssuer

FACTS = "AGENTENV_FACTS"
# Files that take more than four seconds, and those of the last folders
LONG = (
    "components/test_stack_files.py",
    "components/test_environment.py",
    "cli/preflight/test_example_stacks.py",
    "rehearsal/providers/aws/test_aws_protocol.py",
    "core/classes/test_network_gate.py",
    "service/e2b/test_client.py",
    "cli/test_main.py",
    "service/http/test_connection_limits.py",
    "rehearsal/providers/aws/test_aws_rows.py",
    "service/test_odd_objects.py",
    "service/ledger/test_record.py",
    "workflows/test_workflows.py",
    "test_gate.py",
    "test_package.py",
    "test_frozen.py",
    "test_names.py",
    "test_documents.py",
)

# Each HTTP client reads the certificates of the system for 20 ms; no test reaches a server whose certificate they sign.
httpcore2.default_ssl_context = functools.cache(httpcore2.default_ssl_context)


def pytest_configure(config: pytest.Config) -> None:
    file_order.keep_order(config)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    file_order.begin_with(items, Path(__file__).parent, LONG)


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
