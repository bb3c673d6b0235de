"""Traces by OpenTelemetry: what a request, a claim, a pass of a loop, and what each of them asks of others, took.

They are off unless somebody says where they go: without an endpoint the API's own tracer is used, which does nothing,
and its SDK is not even imported. No span holds a user, a token, or what was said in an error: only what kind it was.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

if TYPE_CHECKING:
    from opentelemetry.context import Context

NAME = "workspace-service"
# Those of a request from elsewhere, by which its trace goes on here.
_PARENT = ("traceparent", "tracestate")
_TRACER: Any = trace.get_tracer(NAME)


def set_up(endpoint: str | None, replica: str) -> Callable[[], None]:
    """Send traces to an OTLP endpoint over HTTP, if there is one; returns what to call at the end."""
    if not endpoint:
        return lambda: None
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=Resource.create({"service.name": NAME, "service.instance.id": replica}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces")))
    trace.set_tracer_provider(provider)
    return provider.shutdown


def tracer() -> Any:
    """That of all spans here."""
    return _TRACER


@contextmanager
def span(name: str, /, **attributes: str | int | bool) -> Generator[Span]:
    """A span of our own work, within whichever is under way."""
    with _start_span(name, SpanKind.INTERNAL, attributes) as current:
        yield current


@contextmanager
def client_span(name: str, /, attributes: dict[str, str | int | bool]) -> Generator[Span]:
    """A span of what is asked of somebody else."""
    with _start_span(name, SpanKind.CLIENT, attributes) as current:
        yield current


@contextmanager
def server_span(name: str, headers: Iterable[tuple[bytes, bytes]]) -> Generator[Span]:
    """A span of a request, within the caller's own trace where there is one."""
    carrier = {
        key.decode("latin-1"): value.decode("latin-1") for key, value in headers if key.decode("latin-1") in _PARENT
    }
    within = TraceContextTextMapPropagator().extract(carrier)
    with _start_span(name, SpanKind.SERVER, {}, within) as current:
        yield current


@contextmanager
def _start_span(
    name: str, kind: SpanKind, attributes: dict[str, str | int | bool], within: Context | None = None
) -> Generator[Span]:
    # What an error says may hold anything; its kind is enough to find it in the log.
    quiet = {"record_exception": False, "set_status_on_exception": False}
    with _TRACER.start_as_current_span(name, within, kind, attributes=attributes, **quiet) as current:
        try:
            yield current
        except Exception as failure:
            failed(current, type(failure).__name__)
            raise


def failed(span_: Span, kind: str) -> None:
    """Have a span say that it failed, and by what kind of error."""
    span_.set_attribute("error.type", kind)
    span_.set_status(StatusCode.ERROR)
