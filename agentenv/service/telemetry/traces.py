"""OpenTelemetry traces of requests, claims, passes of loops, and their calls to the API server and AWS.

They are off without an endpoint: the no-op tracer is used and the SDK is not imported. No span holds an owner, a token
or an error message; an error is recorded by its type.
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
# The request headers that continue the caller's trace.
_PARENT = ("traceparent", "tracestate")
_TRACER: Any = trace.get_tracer(NAME)


def set_up(endpoint: str | None, replica: str) -> Callable[[], None]:
    """Send traces to an OTLP endpoint over HTTP, if there is one; return the function that flushes them at exit."""
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
    """Return the tracer of all spans."""
    return _TRACER


@contextmanager
def span(name: str, /, **attributes: str | int | bool) -> Generator[Span]:
    """Start a span of internal work, below the current span."""
    with _start_span(name, SpanKind.INTERNAL, attributes) as current:
        yield current


@contextmanager
def client_span(name: str, /, attributes: dict[str, str | int | bool]) -> Generator[Span]:
    """Start a span of a request to another service."""
    with _start_span(name, SpanKind.CLIENT, attributes) as current:
        yield current


@contextmanager
def server_span(name: str, headers: Iterable[tuple[bytes, bytes]]) -> Generator[Span]:
    """Start a span of a request, in the caller's trace where the headers name one."""
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
    # An error's message may hold anything; its type is enough to find it in the log.
    quiet = {"record_exception": False, "set_status_on_exception": False}
    with _TRACER.start_as_current_span(name, within, kind, attributes=attributes, **quiet) as current:
        try:
            yield current
        except Exception as failure:
            failed(current, type(failure).__name__)
            raise


def failed(span_: Span, kind: str) -> None:
    """Mark a span as failed, with the type of the error."""
    span_.set_attribute("error.type", kind)
    span_.set_status(StatusCode.ERROR)
