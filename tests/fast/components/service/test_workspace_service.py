"""The service's graph: what it needs before it, its rights in classes, and a door only where it has a domain."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentenv.components.service.workspace_service import WorkspaceService
from tests.fast.components.graph import ACCOUNT, REGION, Graph, registered
from tests.fast.components.node_shapes import on_cluster
from tests.fast.components.shapes import NETWORK, planned

IMAGE = f"registry.example.com/a@sha256:{'0' * 64}"
CERTIFICATE = f"arn:aws:acm:{REGION}:{ACCOUNT}:certificate/c"


def service(settings: dict[str, Any] | None = None) -> Graph:
    plan = planned(
        {
            "network": {"cidr": "10.40.0.0/16", "peers": ["10.0.0.0/16"]},
            "sandboxClasses": [{"name": "standard", "image": IMAGE}],
            "service": {"image": IMAGE, **(settings or {})},
        }
    ).service
    assert plan is not None

    def program() -> None:
        cluster = on_cluster().with_file_systems(["fs-0123456789abcdef0"])
        WorkspaceService("service", plan, cluster, NETWORK, class_namespaces={"standard": "sandbox-standard"})

    return registered(program)


def test_its_pods_come_after_all_that_they_need_and_go_before_it() -> None:
    made = service()
    deployments = made.of("Deployment")
    assert [one.inputs["metadata"]["name"] for one in deployments] == ["workspace-service-loops", "workspace-service"]
    needed = [
        made.one("Namespace"),
        made.one("NetworkPolicy"),
        made.one("ServiceAccount"),
        made.one("ConfigMap"),
        made.one("Table"),
        *made.of("RolePolicy"),
        *made.of("ClusterRole"),
        *made.of("ClusterRoleBinding"),
        *made.of("Role"),
        *made.of("RoleBinding"),
    ]
    for one in needed:
        assert all(made.comes_before(one, pods) for pods in deployments), one.name
    assert made.one("Namespace").inputs["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_it_works_in_the_namespaces_of_classes_alone() -> None:
    made = service()
    bindings = {one.inputs["metadata"]["namespace"]: one.inputs["roleRef"]["name"] for one in made.of("RoleBinding")}
    assert bindings == {"sandbox-standard": "workspace-service-classes", "workspace-service": "workspace-service-own"}
    for one in [*made.of("RoleBinding"), *made.of("ClusterRoleBinding")]:
        [subject] = one.inputs["subjects"]
        assert subject == {"kind": "ServiceAccount", "name": "workspace-service", "namespace": "workspace-service"}


def test_it_is_told_its_settings_and_what_only_a_deployment_knows() -> None:
    made = service()
    loops, api = (one.inputs["spec"]["template"]["spec"]["containers"][0]["args"] for one in made.of("Deployment"))
    assert "--cluster-name=dev-agents" in api
    assert "--file-system=fs-0123456789abcdef0" in api
    assert any(text.startswith("--ledger-table=") for text in api)
    # The loops have the same, and are told to be those.
    assert [text for text in loops if text != "--loops"] == api
    assert "--loops" in loops
    said = json.loads(made.one("ConfigMap").inputs["data"]["settings.json"])
    assert said["environment"] == "dev"
    assert said["config"]["agent-environment:service"] == {"image": IMAGE}


def test_without_a_domain_nothing_leads_to_it_from_outside() -> None:
    made = service()
    [inside] = made.of("Service")
    assert inside.inputs["spec"].get("type", "ClusterIP") == "ClusterIP"
    peers = made.one("NetworkPolicy").inputs["spec"]["ingress"][0]["from"]
    assert peers == [{"namespaceSelector": {}}]


@pytest.mark.parametrize(
    ("more", "ranges"),
    [({}, ["10.0.0.0/16", "10.40.0.0/16"]), ({"callers": ["10.1.0.0/24"]}, ["10.1.0.0/24"])],
)
def test_a_domain_has_a_door_for_the_vpc_and_its_peers_or_for_whom_it_was_said(
    more: dict[str, Any], ranges: list[str]
) -> None:
    made = service({"domain": "w.example.com", "certificate": CERTIFICATE, **more})
    door = next(one for one in made.of("Service") if one.inputs["spec"].get("type") == "LoadBalancer")
    assert door.inputs["spec"]["loadBalancerSourceRanges"] == ranges
    said = door.inputs["metadata"]["annotations"]
    assert said["service.beta.kubernetes.io/aws-load-balancer-internal"] == "true"
    assert "environment=dev" in said["service.beta.kubernetes.io/aws-load-balancer-additional-resource-tags"]
    peers = made.one("NetworkPolicy").inputs["spec"]["ingress"][0]["from"]
    assert [one["ipBlock"]["cidr"] for one in peers if "ipBlock" in one] == ranges
