"""Spans of requests, passes and calls, in the caller's trace, without owners or ids."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from agentenv.service.aws import clients as aws
from agentenv.service.loops.scheduler import Loop, PassResult, Scheduler
from agentenv.service.telemetry import traces
from tests.fast.service.http.application import ApiClient, run_with_api

PARENT = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(traces, "_TRACER", provider.get_tracer(traces.NAME))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    yield exporter
    provider.shutdown()


def span_named(spans: Sequence[ReadableSpan], name: str) -> ReadableSpan:
    return next(span_ for span_ in spans if span_.name == name)


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_a_request_and_its_claim_are_one_trace(exporter: InMemorySpanExporter) -> None:
    ids: list[str] = []

    async def act(api: ApiClient) -> None:
        api.stage.slot("warm-1")
        parent = {"traceparent": f"00-{PARENT}-00f067aa0ba902b7-01"}
        options = {"claims": {"team": "vetted"}, "headers": parent}
        response = await api.request("ann", "POST", "/workspaces", {"class": "standard"}, **options)
        assert response.status_code == 201
        ids.extend([response.json()["id"], response.json()["owner"]])

    run_with_api(act)
    spans = exporter.get_finished_spans()
    request = span_named(spans, "POST /v1/workspaces")
    assert attributes(request) == {
        "http.request.method": "POST",
        "http.route": "/v1/workspaces",
        "http.response.status_code": 201,
    }
    assert request.kind is SpanKind.SERVER
    claim = span_named(spans, "claim")
    assert attributes(claim) == {"class": "standard", "cold": False, "ready": True, "existed": False}
    assert claim.parent is not None
    assert request.context is not None
    assert claim.parent.span_id == request.context.span_id
    assert attributes(span_named(spans, "keep volume")) == {"class": "standard", "kept": True}
    create_request = span_named(spans, "POST sandboxclaims")
    assert (create_request.kind, attributes(create_request)["http.response.status_code"]) == (SpanKind.CLIENT, 201)
    own_spans = [span_ for span_ in spans if span_.context and span_.context.trace_id == int(PARENT, 16)]
    assert {request.name, claim.name, create_request.name} <= {span_.name for span_ in own_spans}
    text = "".join(span_.to_json() for span_ in own_spans)
    assert not [span_ for span_ in ids if span_ in text]


def test_probes_are_not_traced_and_spans_have_routes_without_ids(exporter: InMemorySpanExporter) -> None:
    async def act(api: ApiClient) -> None:
        assert (await api.client.get("/readyz")).status_code == 200
        assert (await api.request("ann", "GET", "/workspaces/w-nobodys0123456789")).status_code in {404, 422}
        assert (await api.request("ann", "GET", "/no/such/thing")).status_code == 404

    run_with_api(act)
    server = [span_ for span_ in exporter.get_finished_spans() if span_.kind is SpanKind.SERVER]
    assert [span_.name for span_ in server] == ["GET /v1/workspaces/{id}", "GET none"]


def test_a_pass_is_a_trace_of_its_own_with_its_error_type(exporter: InMemorySpanExporter) -> None:
    class FakeMetrics:
        def loop(self, name: str) -> Any:
            return traces.span(f"metrics of {name}")

    async def good(_: Any) -> PassResult:
        return PassResult(3)

    async def failing_pass(_: Any) -> PassResult:
        raise ValueError("a secret")

    async def play() -> None:
        scheduler = Scheduler([Loop("good", 10, good), Loop("bad", 10, failing_pass)], lambda: True, FakeMetrics())
        scheduler.turn()
        assert await scheduler.join(20)

    asyncio.run(play())
    spans = exporter.get_finished_spans()
    assert attributes(span_named(spans, "loop good")) == {"steps": 3}
    bad = span_named(spans, "loop bad")
    assert (bad.status.status_code, attributes(bad)) == (StatusCode.ERROR, {"error.type": "ValueError"})
    assert "a secret" not in bad.to_json()


def test_a_call_of_aws_is_a_span(exporter: InMemorySpanExporter) -> None:
    class Table:
        def put_item(self, **_: Any) -> dict[str, Any]:
            return {"ok": True}

    assert aws.call(Table(), "put_item", Item={"owner": "u-1"}) == {"ok": True}
    [span] = exporter.get_finished_spans()
    assert (span.name, span.kind, attributes(span)["rpc.method"]) == ("aws put_item", SpanKind.CLIENT, "put_item")
    assert "u-1" not in span.to_json()


def test_without_an_endpoint_the_sdk_is_not_imported() -> None:
    program = "import sys, agentenv.service.http.app, agentenv.service.__main__, agentenv.service.loops.runner\n"
    program += "from agentenv.service.telemetry import traces\n"
    program += (
        "traces.set_up(None, 'pod')\nprint([name for name in sys.modules if name.startswith('opentelemetry.sdk')])"
    )
    completed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert completed.stdout.strip() == "[]"
