"""Charts rendered for the provider's cluster, or told of where they cannot be had."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentenv.rehearsal.providers.common import unsimulated
from agentenv.rehearsal.providers.kubernetes import charts
from agentenv.rehearsal.providers.kubernetes.charts import Chart, NotHad, Rendered, Rendering
from agentenv.rehearsal.providers.kubernetes.client import ApiError, Unreachable
from agentenv.rehearsal.providers.kubernetes.provider import Provider
from agentenv.rehearsal.providers.kubernetes.reach import Unreached
from agentenv.rehearsal.providers.kubernetes.values import Path


def template(provider: Provider, asked: Mapping[str, Any]) -> Rendered | None:
    """A chart's objects; None when it cannot be had and a rehearsal has been told so."""
    try:
        chart = charts.find(str(asked["chart"]), str(asked.get("version") or ""))
        return rendered(provider, chart, asked)
    except NotHad as error:
        pretend(asked, frozenset(), str(error))
        return None


def rendered(provider: Provider, chart: Chart, asked: Mapping[str, Any]) -> Rendered:
    """The chart with the values asked for, and with what the cluster can do, if it can be asked."""
    name, place, values = str(asked["name"]), str(asked["namespace"]), charts.values_of(asked)
    try:
        cluster = provider.cluster()
        version, apis = cluster.version(), cluster.discovery.versions()
    except (Unreached, ApiError, Unreachable):
        return charts.render(chart, Rendering(name, place, values))
    return charts.render(chart, Rendering(name, place, values, version, apis))


def pretend(asked: Mapping[str, Any], secrets: frozenset[Path], why: str) -> None:
    """Record a chart that cannot be had; where nobody listens, nothing is pretended."""
    if not unsimulated.is_recording():
        raise NotHad(why)
    details = {
        **{key: asked.get(key) or "" for key in ("name", "namespace", "chart", "version")},
        "repository": (asked.get("repositoryOpts") or {}).get("repo") or "",
        "values": _without(asked.get("values") or {}, ("values",), secrets),
        "why": why,
    }
    unsimulated.record(f"helm chart {asked['chart']}", details)


def _without(value: Any, path: Path, secrets: frozenset[Path]) -> Any:
    """The values with their secrets blacked out."""
    if any(path[: len(secret)] == secret for secret in secrets):
        return "[secret]"
    if isinstance(value, Mapping):
        return {k: _without(v, (*path, k), secrets) for k, v in value.items()}
    if isinstance(value, list):
        return [_without(v, (*path, i), secrets) for i, v in enumerate(value)]
    return value
