"""Amounts of a row: from Prometheus where it has samples, otherwise from requests; the source says which."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from agentenv.core.ledger.holdings import Holding, Pod, Span
from agentenv.core.ledger.rows import Row
from agentenv.service.aws.remote import DEADLINE_SECONDS
from agentenv.service.ledger.usage import (
    CPU,
    MEMORY,
    NETWORK,
    REST_SECONDS,
    SLOW_SECONDS,
    TIMEOUT_SECONDS,
    Meter,
    Prometheus,
)
from tests.stub_server import Request, Response, stub_server

NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
ROW = Row(owner="u-1", claim="c-1", pod="p-1", began=NOON, ended=NOON + HOUR, sandbox_class="s", workspace="w")
POD = Pod(uid="p-1", began=NOON, cores=Decimal("0.1"), memory_gib=Decimal("0.5"))
HELD = Holding(owner="u-1", claim="c-1", sandbox_class="s", workspace="w", since=NOON, pods=(POD,))
SPAN = Span(ROW, HELD, POD, None)


# The values of series that Prometheus divided by zero, and of invalid ones.
NO_AMOUNTS = [{"sums": {CPU: value, MEMORY: "1", NETWORK: "1"}} for value in ("NaN", "+Inf", "-Inf", "-1")]


@dataclass
class FakePrometheus:
    """The samples of a Prometheus: the number of minutes, and the sum of each series."""

    minutes: int = 60
    sums: dict[str, str] = field(default_factory=lambda: {CPU: "30", MEMORY: str(60 * 2**30), NETWORK: "1000"})
    status: int = 200
    queries: list[dict[str, list[str]]] = field(default_factory=list)
    at: float = 0.0
    takes: float = 0.0

    def answer(self, query: str) -> str:
        if query.startswith("count_over_time"):
            return str(self.minutes)
        return next(value for name, value in self.sums.items() if name in query)


@pytest.fixture
def fake() -> FakePrometheus:
    return FakePrometheus()


@pytest.fixture
def prometheus(fake: FakePrometheus) -> Iterator[Prometheus]:
    def respond(request: Request) -> Response:
        fake.queries.append(request.query)
        fake.at += fake.takes
        value = fake.answer(request.query["query"][0])
        result = [{"metric": {}, "value": [0, value]}] if value else []
        return Response(fake.status, {"status": "success", "data": {"result": result}})

    with stub_server(respond) as port:
        yield Prometheus(f"http://127.0.0.1:{port}", lambda: fake.at)


def test_usage_counts_where_it_exceeds_the_requests(prometheus: Prometheus, fake: FakePrometheus) -> None:
    row = Meter(prometheus).row(SPAN)
    assert row.source == "prometheus/none"
    # Half a core for an hour, of which a tenth was requested; a GiB, of which half was.
    assert (row.cpu_seconds, row.memory_gib_hours, row.network_bytes) == (1800, 1, 60_000)
    assert fake.queries[0]["time"] == [str(int(ROW.ended.timestamp()))]
    assert fake.queries[0]["query"] == [f'count_over_time({CPU}{{claim_uid="c-1"}}[3600s])']
    fake.sums |= {CPU: "0.6", MEMORY: str(2**20)}
    row = Meter(prometheus).row(SPAN)
    assert (row.cpu_seconds, row.memory_gib_hours, row.source) == (360, Decimal("0.5"), "prometheus/none")


def test_missing_minutes_count_like_the_others(prometheus: Prometheus, fake: FakePrometheus) -> None:
    fake.minutes, fake.sums[CPU] = 54, "27"
    assert Meter(prometheus).row(SPAN).cpu_seconds == 1800


@pytest.mark.parametrize(
    "trouble", [{"minutes": 53}, {"minutes": 0}, {"status": 503}, {"sums": {CPU: "no", MEMORY: "1"}}, *NO_AMOUNTS]
)
def test_requests_count_where_samples_are_missing(
    prometheus: Prometheus, fake: FakePrometheus, trouble: dict[str, object]
) -> None:
    for name, value in trouble.items():
        setattr(fake, name, value)
    row = Meter(prometheus).row(SPAN)
    assert (row.cpu_seconds, row.memory_gib_hours, row.source) == (360, Decimal("0.5"), "requests/none")


def test_only_a_uid_is_put_into_a_query(prometheus: Prometheus, fake: FakePrometheus) -> None:
    odd = Row(
        owner="u-1", claim='c"} or vector(1', pod="p", began=NOON, ended=NOON + HOUR, sandbox_class="s", workspace="w"
    )
    assert prometheus.used(odd) is None
    assert fake.queries == []
    with pytest.raises(ValueError, match="not the URL"):
        Prometheus("file:///etc")


def test_a_prometheus_that_fails_is_not_queried_for_a_while(prometheus: Prometheus, fake: FakePrometheus) -> None:
    fake.status = 503
    # The other rows of a pass do not wait for it.
    assert [prometheus.used(ROW) for _ in range(4)] == [None] * 4
    assert len(fake.queries) == 1
    fake.status = 200
    fake.at += REST_SECONDS
    assert prometheus.used(ROW) is not None
    # A Prometheus that refuses a query does answer, and is queried for other rows.
    fake.status, before = 422, len(fake.queries)
    assert [prometheus.used(ROW) for _ in range(3)] == [None] * 3
    assert len(fake.queries) == before + 3


def test_a_slow_prometheus_is_not_queried_for_a_while(prometheus: Prometheus, fake: FakePrometheus) -> None:
    fake.takes = SLOW_SECONDS / 2
    assert prometheus.used(ROW) is not None
    before = len(fake.queries)
    assert prometheus.used(ROW) is None
    assert len(fake.queries) == before
    fake.takes = 0
    fake.at += REST_SECONDS
    assert prometheus.used(ROW) is not None


def test_prometheus_is_queried_without_a_proxy(prometheus: Prometheus, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert prometheus.used(ROW) is not None


def test_prometheus_that_hangs_gives_up_before_the_deadline_of_the_ledger() -> None:
    assert SLOW_SECONDS + TIMEOUT_SECONDS < DEADLINE_SECONDS
