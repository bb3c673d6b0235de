"""A relay of the connections of sandboxes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentenv.local.sandboxes.relay import Relay


@pytest.fixture
def relay() -> Iterator[Relay]:
    relay = Relay()
    yield relay
    relay.stop()
