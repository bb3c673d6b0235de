"""Amounts of a row: from a Prometheus that saw all of it, else from what was set aside, and it says which."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from agentenv.core.ledger.holdings import Holding, Pod, Span
from agentenv.core.ledger.rows import Row
from agentenv.service.ledger.usage import CPU, MEMORY, NETWORK, REST_SECONDS, SLOW_SECONDS, Meter, Prometheus

NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
ROW = Row(owner="u-1", claim="c-1", pod="p-1", began=NOON, ended=NOON + HOUR, sandbox_class="s", workspace="w")
POD = Pod(uid="p-1", began=NOON, cores=Decimal("0.1"), memory_gib=Decimal("0.5"))
HELD = Holding(owner="u-1", claim="c-1", sandbox_class="s", workspace="w", since=NOON, pods=(POD,))
SPAN = Span(ROW, HELD, POD, None)


# What Prometheus says of a series that was divided by nothing, and of one that went wrong.
NO_AMOUNTS = [{"sums": {CPU: said, MEMORY: "1", NETWORK: "1"}} for said in ("NaN", "+Inf", "-Inf", "-1")]


@dataclass
class Saw:
    """What a Prometheus recorded: how many minutes, and the sum of each series."""

    minutes: int = 60
    sums: dict[str, str] = field(default_factory=lambda: {CPU: "30", MEMORY: str(60 * 2**30), NETWORK: "1000"})
    status: int = 200
    asked: list[dict[str, list[str]]] = field(default_factory=list)
    at: float = 0.0
    takes: float = 0.0

    def answer(self, query: str) -> str:
        if query.startswith("count_over_time"):
            return str(self.minutes)
        return next(said for name, said in self.sums.items() if name in query)


@pytest.fixture
def saw() -> Saw:
    return Saw()


@pytest.fixture
def prometheus(saw: Saw) -> Iterator[Prometheus]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = parse_qs(urlsplit(self.path).query)
            saw.asked.append(asked)
            saw.at += saw.takes
            value = saw.answer(asked["query"][0])
            result = [{"metric": {}, "value": [0, value]}] if value else []
            self.send_response(saw.status)
            self.end_headers()
            self.wfile.write(json.dumps({"status": "success", "data": {"result": result}}).encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is called
            """Not a word."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield Prometheus(f"http://127.0.0.1:{server.server_address[1]}", lambda: saw.at)
    server.shutdown()
    server.server_close()


def test_what_was_used_counts_where_it_is_more_than_what_was_set_aside(prometheus: Prometheus, saw: Saw) -> None:
    row = Meter(prometheus).row(SPAN)
    assert row.source == "prometheus/none"
    # Half a core for an hour, of which a tenth was set aside; a GiB, of which half was.
    assert (row.cpu_seconds, row.memory_gib_hours, row.network_bytes) == (1800, 1, 60_000)
    assert saw.asked[0]["time"] == [str(int(ROW.ended.timestamp()))]
    assert saw.asked[0]["query"] == [f'count_over_time({CPU}{{claim_uid="c-1"}}[3600s])']
    saw.sums |= {CPU: "0.6", MEMORY: str(2**20)}
    row = Meter(prometheus).row(SPAN)
    assert (row.cpu_seconds, row.memory_gib_hours, row.source) == (360, Decimal("0.5"), "prometheus/none")


def test_minutes_that_nobody_saw_were_like_the_others(prometheus: Prometheus, saw: Saw) -> None:
    saw.minutes, saw.sums[CPU] = 54, "27"
    assert Meter(prometheus).row(SPAN).cpu_seconds == 1800


@pytest.mark.parametrize(
    "trouble", [{"minutes": 53}, {"minutes": 0}, {"status": 503}, {"sums": {CPU: "no", MEMORY: "1"}}, *NO_AMOUNTS]
)
def test_where_it_saw_too_little_what_was_set_aside_stands(
    prometheus: Prometheus, saw: Saw, trouble: dict[str, object]
) -> None:
    for name, value in trouble.items():
        setattr(saw, name, value)
    row = Meter(prometheus).row(SPAN)
    assert (row.cpu_seconds, row.memory_gib_hours, row.source) == (360, Decimal("0.5"), "requests/none")


def test_a_claim_is_asked_for_by_nothing_but_a_uid(prometheus: Prometheus, saw: Saw) -> None:
    odd = Row(
        owner="u-1", claim='c"} or vector(1', pod="p", began=NOON, ended=NOON + HOUR, sandbox_class="s", workspace="w"
    )
    assert prometheus.used(odd) is None
    assert saw.asked == []
    with pytest.raises(ValueError, match="not the URL"):
        Prometheus("file:///etc")


def test_one_that_does_not_answer_is_left_alone_for_a_while(prometheus: Prometheus, saw: Saw) -> None:
    saw.status = 503
    # Of all the other rows of a pass nobody waits for it again.
    assert [prometheus.used(ROW) for _ in range(4)] == [None] * 4
    assert len(saw.asked) == 1
    saw.status = 200
    saw.at += REST_SECONDS
    assert prometheus.used(ROW) is not None
    # One that says that a question is wrong does answer, and is asked about other rows.
    saw.status, before = 422, len(saw.asked)
    assert [prometheus.used(ROW) for _ in range(3)] == [None] * 3
    assert len(saw.asked) == before + 3


def test_one_that_takes_its_time_over_a_row_is_left_alone_too(prometheus: Prometheus, saw: Saw) -> None:
    saw.takes = SLOW_SECONDS / 2
    assert prometheus.used(ROW) is not None
    before = len(saw.asked)
    assert prometheus.used(ROW) is None
    assert len(saw.asked) == before
    saw.takes = 0
    saw.at += REST_SECONDS
    assert prometheus.used(ROW) is not None


def test_it_is_in_the_cluster_whatever_a_proxy_around_the_process_says(
    prometheus: Prometheus, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert prometheus.used(ROW) is not None
