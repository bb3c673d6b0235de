"""Traces by OpenTelemetry: off unless somebody says where they go.

Without an endpoint the API's own tracer is used, which does nothing, and its SDK is not even imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opentelemetry import trace

NAME = "workspace-service"


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
    """Whoever makes spans asks here: `with tracer().start_as_current_span("claim"): ...`."""
    return trace.get_tracer(NAME)
