"""Traces tell what a request and a pass took and whom they asked, in the caller's own trace, and nothing of a user."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import httpx2
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from service import aws
from service.api.parts import Parts
from service.app import application
from service.auth.authenticating import Authenticating
from service.auth.issuer import Issuer
from service.auth.limits import Limits
from service.auth.reviews import Reviews
from service.loops.scheduler import Done, Loop, Scheduler
from service.telemetry import traces
from tests.fast.service.auth.issuing import AUDIENCE, Issuing
from tests.fast.service.backend.stage import Stage, staged

PARENT = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(traces, "_TRACER", provider.get_tracer(traces.NAME))
    yield exporter
    provider.shutdown()


def served(act: Callable[[httpx2.AsyncClient, Stage], Awaitable[None]]) -> None:
    """Ask the whole of the API, on a stage, as ann."""
    issuing = Issuing()

    async def play() -> None:
        async with staged({"name": "standard"}) as stage, httpx2.AsyncClient(trust_env=False) as plain:
            said = stage.catalog.settings.service
            app = application(None, stage.metrics)
            app.state.parts = Parts(
                backend=stage.backend,
                catalog=stage.catalog,
                authenticating=Authenticating(
                    said, Issuer(issuing.url, AUDIENCE, plain), Reviews(stage.wire, AUDIENCE)
                ),
                limits=Limits(100_000),
                metrics=stage.metrics,
            )
            headers = {"Authorization": f"Bearer {issuing.token('ann', team='vetted')}"}
            around = httpx2.ASGITransport(app=app)
            async with httpx2.AsyncClient(transport=around, base_url="http://here", headers=headers) as client:
                await act(client, stage)

    try:
        asyncio.run(play())
    finally:
        issuing.close()


def named(spans: Sequence[ReadableSpan], name: str) -> ReadableSpan:
    return next(one for one in spans if one.name == name)


def told(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_a_request_its_claim_and_what_is_asked_for_it_are_one_trace(kept: InMemorySpanExporter) -> None:
    ids: list[str] = []

    async def act(client: httpx2.AsyncClient, stage: Stage) -> None:
        stage.slot("warm-1")
        parent = {"traceparent": f"00-{PARENT}-00f067aa0ba902b7-01"}
        made = await client.post("/v1/workspaces", json={"class": "standard"}, headers=parent)
        assert made.status_code == 201
        ids.extend([made.json()["id"], made.json()["owner"]])

    served(act)
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
    async def act(client: httpx2.AsyncClient, stage: Stage) -> None:
        assert (await client.get("/readyz")).status_code == 200
        assert (await client.get("/v1/workspaces/w-nobodys0123456789")).status_code in {404, 422}
        assert (await client.get("/v1/no/such/thing")).status_code == 404
        assert stage

    served(act)
    server = [one for one in kept.get_finished_spans() if one.kind is SpanKind.SERVER]
    assert [one.name for one in server] == ["GET /v1/workspaces/{id}", "GET none"]


def test_a_pass_is_a_trace_of_its_own_and_says_how_it_failed(kept: InMemorySpanExporter) -> None:
    class Counting:
        def loop(self, name: str) -> Any:
            return traces.span(f"metrics of {name}")

    def broken(_: Any) -> Done:
        raise ValueError("a secret")

    loops = [Loop("good", 10, lambda _: Done(3)), Loop("bad", 10, broken)]
    scheduler = Scheduler(loops, lambda: True, Counting())
    scheduler.turn()
    assert scheduler.join(20)
    spans = kept.get_finished_spans()
    assert told(named(spans, "loop good")) == {"steps": 3}
    bad = named(spans, "loop bad")
    assert (bad.status.status_code, told(bad)) == (StatusCode.ERROR, {"error.type": "ValueError"})
    assert "a secret" not in bad.to_json()


def test_what_aws_is_asked_is_a_span(kept: InMemorySpanExporter) -> None:
    class Table:
        def put_item(self, **_: Any) -> dict[str, Any]:
            return {"ok": True}

    assert aws.ask(Table(), "put_item", Item={"owner": "u-1"}) == {"ok": True}
    [span] = kept.get_finished_spans()
    assert (span.name, span.kind, told(span)["rpc.method"]) == ("aws put_item", SpanKind.CLIENT, "put_item")
    assert "u-1" not in span.to_json()


def test_without_an_endpoint_nothing_of_the_sdk_is_imported() -> None:
    said = "import sys, service.app, service.__main__, service.loops.running; from service.telemetry import traces\n"
    said += "traces.set_up(None, 'pod')\nprint([one for one in sys.modules if one.startswith('opentelemetry.sdk')])"
    ran = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
