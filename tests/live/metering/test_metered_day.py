"""Tests of rules and panels over a day with known usage, in a real Prometheus."""

from __future__ import annotations

import re

import pytest

from agentenv.core.metering.alarms import alarm_group
from agentenv.core.metering.dashboards import DASHBOARDS
from agentenv.core.metering.exporters import EXPORTERS
from agentenv.core.metering.panel import Panel
from agentenv.core.metering.rules import rules
from tests.live.metering import day
from tests.live.metering.backfill import ENDED
from tests.live.metering.conftest import TARIFF
from tests.live.metering.server import PrometheusServer

PANELS = [
    pytest.param(panel, query.expr, id=f"{shown.name}: {panel.title} {place}")
    for shown in DASHBOARDS
    for panel in shown.panels()
    for place, query in enumerate(panel.queries)
]
RECORDED = {rule.record for rule in rules(TARIFF)}
EXPORTED = {series for exporter in EXPORTERS for series in exporter.series()}
LAST = ENDED - 60
AFTERNOON = day.BEGAN + 15 * 3600  # users of each kind are there


def chosen(expr: str) -> str:
    """Return a panel's query with chosen variables."""
    return expr.replace("$class", ".+").replace("$user", "u-amy")


def _values(prometheus: PrometheusServer, panel: Panel, expr: str) -> list[float]:
    if panel.kind in {"number", "ranking"}:
        found = [series["value"] for series in prometheus.at(chosen(expr), AFTERNOON)]
    else:
        step = 86400 if panel.kind == "days" else 600
        began = LAST if panel.kind == "days" else day.BEGAN
        found = [pair for series in prometheus.over(chosen(expr), began, LAST, step) for pair in series["values"]]
    return [float(value) for _, value in found]


@pytest.mark.parametrize(("panel", "expr"), PANELS)
def test_every_panel_shows_numbers(metered: PrometheusServer, panel: Panel, expr: str) -> None:
    values = _values(metered, panel, expr)
    assert any(value == value for value in values), f"'{panel.title}' shows nothing: {chosen(expr)}"  # noqa: PLR0124 - not a NaN


def _names(node: object) -> set[str]:
    """Yield the metrics of a parsed expression."""
    if isinstance(node, list):
        return {name for part in node for name in _names(part)}
    if not isinstance(node, dict):
        return set()
    own = {node["name"]} if node.get("type") in {"vectorSelector", "matrixSelector"} and node.get("name") else set()
    return own | {name for part in node.values() for name in _names(part)}


def test_every_used_metric_is_exported_or_recorded(metered: PrometheusServer) -> None:
    metric_names: set[str] = set()
    alarms = [alarm["expr"] for alarm in alarm_group(3)["rules"]]
    for expr in [*(rule.expr for rule in rules(TARIFF)), *(parameter.values[1] for parameter in PANELS), *alarms]:
        metric_names |= _names(metered.get("parse_query", query=chosen(str(expr))))
    # Prometheus itself records the alarms that fire.
    assert metric_names - EXPORTED - RECORDED == {"ALERTS"}
    # Without panels: unattributed usage, and traffic of warm sandboxes
    for_the_curious = {record for record in RECORDED if record.startswith("sandbox:nobody_")}
    assert RECORDED - metric_names - for_the_curious == {"sandbox:pool_network_bytes:rate1m"}, "exported but not used"


def test_the_day_has_metrics_of_known_exporters(metered: PrometheusServer) -> None:
    names = set(metered.get("label/__name__/values"))
    assert names - RECORDED - EXPORTED == set()
    assert names >= RECORDED


def test_each_user_is_charged_their_usage(metered: PrometheusServer) -> None:
    found = {
        series["metric"]["user"]: float(series["value"][1])
        for series in metered.at("sum by (user) (sum_over_time(sandbox:owner_cpu_seconds:rate1m[1d])) * 60", LAST)
    }
    [waited] = metered.at("sum(sum_over_time(sandbox:pool_cpu_seconds:rate1m[1d])) * 60", LAST)
    known = day.truth()
    for user, seconds in known.items():
        mine = found.pop(user) if user else float(waited["value"][1])
        assert mine == pytest.approx(seconds, rel=0.01), user or "the pool"
    assert found == {}


def test_warm_time_is_charged_to_no_user(metered: PrometheusServer) -> None:
    before = day.BEGAN + 479 * 60
    assert metered.at('sum_over_time(sandbox:owner_cpu_seconds:rate1m{user="u-amy"}[8h])', before) == []
    [pooled] = metered.at('sum(sum_over_time(sandbox:pool_cpu_seconds:rate1m{pod="slot-1"}[1d])) * 60', LAST)
    assert float(pooled["value"][1]) == pytest.approx(480 * 60 * 0.01, rel=0.02)


def test_lines_add_up_to_the_cost_of_every_minute(metered: PrometheusServer) -> None:
    spent = (
        'sum(sandbox:node_dollars:per_hour{instance_type!=""} or sandbox:node_dollars:per_hour{node=~"fargate.+"})'
        f" + {sum(day.HOMES.values()) / day.GIB * 0.001} + 0.1"
    )
    lines = metered.over("sum(sandbox:dollars:per_hour)", day.BEGAN + 60, LAST, 60)
    truth = metered.over(spent, day.BEGAN + 60, LAST, 60)
    [ours], [theirs] = lines, truth
    assert len(ours["values"]) == day.MINUTES - 1
    for (moment, value), (_, known) in zip(ours["values"], theirs["values"], strict=True):
        assert float(value) == pytest.approx(float(known), abs=1e-9), moment


def test_shared_costs_are_fully_divided_among_users(metered: PrometheusServer) -> None:
    for share in ("idle", "pool", "fixed"):
        [share_total] = metered.at(f'sum(sandbox:user_share_dollars:per_hour{{share="{share}"}})', AFTERNOON)
        [whole] = metered.at(f'sandbox:dollars:per_hour{{share="{share}"}}', AFTERNOON)
        assert float(share_total["value"][1]) == pytest.approx(float(whole["value"][1]), rel=1e-9), share


def test_a_user_with_files_only_pays_for_storage(metered: PrometheusServer) -> None:
    [files] = metered.at('sandbox:user_storage_dollars:per_hour{user="u-eve"}', AFTERNOON)
    assert float(files["value"][1]) == pytest.approx(0.007)
    assert metered.at('sandbox:user_dollars:per_hour{user="u-eve"}', AFTERNOON) == []
    [share] = metered.at('sandbox:user_share_dollars:per_hour{user="u-eve"}', AFTERNOON)
    assert share["metric"]["share"] == "fixed"


def test_labels_of_the_service_are_not_users(metered: PrometheusServer) -> None:
    for name in metered.get("label/__name__/values"):
        if name.startswith("agentenv_"):
            for series in metered.get("series", **{"match[]": name, "start": str(day.BEGAN), "end": str(LAST)}):
                assert not any(re.fullmatch(r"u-[a-z]+", value) for value in series.values()), series
