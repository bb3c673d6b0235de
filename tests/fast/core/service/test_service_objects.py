"""Tests of the service's objects: hardened, spread, reachable as intended, and with minimal permissions."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentenv.core.capabilities.cluster_facts import SERVICE_LOOPS, WORKSPACE_SERVICE
from agentenv.core.capabilities.sets.pods import Pods
from agentenv.core.pinned_versions import releases
from agentenv.core.service import network_policy as network
from agentenv.core.service import rbac as rights
from agentenv.core.service.deployment import LABELS, ServiceSettings, deployment, disruption_budget, loops_deployment

ROOT = Path(__file__).resolve().parents[4]
RUNNING = ServiceSettings(
    f"registry.example.com/workspace-service@sha256:{'a' * 64}", 3, 8080, "100m", "384Mi", ["--x=1"]
)


@pytest.fixture
def pod() -> dict[str, Any]:
    return deployment(RUNNING, "{}")["spec"]["template"]["spec"]


def test_the_pod_satisfies_the_restricted_standard(pod: dict[str, Any]) -> None:
    [container] = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    security = container["securityContext"]
    assert (security["allowPrivilegeEscalation"], security["readOnlyRootFilesystem"]) == (False, True)
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert container["resources"]["limits"]["memory"] == container["resources"]["requests"]["memory"]
    assert [mount["name"] for mount in container["volumeMounts"] if not mount.get("readOnly")] == ["scratch"]


def test_pods_are_replaced_one_at_a_time(pod: dict[str, Any]) -> None:
    spec = deployment(RUNNING, "{}")["spec"]
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert disruption_budget()["spec"]["maxUnavailable"] == 1
    assert disruption_budget()["spec"]["selector"] == spec["selector"]
    over = [constraint["topologyKey"] for constraint in pod["topologySpreadConstraints"]]
    assert over == ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]
    linger = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    from agentenv.service.http.server import GRACE_SECONDS

    # What Kubernetes waits has to be more than what it lingers and what it then still answers.
    assert pod["terminationGracePeriodSeconds"] >= linger + GRACE_SECONDS + 20


def test_changed_settings_restart_the_pods() -> None:
    def mark(settings: str) -> dict[str, str]:
        return deployment(RUNNING, settings)["spec"]["template"]["metadata"]["annotations"]

    assert mark("{}") == mark("{}")
    assert mark("{}") != mark('{"a": 1}')


def test_it_reads_only_its_own_secrets_and_grants_nothing() -> None:
    rules = [*rights.cluster_rules(), *rights.class_namespace_rules(), *rights.own_namespace_rules()]
    assert not any("*" in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]] for rule in rules)
    resources = {resource for rule in rules for resource in rule["resources"]}
    assert not resources & {"nodes/proxy", "pods/exec", "serviceaccounts", "serviceaccounts/token", "roles"}
    secrets = [rule for rule in rules if "secrets" in rule["resources"]]
    assert all(rule in rights.own_namespace_rules() for rule in secrets)
    assert [(rule["verbs"], rule.get("resourceNames")) for rule in secrets] == [
        (["create"], None),
        (["get", "patch"], ["workspaced-signing-keys", "gateway-secrets"]),
    ]
    verbs = {verb for rule in rules for verb in rule["verbs"]}
    assert not verbs & {"impersonate", "bind", "escalate", "deletecollection"}


def test_it_writes_in_namespaces_of_classes_and_patches_volumes() -> None:
    changing = {
        resource
        for rule in rights.cluster_rules()
        for resource in rule["resources"]
        if set(rule["verbs"]) - {"get", "list", "watch"}
    }
    assert changing == {"persistentvolumes", "tokenreviews"}


def test_beside_controllers_on_fargate_it_deletes_pods_and_nothing_else() -> None:
    assert rights.controller_namespace_rules() == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
    ]


def test_it_neither_creates_nor_deletes_volumes() -> None:
    # By a volume of one's own making one reaches whatever a volume can lead to.
    rules = [*rights.cluster_rules(), *rights.class_namespace_rules(), *rights.own_namespace_rules()]
    volumes = {verb for rule in rules if "persistentvolumes" in rule["resources"] for verb in rule["verbs"]}
    assert volumes == {"get", "list", "watch", "patch"}
    # Whatever it changes it changes as it was read, by a merge.
    assert not any("update" in rule["verbs"] for rule in rules)


def test_in_classes_it_writes_the_configmap_of_its_public_keys_and_no_other() -> None:
    writing = [
        rule
        for rule in rights.class_namespace_rules()
        if "configmaps" in rule["resources"] and set(rule["verbs"]) - {"get", "list", "watch"}
    ]
    assert writing == [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"], "resourceNames": ["workspaced-keys"]}
    ]


def test_it_reaches_sandboxes_only_with_workspaced() -> None:
    spec = network.service_network_policy(8080, controls_sandboxes=True)["spec"]
    assert spec["egress"][-1] == {
        "to": [{"namespaceSelector": {"matchExpressions": [{"key": "sandbox.users.io/class", "operator": "Exists"}]}}],
        "ports": [{"protocol": "TCP", "port": 49983}],
    }
    without = network.service_network_policy(8080)["spec"]
    assert without == {**spec, "egress": spec["egress"][:-1]}


def test_only_pods_of_the_cluster_reach_the_api_and_the_metrics() -> None:
    spec = network.service_network_policy(8080)["spec"]
    [within] = spec["ingress"]
    assert within["from"] == [{"namespaceSelector": {}}]
    assert [port["port"] for port in within["ports"]] == [8080, 9090]
    assert spec["podSelector"] == {}
    outward = [(rule["to"], [port["port"] for port in rule["ports"]]) for rule in spec["egress"]]
    assert [ports for _, ports in outward] == [[53, 53], [443]]
    assert outward[1][0][0]["ipBlock"]["except"] == ["169.254.0.0/16"]


def test_configured_urls_are_reached_at_their_ports() -> None:
    named = ["http://prometheus.metering.svc:9090", "https://t.example.com", "https://login.example.com:5556", None]
    *_, login, metering = network.service_network_policy(8080, named)["spec"]["egress"]
    assert [port["port"] for port in metering["ports"] + login["ports"]] == [9090, 5556]
    assert metering["to"] == [{"namespaceSelector": {}}]
    assert login["to"][0]["ipBlock"]["cidr"] == "0.0.0.0/0"
    assert len(network.service_network_policy(8080, ["https://t.example.com", None])["spec"]["egress"]) == 2


def test_its_service_preserves_the_addresses_of_pods() -> None:
    # That is how the exchange knows a sandbox.
    assert network.cluster_service(8080)["spec"].get("type", "ClusterIP") == "ClusterIP"


def test_the_image_is_built_from_pinned_inputs() -> None:
    contents = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert re.search(r"^ARG BASE=(\S+)$", contents, re.MULTILINE)[1] == releases().images["python"]  # pyright: ignore[reportOptionalSubscript]
    assert re.fullmatch(r".*@sha256:[0-9a-f]{64}", releases().images["python"])
    assert re.findall(r"^FROM (\S+)", contents, re.MULTILINE) == ["${BASE}", "${BASE}"]
    assert re.findall(r"^USER (\S+)", contents, re.MULTILINE) == ["65532:65532"]
    uv = re.search(r"^UV := (\S+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert uv
    assert f"uv=={uv[1]}" in contents
    assert "--require-hashes" in contents
    allowed = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert next(line for line in allowed if not line.startswith("#")) == "*"


def test_the_loops_are_a_pod_of_their_own_that_no_service_selects(pod: dict[str, Any]) -> None:
    spec = loops_deployment(RUNNING, "{}")["spec"]
    assert spec["replicas"] == 1
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"] != LABELS
    loops = spec["template"]["spec"]
    (container,), (api,) = loops["containers"], pod["containers"]
    assert container["args"] == [*api["args"][:-1], "--loops", api["args"][-1]]
    assert (container["image"], container["livenessProbe"]) == (api["image"], api["livenessProbe"])
    assert loops["serviceAccountName"] == pod["serviceAccountName"]
    assert container["resources"] == {
        "requests": {"cpu": "50m", "memory": "128Mi"},
        "limits": {"cpu": "1", "memory": "384Mi"},
    }


def test_the_loops_request_no_more_memory_than_their_limit() -> None:
    running = replace(RUNNING, memory="96Mi")
    (container,) = loops_deployment(running, "{}")["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["requests"]["memory"] == container["resources"]["limits"]["memory"] == "96Mi"


def test_the_loops_move_soon_from_a_lost_node() -> None:
    tolerations = loops_deployment(RUNNING, "{}")["spec"]["template"]["spec"]["tolerations"]
    assert {(row["key"], row["effect"], row["tolerationSeconds"]) for row in tolerations} == {
        ("node.kubernetes.io/not-ready", "NoExecute", 30),
        ("node.kubernetes.io/unreachable", "NoExecute", 30),
    }


def test_sandboxes_admit_the_pods_of_the_loops() -> None:
    labels = loops_deployment(RUNNING, "{}")["spec"]["template"]["metadata"]["labels"]
    assert Pods.labelled("workspace-service", labels) == SERVICE_LOOPS
    assert Pods.labelled("workspace-service", LABELS) == WORKSPACE_SERVICE
