"""Tests of recording rules, panels and exporters: their order, and that the service has their metrics."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest
import yaml

from agentenv.cli.generated.grafana import dashboard_text
from agentenv.components.cluster.addons import CONFIGURATION
from agentenv.core.metering.dashboards import DASHBOARDS
from agentenv.core.metering.exporters import EXPORTERS, SERVICE, allowlist, series_label
from agentenv.core.metering.rules import rule_file, rules
from agentenv.core.metering.scraping import scrape_configs
from agentenv.core.metering.sizes import sizes
from agentenv.core.metering.tariff import Tariff, number
from agentenv.service.telemetry.metrics import Metrics
from tests.fast.service.test_telemetry import recorded_metrics

TARIFF = Tariff(
    fixed={"NAT": Decimal("32.85"), "keys": Decimal(4)}, monthly_budget=Decimal(100), per_user_cap=Decimal(3)
)
_RECORDED = re.compile(r"sandbox:[a-z_]+:[a-z0-9_]+")


def test_each_rule_builds_on_those_before_it() -> None:
    seen: set[str] = set()
    later = [rule.record for rule in rules(TARIFF)]
    for rule in rules(TARIFF):
        later.remove(rule.record)
        used = set(_RECORDED.findall(rule.expr))
        assert used <= seen, rule.record
        # `sandbox:dollars:per_hour` has a line a rule; who asks for one of them asks for one that is there.
        for record in used & set(later):
            assert record == "sandbox:dollars:per_hour", (rule.record, record)
        seen.add(rule.record)


def test_the_same_series_is_recorded_once() -> None:
    known = [(rule.record, *sorted(rule.labels.items())) for rule in rules(TARIFF)]
    assert len(known) == len(set(known))
    assert all(rule.why for rule in rules(TARIFF))


def test_amounts_have_no_exponents() -> None:
    assert number(Decimal("1E-7")) == "0.0000001"
    fixed = {
        rule.labels["part"]: rule.expr for rule in rules(TARIFF) if rule.record == "sandbox:fixed_dollars:per_hour"
    }
    assert fixed["NAT"] == "vector(0.045000000000)"
    assert not re.search(r"\dE[-+]?\d", str(rule_file(TARIFF, failed_nodes=3)))


def test_the_service_exports_the_metrics_of_its_panels() -> None:
    metrics = recorded_metrics()
    known = {sample.name: set(sample.labels) for family in metrics.registry.collect() for sample in family.samples}
    assert set(SERVICE.series()) <= set(known)
    for metric, labels in SERVICE.metrics.items():
        assert set(labels) <= known[f"{metric}_bucket" if metric in SERVICE.histograms else metric], metric
        assert (
            not {"user", "owner", "workspace"} & known[f"{metric}_bucket" if metric in SERVICE.histograms else metric]
        )


def test_deleted_volumes_have_no_metrics() -> None:
    metrics = Metrics()
    metrics.volumes({"pvc-1": 1, "pvc-2": 2})
    metrics.volumes({"pvc-2": 3})
    assert metrics.registry.get_sample_value("agentenv_volume_bytes", {"persistentvolume": "pvc-1"}) is None
    assert metrics.registry.get_sample_value("agentenv_volume_bytes", {"persistentvolume": "pvc-2"}) == 3


def test_no_metric_belongs_to_two_exporters() -> None:
    names = [series for exporter in EXPORTERS for series in exporter.series()]
    assert len(names) == len(set(names))


def test_kube_state_metrics_exports_the_labels_of_the_rules() -> None:
    used = {label for rule in rules(TARIFF) for label in re.findall(r"\blabel_(?!replace)\w+", rule.expr)}
    known = {
        series_label(label)
        for line in CONFIGURATION["kube-state-metrics"]["metricLabelsAllowlist"]
        for label in line.partition("=[")[2].rstrip("]").split(",")
    }
    assert used == known
    assert CONFIGURATION["kube-state-metrics"]["metricLabelsAllowlist"] == allowlist()


def test_each_exporter_is_scraped_for_the_used_metrics() -> None:
    jobs = {job["job_name"]: job for job in scrape_configs()}
    assert set(jobs) == {exporter.job for exporter in EXPORTERS}
    for exporter in EXPORTERS:
        (rule, *_) = jobs[exporter.job]["metric_relabel_configs"]
        assert (rule["action"], rule["source_labels"]) == ("keep", ["__name__"])
        assert set(rule["regex"].split("|")) == set(exporter.series())


def test_the_scrape_interval_fits_the_rates() -> None:
    for job in scrape_configs():
        seconds = int(job["scrape_interval"].removesuffix("s")) if job["scrape_interval"].endswith("s") else 60
        if job["job_name"] in {"cadvisor", "kube-state-metrics"}:
            assert seconds <= 20


@pytest.mark.parametrize("shown", DASHBOARDS, ids=lambda shown: shown.name)
def test_dashboards_are_deterministic_and_use_one_data_source(shown: object) -> None:
    name = getattr(shown, "name", "")
    text = dashboard_text(name)
    assert text == dashboard_text(name)
    board = yaml.safe_load(text)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board["panels"] if panel["type"] != "row"]
    assert len(places) == len(set(places))
    sources = {panel["datasource"]["uid"] for panel in board["panels"] if "datasource" in panel}
    assert sources == {"prometheus"}
    assert board["editable"] is False


def test_rules_do_not_read_deleted_workspaces() -> None:
    assert sizes(0).prometheus.memory == "512Mi"
    assert sizes(2_000).prometheus.memory == "1216Mi"
