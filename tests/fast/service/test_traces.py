"""Traces tell what a request and a pass took and whom they asked, in the caller's own trace, and nothing of a user."""

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
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(traces, "_TRACER", provider.get_tracer(traces.NAME))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    yield exporter
    provider.shutdown()


def named(spans: Sequence[ReadableSpan], name: str) -> ReadableSpan:
    return next(one for one in spans if one.name == name)


def told(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_a_request_its_claim_and_what_is_asked_for_it_are_one_trace(kept: InMemorySpanExporter) -> None:
    ids: list[str] = []

    async def act(api: ApiClient) -> None:
        api.stage.slot("warm-1")
        parent = {"traceparent": f"00-{PARENT}-00f067aa0ba902b7-01"}
        said = {"claims": {"team": "vetted"}, "headers": parent}
        made = await api.request("ann", "POST", "/workspaces", {"class": "standard"}, **said)
        assert made.status_code == 201
        ids.extend([made.json()["id"], made.json()["owner"]])

    run_with_api(act)
    spans = kept.get_finished_spans()
    request = named(spans, "POST /v1/workspaces")
    assert told(request) == {
        "http.request.method": "POST",
        "http.route": "/v1/workspaces",
        "http.response.status_code": 201,
    }
    assert request.kind is SpanKind.SERVER
    claim = named(spans, "claim")
    assert told(claim) == {"class": "standard", "cold": False, "ready": True, "existed": False}
    assert claim.parent is not None
    assert request.context is not None
    assert claim.parent.span_id == request.context.span_id
    assert told(named(spans, "keep volume")) == {"class": "standard", "kept": True}
    asked = named(spans, "POST sandboxclaims")
    assert (asked.kind, told(asked)["http.response.status_code"]) == (SpanKind.CLIENT, 201)
    ours = [one for one in spans if one.context and one.context.trace_id == int(PARENT, 16)]
    assert {request.name, claim.name, asked.name} <= {one.name for one in ours}
    written = "".join(one.to_json() for one in ours)
    assert not [one for one in ids if one in written]


def test_probes_leave_no_trace_and_nobodys_request_is_told_by_what_it_names(kept: InMemorySpanExporter) -> None:
    async def act(api: ApiClient) -> None:
        assert (await api.client.get("/readyz")).status_code == 200
        assert (await api.request("ann", "GET", "/workspaces/w-nobodys0123456789")).status_code in {404, 422}
        assert (await api.request("ann", "GET", "/no/such/thing")).status_code == 404

    run_with_api(act)
    server = [one for one in kept.get_finished_spans() if one.kind is SpanKind.SERVER]
    assert [one.name for one in server] == ["GET /v1/workspaces/{id}", "GET none"]


def test_a_pass_is_a_trace_of_its_own_and_says_how_it_failed(kept: InMemorySpanExporter) -> None:
    class Counting:
        def loop(self, name: str) -> Any:
            return traces.span(f"metrics of {name}")

    async def good(_: Any) -> PassResult:
        return PassResult(3)

    async def broken(_: Any) -> PassResult:
        raise ValueError("a secret")

    async def play() -> None:
        scheduler = Scheduler([Loop("good", 10, good), Loop("bad", 10, broken)], lambda: True, Counting())
        scheduler.turn()
        assert await scheduler.join(20)

    asyncio.run(play())
    spans = kept.get_finished_spans()
    assert told(named(spans, "loop good")) == {"steps": 3}
    bad = named(spans, "loop bad")
    assert (bad.status.status_code, told(bad)) == (StatusCode.ERROR, {"error.type": "ValueError"})
    assert "a secret" not in bad.to_json()


def test_what_aws_is_asked_is_a_span(kept: InMemorySpanExporter) -> None:
    class Table:
        def put_item(self, **_: Any) -> dict[str, Any]:
            return {"ok": True}

    assert aws.call(Table(), "put_item", Item={"owner": "u-1"}) == {"ok": True}
    [span] = kept.get_finished_spans()
    assert (span.name, span.kind, told(span)["rpc.method"]) == ("aws put_item", SpanKind.CLIENT, "put_item")
    assert "u-1" not in span.to_json()


def test_without_an_endpoint_nothing_of_the_sdk_is_imported() -> None:
    said = "import sys, agentenv.service.http.app, agentenv.service.__main__, agentenv.service.loops.runner\n"
    said += "from agentenv.service.telemetry import traces\n"
    said += "traces.set_up(None, 'pod')\nprint([one for one in sys.modules if one.startswith('opentelemetry.sdk')])"
    ran = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
