"""Tests of the ledger's queries for the usage of a workspace, with a real Prometheus."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from agentenv.core.ledger.rows import Row
from agentenv.service.ledger.usage import Prometheus
from tests.live.metering import day
from tests.live.metering.server import PrometheusServer


def _row(claim: str, pod: str, began: int, ended: int) -> Row:
    midnight = datetime.fromtimestamp(day.BEGAN, UTC)
    return Row(
        owner="u-amy",
        claim=claim,
        pod=pod,
        began=midnight + timedelta(minutes=began),
        ended=midnight + timedelta(minutes=ended),
        sandbox_class="standard",
        workspace="w-slot-1",
    )


@pytest.fixture
def prometheus(metered: PrometheusServer, monkeypatch: pytest.MonkeyPatch) -> Prometheus:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return Prometheus(metered.address)


@pytest.mark.parametrize(("began", "ended", "cores"), [(480, 720, "0.4"), (500, 560, "0.4"), (780, 1020, "0.25")])
def test_a_row_gets_the_usage_of_its_claim(prometheus: Prometheus, began: int, ended: int, cores: str) -> None:
    row = _row("claim-slot-1", "slot-1-first" if ended <= 720 else "slot-1-again", began, ended)
    found = prometheus.used(row)
    assert found is not None
    cpu, memory, network = map(float, found)
    seconds = float(row.seconds)
    assert cpu == pytest.approx(float(cores) * seconds, rel=0.01)
    assert memory == pytest.approx(day.GIB / 2 * 0.7 * seconds, rel=0.01)
    assert network == pytest.approx(float(cores) * 55_000 * seconds, rel=0.01)


def test_warm_time_before_the_claim_is_not_counted(prometheus: Prometheus) -> None:
    assert prometheus.used(_row("claim-slot-1", "slot-1-first", 60, 470)) is None


def test_a_row_from_before_the_claim_has_no_usage(prometheus: Prometheus) -> None:
    assert prometheus.used(_row("claim-slot-1", "slot-1-first", 240, 720)) is None


def test_a_row_has_no_usage_of_others(prometheus: Prometheus) -> None:
    found = prometheus.used(_row("claim-bob", "bob-1-first", 600, 720))
    assert found is not None
    assert found[0] == pytest.approx(Decimal(360), rel=Decimal("0.01"))
