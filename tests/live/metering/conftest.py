"""Prometheus and its tools, and a day of metrics with the recorded series."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from decimal import Decimal

import pytest

from agentenv.core.metering.rule import EVERY
from agentenv.core.metering.tariff import Tariff
from agentenv.rehearsal.tools import ensure
from agentenv.rehearsal.tools.progress import Lines
from agentenv.rehearsal.tools.toolbox import Toolbox
from tests.live.metering.backfill import fill
from tests.live.metering.server import PrometheusServer, serving

# Prices with simple results: $0.001 a GiB and hour, $0.10 an hour
TARIFF = Tariff(
    storage=Decimal("0.73"),
    fixed={"control plane": Decimal(73)},
    monthly_budget=Decimal(300),
    per_user_cap=Decimal(3),
)


@pytest.fixture(scope="session")
def metering_tools() -> Toolbox:
    return ensure(["prometheus", "promtool"], Lines(sys.stderr))


@pytest.fixture(scope="session")
def metered(metering_tools: Toolbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    """A Prometheus with the metrics of the day."""
    folder = tmp_path_factory.mktemp("metered")
    data = fill(metering_tools, folder, TARIFF)
    with serving(metering_tools.path("prometheus"), data, folder, EVERY) as prometheus:
        yield prometheus
