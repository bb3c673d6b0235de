"""Metering in the cluster: its permissions, its network policies, and that it holds no secret."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from agentenv.components.cost.cluster_costs import ClusterCosts, dashboards
from agentenv.components.cost.metering_policies import exporters, network_policies
from agentenv.components.cost.metering_values import configuration, grafana, opencost, prometheus
from agentenv.config.sections.cost import Alertmanager
from agentenv.core.cost.estimate import model
from agentenv.core.cost.sandboxes import HEADROOM
from agentenv.core.metering import locations
from agentenv.core.metering.dashboards import DASHBOARDS
from agentenv.core.metering.rules import rule_file
from agentenv.core.metering.scraping import scrape_configs
from agentenv.core.metering.sizes import sizes
from agentenv.core.metering.tariff import Tariff
from agentenv.core.nodes.mirrors import Mirrors
from agentenv.core.pinned_versions import releases
from agentenv.core.plan import MeteringPlan, plan
from agentenv.core.values.quantities import Quantity
from tests.fast.components.graph import Graph, registered
from tests.fast.config.stack_samples import sandbox, settings

TARIFF = Tariff(Decimal("0.3"), {"control plane": Decimal(73)}, Decimal(100))


def build_graph(*, service: bool = False) -> Graph:
    return registered(
        lambda: ClusterCosts("metering", MeteringPlan("one", 100, TARIFF, Mirrors(), service, failed_nodes=7))
    )


def tariff_of(sections: dict[str, Any]) -> Tariff:
    metering = plan(settings(sections)).metering
    assert metering is not None
    return metering.tariff


def releases_of(graph: Graph) -> dict[str, Any]:
    return {
        resource.inputs["name"]: resource
        for resource in graph.resources
        if resource.type == "kubernetes:helm.sh/v3:Release"
    }


def test_charts_are_those_that_are_pinned_and_come_up_one_after_the_other() -> None:
    charts = releases_of(build_graph())
    assert set(charts) == {"prometheus", "opencost", "grafana"}
    for name, chart in charts.items():
        pinned = releases().charts[name]
        assert (chart.inputs["chart"], chart.inputs["version"]) == (pinned.address, pinned.version)
        assert chart.inputs["namespace"] == locations.NAMESPACE
        assert (charts["prometheus"].urn in chart.after) is (name != "prometheus")


def test_the_namespace_holds_to_the_restricted_standard() -> None:
    space = build_graph().resource("Namespace", "metering-namespace")
    assert space.inputs["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_prometheus_finds_pods_only_where_something_is_scraped_and_never_reaches_into_a_node() -> None:
    graph = build_graph(service=True)
    rules = [
        rule
        for resource in graph.resources
        if resource.type.endswith((":ClusterRole", ":Role"))
        for rule in resource.inputs["rules"]
    ]
    assert not any(resource in {"secrets", "nodes/proxy"} for rule in rules for resource in rule["resources"])
    assert not any("*" in rule[part] for rule in rules for part in ("verbs", "resources", "apiGroups"))
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list", "watch"}
    spaces = {
        resource.inputs["metadata"]["namespace"]
        for resource in graph.resources
        if resource.type.endswith(":Role") and resource.inputs["rules"][0]["resources"] == ["pods"]
    }
    scraped = {
        space
        for job in scrape_configs(service=True)
        for found in job.get("kubernetes_sd_configs", [])
        for space in found.get("namespaces", {}).get("names", [])
    }
    assert spaces == scraped == set(exporters(service=True))


@pytest.mark.parametrize("service", [True, False])
def test_the_service_is_scraped_and_allowed_only_where_it_exists(*, service: bool) -> None:
    assert (locations.SERVICE in exporters(service=service)) is service
    assert (locations.SERVICE in json.dumps(network_policies(service=service))) is service
    assert (locations.SERVICE in json.dumps(scrape_configs(service=service))) is service


def test_network_policies_allow_only_the_ports_that_are_needed() -> None:
    policies = network_policies(service=True)
    assert policies[locations.GRAFANA]["ingress"] == []
    for spec in policies.values():
        assert spec["policyTypes"] == ["Ingress", "Egress"]
        assert all(rule.get("ports") for rule in [*spec["ingress"], *spec["egress"]])
        for rule in spec["ingress"]:
            assert rule["from"], "anybody"
    # Grafana asks for names and for Prometheus: an address outside is none of its business.
    outside = {
        port["port"]
        for rule in policies[locations.GRAFANA]["egress"]
        if "ipBlock" in rule["to"][0]
        for port in rule["ports"]
    }
    assert outside == {53}
    ports = {port["port"] for rule in policies[locations.PROMETHEUS]["egress"] for port in rule["ports"]}
    assert ports == {53, 443, 10250, 8080, 9003, 9090}


def test_alarms_are_sent_to_the_alertmanager_of_the_settings() -> None:
    alertmanager = Alertmanager(namespace="monitoring", service="alerts", port=9094)
    plan_ = MeteringPlan("one", 100, TARIFF, Mirrors(), service=False, failed_nodes=3, alertmanager=alertmanager)
    graph = registered(lambda: ClusterCosts("metering", plan_))
    file = json.loads(graph.resource("ConfigMap", "metering-configuration").inputs["data"]["prometheus.yml"])
    assert file["alerting"] == {"alertmanagers": [{"static_configs": [{"targets": ["alerts.monitoring.svc:9094"]}]}]}
    policy = graph.resource("NetworkPolicy", "metering-prometheus").inputs["spec"]
    namespace = {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}
    assert [{"namespaceSelector": namespace}] in [
        rule["to"] for rule in policy["egress"] if rule["ports"][0]["port"] == 9094
    ]
    assert "alerting" not in configuration(scrape_configs(), {})["prometheus.yml"]


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for key, part in value.items() for text in [str(key), *_texts(part)]]
    return [text for part in value for text in _texts(part)] if isinstance(value, list) else [str(value)]


def test_no_password_is_created() -> None:
    values = grafana(sizes(100), Mirrors())
    assert values["env"] == {"GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION": "true"}
    ini = values["grafana.ini"]
    assert (ini["auth"]["disable_login_form"], ini["auth.basic"]["enabled"]) == (True, False)
    assert ini["auth.anonymous"]["org_role"] == "Viewer"
    for release in releases_of(build_graph()).values():
        assert not any("adminpassword" in text.lower() for text in _texts(release.inputs["values"]))
    assert not [resource for resource in build_graph().resources if resource.type.endswith(":Secret")]


def test_copies_of_images_are_taken_where_there_are_some() -> None:
    copies = Mirrors("registry.example.com/copies")
    amounts = sizes(1)
    texts = [
        text
        for values in (prometheus(amounts, copies), opencost(amounts, copies, "one"), grafana(amounts, copies))
        for text in _texts(values)
    ]
    assert "registry.example.com/copies/prometheus/prometheus" in texts
    assert any(text.startswith("registry.example.com/copies/opencost/opencost:") for text in texts)
    assert "copies/grafana/grafana" in texts


def test_prometheus_is_configured_by_a_single_config_map() -> None:
    graph = build_graph(service=True)
    config_map = graph.resource("ConfigMap", "metering-configuration").inputs
    assert config_map["metadata"]["name"] == "prometheus-configuration"
    tariff = Tariff(storage=Decimal("0.3"))
    assert set(config_map["data"]) == set(configuration(scrape_configs(), rule_file(tariff, failed_nodes=3)))
    group, alarms = json.loads(config_map["data"]["rules.yml"])["groups"]
    assert group["interval"] == "1m"
    assert [rule["expr"].rpartition(" ")[2] for rule in alarms["rules"]] == ["7"]
    parts = {rule["labels"]["part"] for rule in group["rules"] if rule["record"] == "sandbox:fixed_dollars:per_hour"}
    assert parts == {"control plane", "nodes of the platform"}
    assert {rule["record"] for rule in group["rules"]} >= {"sandbox:monthly_budget:dollars"}
    assert "sandbox:per_user_cap:dollars" not in {rule["record"] for rule in group["rules"]}


def test_all_dashboards_are_shown_and_fit_into_one_map() -> None:
    shown = dashboards()
    assert sorted(shown) == sorted(f"{dashboard.name}.json" for dashboard in DASHBOARDS)
    assert sum(len(text.encode()) for text in shown.values()) < 1_000_000
    assert build_graph().resource("ConfigMap", "metering-dashboards").inputs["data"] == shown


def test_sizes_grow_with_sandboxes_and_a_promise_is_no_more_than_the_limit() -> None:
    amounts = [sizes(count) for count in (0, 10, 100, 1000, 10_000)]
    memory = [Quantity.parse(amount.prometheus.memory).value for amount in amounts]
    assert memory == sorted(memory)
    assert memory[-1] > memory[0]
    for amount in amounts:
        for part in (amount.prometheus, amount.opencost, amount.grafana):
            assert Quantity.parse(part.memory).value <= Quantity.parse(part.most_memory).value


def test_settings_define_fixed_costs_and_user_budgets() -> None:
    tariff = tariff_of({"cost": {"monthlyBudget": 400, "perUserCap": 3, "alertTo": "us@example.com"}})
    assert (tariff.monthly_budget, tariff.per_user_cap) == (400, 3)
    assert "control plane" in tariff.fixed
    assert "system nodes" not in tariff.fixed, "their price is known where they run"


def test_headroom_costs_its_nodes_and_is_not_counted_as_fixed() -> None:
    plain = {"sandboxClasses": [sandbox()]}
    roomy = {**plain, "capacity": {"headroom": {"pods": 10}}}
    assert any(part.name.startswith(HEADROOM) for part in model(settings(roomy)).parts)
    fixed = [dict(tariff_of(sections).fixed) for sections in (roomy, plain)]
    # What nodes take of images comes by NAT, and is in no node's price.
    images = [sections.pop("images for nodes", Decimal(0)) for sections in fixed]
    assert images[0] > images[1]
    assert fixed[0] == fixed[1]
