"""Render charts for the provider's cluster, or record those that are not available."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentenv.rehearsal.providers.common import unsimulated
from agentenv.rehearsal.providers.kubernetes import charts
from agentenv.rehearsal.providers.kubernetes.charts import Chart, ChartUnavailable, Rendered, Rendering
from agentenv.rehearsal.providers.kubernetes.client import ApiError, Unreachable
from agentenv.rehearsal.providers.kubernetes.provider import Provider
from agentenv.rehearsal.providers.kubernetes.reach import ClusterUnreachable
from agentenv.rehearsal.providers.kubernetes.values import Path


def template(provider: Provider, options: Mapping[str, Any]) -> Rendered | None:
    """Return the objects of a chart, or None if it is not available and was recorded."""
    try:
        chart = charts.find(str(options["chart"]), str(options.get("version") or ""))
        return render_chart(provider, chart, options)
    except ChartUnavailable as error:
        record_unavailable(options, frozenset(), str(error))
        return None


def render_chart(provider: Provider, chart: Chart, options: Mapping[str, Any]) -> Rendered:
    """Render a chart with its values, and with the cluster's capabilities if it is reachable."""
    name, place, values = str(options["name"]), str(options["namespace"]), charts.values_of(options)
    try:
        cluster = provider.cluster()
        version, apis = cluster.version(), cluster.discovery.versions()
    except (ClusterUnreachable, ApiError, Unreachable):
        return charts.render(chart, Rendering(name, place, values))
    return charts.render(chart, Rendering(name, place, values, version, apis))


def record_unavailable(options: Mapping[str, Any], secrets: frozenset[Path], why: str) -> None:
    """Record a chart that is not available. Without a rehearsal that is an error."""
    if not unsimulated.is_recording():
        raise ChartUnavailable(why)
    details = {
        **{key: options.get(key) or "" for key in ("name", "namespace", "chart", "version")},
        "repository": (options.get("repositoryOpts") or {}).get("repo") or "",
        "values": _without(options.get("values") or {}, ("values",), secrets),
        "why": why,
    }
    unsimulated.record(f"helm chart {options['chart']}", details)


def _without(value: Any, path: Path, secrets: frozenset[Path]) -> Any:
    """Return the values with secrets redacted."""
    if any(path[: len(secret)] == secret for secret in secrets):
        return "[secret]"
    if isinstance(value, Mapping):
        return {k: _without(v, (*path, k), secrets) for k, v in value.items()}
    if isinstance(value, list):
        return [_without(v, (*path, i), secrets) for i, v in enumerate(value)]
    return value
