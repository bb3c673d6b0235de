"""The service's graph: the order of its resources, its RBAC in classes, and a load balancer only with a domain."""

from __future__ import annotations

import json
from typing import Any

from agentenv.components.service.workspace_service import WorkspaceService
from tests.fast.components.graph import ACCOUNT, REGION, Graph, registered
from tests.fast.components.node_shapes import on_cluster
from tests.fast.components.shapes import NETWORK, planned

IMAGE = f"registry.example.com/a@sha256:{'0' * 64}"
CERTIFICATE = f"arn:aws:acm:{REGION}:{ACCOUNT}:certificate/c"


def service(settings: dict[str, Any] | None = None, **more: Any) -> Graph:
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
        WorkspaceService("service", plan, cluster, NETWORK, class_namespaces={"standard": "sandbox-standard"}, **more)

    return registered(program)


def test_pods_are_created_after_their_dependencies_and_deleted_before() -> None:
    graph = service()
    deployments = graph.of("Deployment")
    assert [deployment.inputs["metadata"]["name"] for deployment in deployments] == [
        "workspace-service-loops",
        "workspace-service",
    ]
    needed = [
        graph.resource("Namespace", "service-namespace"),
        graph.resource("NetworkPolicy", "service-passage"),
        graph.resource("ServiceAccount"),
        graph.resource("ConfigMap"),
        *graph.of("Table"),
        *graph.of("RolePolicy"),
        *graph.of("ClusterRole"),
        *graph.of("ClusterRoleBinding"),
        *graph.of("Role"),
        *graph.of("RoleBinding"),
    ]
    for resource in needed:
        assert all(graph.comes_before(resource, pods) for pods in deployments), resource.name
    assert (
        graph.resource("Namespace", "service-namespace").inputs["metadata"]["labels"][
            "pod-security.kubernetes.io/enforce"
        ]
        == "restricted"
    )


def test_it_works_in_the_namespaces_of_classes_and_of_controllers_on_fargate() -> None:
    graph = service()
    bindings = {
        binding.inputs["metadata"]["namespace"]: binding.inputs["roleRef"]["name"]
        for binding in graph.of("RoleBinding")
    }
    assert bindings == {
        "sandbox-standard": "workspace-service-classes",
        "agent-sandbox-system": "workspace-service-controllers",
        "karpenter": "workspace-service-controllers",
        "kube-system": "workspace-service-controllers",
        "workspace-service": "workspace-service-own",
        "home-emptying": "home-emptying",
    }
    for binding in [*graph.of("RoleBinding"), *graph.of("ClusterRoleBinding")]:
        [subject] = binding.inputs["subjects"]
        assert subject == {"kind": "ServiceAccount", "name": "workspace-service", "namespace": "workspace-service"}


def test_its_arguments_have_the_settings_and_the_deployments_outputs() -> None:
    graph = service()
    loops, api = (
        deployment.inputs["spec"]["template"]["spec"]["containers"][0]["args"] for deployment in graph.of("Deployment")
    )
    assert "--cluster-name=dev-agents" in api
    assert "--file-system=fs-0123456789abcdef0" in api
    assert any(text.startswith("--ledger-table=") for text in api)
    # The loops have the same, and are told to be those.
    assert [text for text in loops if text != "--loops"] == api
    assert "--loops" in loops
    settings_file = json.loads(graph.resource("ConfigMap").inputs["data"]["settings.json"])
    assert settings_file["environment"] == "dev"
    assert settings_file["config"]["agent-environment:service"] == {"image": IMAGE}


def test_with_a_sign_in_it_reads_its_client_secret_and_no_other() -> None:
    arn = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:console"
    settings = {"issuer": "https://login.example.com", "domain": "os.example.com", "certificate": CERTIFICATE}
    graph = service({**settings, "signIn": {"clientId": "console", "clientSecret": arn}})
    statements = graph.resource("RolePolicy", "work").policy()["Statement"]
    (reads,) = (statement for statement in statements if "secretsmanager" in str(statement["Action"]))
    assert reads["Resource"] == [arn, f"{arn}-??????"]


def test_a_gateway_alone_reaches_the_authorizer() -> None:
    settings = {"issuer": "https://login.example.com", "domain": "os.example.com", "certificate": CERTIFICATE}
    graph = service({**settings, "workspaced": {"image": IMAGE}})
    (api,) = (
        deployment.inputs["spec"]["template"]["spec"]["containers"][0]
        for deployment in graph.of("Deployment")
        if deployment.inputs["metadata"]["name"] == "workspace-service"
    )
    assert "--authorizer-port=9191" in api["args"]
    assert {"name": "authz", "containerPort": 9191, "protocol": "TCP"} in api["ports"]
    (rule,) = (
        rule
        for rule in graph.resource("NetworkPolicy", "service-passage").inputs["spec"]["ingress"]
        if rule["ports"][0]["port"] == 9191
    )
    assert rule["from"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "gateway"}}}]
    (headless,) = (
        each for each in graph.of("Service") if each.inputs["metadata"]["name"] == "workspace-service-authorizer"
    )
    assert headless.inputs["spec"]["clusterIP"] == "None"


def test_without_a_domain_nothing_leads_to_it_from_outside() -> None:
    graph = service()
    [inside] = graph.of("Service")
    assert inside.inputs["spec"].get("type", "ClusterIP") == "ClusterIP"
    peers = graph.resource("NetworkPolicy", "service-passage").inputs["spec"]["ingress"][0]["from"]
    assert peers == [{"namespaceSelector": {}}]


def test_gateway_pods_are_registered_with_their_target_group() -> None:
    group = f"arn:aws:elasticloadbalancing:{REGION}:{ACCOUNT}:targetgroup/t/1"
    graph = service({"domain": "w.example.com", "certificate": CERTIFICATE}, target_group_arn=group)
    for deployment in graph.of("Deployment"):
        assert f"--target-group={group}" in deployment.inputs["spec"]["template"]["spec"]["containers"][0]["args"]
    [document] = [json.loads(policy.inputs["policy"]) for policy in graph.of("RolePolicy")]
    statements = {statement["Sid"]: statement for statement in document["Statement"]}
    assert statements["RegisterGateway"]["Resource"] == group
    assert "LookAtTargets" in statements
    assert "RegisterGateway" not in service().of("RolePolicy")[0].inputs["policy"]


def test_homes_are_emptied_in_a_namespace_without_traffic() -> None:
    graph = service()
    namespace = graph.resource("Namespace", "emptying-namespace").inputs["metadata"]
    assert namespace["name"] == "home-emptying"
    assert namespace["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    policy = graph.resource("NetworkPolicy", "emptying-passage").inputs["spec"]
    assert policy == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    role = graph.resource("Role", "emptying-work").inputs
    assert role["metadata"]["namespace"] == "home-emptying"
    assert {(tuple(rule["resources"]), tuple(rule["verbs"])) for rule in role["rules"]} == {
        (("jobs",), ("create", "delete", "get")),
        (("persistentvolumeclaims",), ("create", "delete")),
    }
    for deployment in graph.of("Deployment"):
        assert graph.comes_before(graph.resource("RoleBinding", "emptying-work"), deployment)
