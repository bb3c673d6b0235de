"""The controller's graph: definitions and rights first, then a controller that the restricted standard allows."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest

from agentenv.components.cluster.access import GROUPS
from agentenv.components.sandboxes.controller import deployment
from agentenv.core.pinned_versions import releases
from tests.fast.components.graph import Graph, registered
from tests.fast.components.sandbox_shapes import agent_sandbox
from tests.fast.components.shapes import cluster, planned

RELEASE = releases().manifests["agent-sandbox"]


@pytest.fixture(scope="module")
def plain() -> Graph:
    """The controller with default settings."""
    return registered(agent_sandbox)


def container(graph: Graph) -> dict[str, Any]:
    (container_spec,) = graph.resource("Deployment").inputs["spec"]["template"]["spec"]["containers"]
    return container_spec


@pytest.mark.parametrize("source", [None, "https://mirror.example/agent-sandbox/", "/srv/agent-sandbox/k8s"])
def test_definitions_and_roles_are_the_releases_by_address_or_from_a_folder(source: str | None) -> None:
    settings: dict[str, Any] = {"manifests": source} if source else {}
    graph = registered(lambda: agent_sandbox(**settings))
    base = (source or RELEASE.address).rstrip("/")
    assert graph.resource("ConfigGroup", "definitions").inputs["files"] == [
        f"{base}/{file}" for file in RELEASE.definitions
    ]
    assert graph.resource("ConfigGroup", "roles").inputs["files"] == [f"{base}/{file}" for file in RELEASE.roles]
    assert len(RELEASE.definitions) == 4


def test_controller_is_created_after_its_dependencies_and_deleted_before(plain: Graph) -> None:
    controller = plain.resource("Deployment")
    needed = [
        *plain.of("ConfigGroup"),
        plain.resource("Namespace"),
        plain.resource("ServiceAccount"),
        plain.resource("ConfigMap"),
        plain.resource("NetworkPolicy"),
        *[binding for binding in plain.of("ClusterRoleBinding") if "agent-sandbox-controller" in binding.name],
    ]
    assert len(needed) == 8
    for resource in needed:
        assert plain.comes_before(resource, controller), resource.name


def test_it_runs_where_the_clusters_profile_is() -> None:
    def build() -> None:
        eks = cluster()
        agent_sandbox("sandboxes", pulumi.ResourceOptions(depends_on=[eks], providers=[eks.provider]))

    graph = registered(build)
    (selector,) = graph.resource("FargateProfile", "agent-sandbox").inputs["selectors"]
    controller = graph.resource("Deployment")
    assert selector == {"namespace": controller.inputs["metadata"]["namespace"]}
    assert graph.comes_before(graph.resource("FargateProfile", "agent-sandbox"), controller)
    # What is made from files is made in the same cluster.
    for group in graph.of("ConfigGroup"):
        assert group.providers["kubernetes"] == controller.provider


def test_the_controller_is_what_the_restricted_standard_allows(plain: Graph) -> None:
    assert (
        plain.resource("Namespace").inputs["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    )
    spec = plain.resource("Deployment").inputs["spec"]["template"]["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    security = container(plain)["securityContext"]
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["readOnlyRootFilesystem"] is True
    assert {next(iter(set(volume) - {"name"})) for volume in spec["volumes"]} == {"configMap"}


def test_it_is_probed_limited_measured_and_not_all_of_it_disrupted_at_once(plain: Graph) -> None:
    controller_container = container(plain)
    assert controller_container["image"] == releases().images["agent-sandbox-controller"]
    assert controller_container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "healthz"}
    assert controller_container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "healthz"}
    assert (
        controller_container["resources"]["limits"]
        == controller_container["resources"]["requests"]
        == {"cpu": "250m", "memory": "768Mi"}
    )
    budget = plain.resource("PodDisruptionBudget").inputs["spec"]
    controller = plain.resource("Deployment").inputs["spec"]
    assert budget["maxUnavailable"] < controller["replicas"]
    assert budget["selector"] == controller["selector"]
    marks = controller["template"]["metadata"]
    assert marks["annotations"]["prometheus.io/scrape"] == "true"
    service = plain.resource("Service").inputs["spec"]
    assert service["selector"].items() <= marks["labels"].items()
    assert (service["ports"][0]["port"], service["ports"][0]["targetPort"]) == (8080, "metrics")


@pytest.mark.parametrize(
    ("flags", "added"),
    [
        ({}, []),
        ({"claimWorkers": 80}, ["--sandbox-claim-concurrent-workers=80"]),
        (
            {"refillRate": 5, "replenishDelay": "2s", "readinessGrace": "10m"},
            [
                "--sandbox-warm-pool-max-refill-rate=5",
                "--sandbox-warm-pool-replenish-delay=2s",
                "--sandbox-warm-pool-readiness-grace-period=600s",
            ],
        ),
        ({"apiConnections": 4, "tracing": True}, ["--api-connections=4", "--enable-tracing=true"]),
    ],
)
def test_flags_are_settings(flags: dict[str, Any], added: list[str]) -> None:
    args = container(registered(lambda: agent_sandbox(flags=flags)))["args"]
    assert args == ["--leader-elect=true", "--extensions", "--cache-label-selectors=true", *added]


def test_other_label_domains_make_the_controller_read_them() -> None:
    def spec(*domains: str) -> dict[str, Any]:
        plan = planned({"cluster": {"sandboxController": {"labelDomains": list(domains)}}}).sandbox_controller
        return deployment(plan)["template"]["metadata"]["annotations"]

    assert spec() != spec("team.example.com")
    assert spec("a.example.com", "b.example.com") == spec("b.example.com", "a.example.com")
    config_map = registered(lambda: agent_sandbox(labelDomains=["team.example.com"])).resource("ConfigMap").inputs
    assert config_map["metadata"]["name"] == "agent-sandbox-config"
    assert config_map["data"] == {"allowed-label-domains": "sandbox.users.io,team.example.com"}


def rules(graph: Graph, word: str) -> dict[str, set[str]]:
    """Return the verbs that a role has on each resource."""
    found: dict[str, set[str]] = {}
    for rule in graph.resource("ClusterRole", word).inputs["rules"]:
        for resource in rule["resources"]:
            found.setdefault(resource, set()).update(rule["verbs"])
    return found


def test_readers_and_operators_cannot_change_declared_objects(plain: Graph) -> None:
    look = {"get", "list", "watch"}
    assert all(verbs == look for verbs in rules(plain, "readers").values())
    operators = rules(plain, "operators")
    assert operators["sandboxes"] == operators["sandboxclaims"] == look | {"create", "delete", "patch", "update"}
    assert operators["sandboxtemplates"] == operators["sandboxwarmpools"] == operators["nodepools"] == look
    for word in ("readers", "operators"):
        (subject,) = plain.resource("ClusterRoleBinding", word).inputs["subjects"]
        assert (subject["kind"], subject["name"]) == ("Group", GROUPS[word])


def test_roles_of_the_release_are_bound_to_the_controllers_account_only(plain: Graph) -> None:
    bindings = {
        binding.inputs["roleRef"]["name"]: binding.inputs["subjects"]
        for binding in plain.of("ClusterRoleBinding")
        if "agent-sandbox-controller" in binding.name
    }
    account = plain.resource("ServiceAccount").inputs["metadata"]
    assert set(bindings) == {"agent-sandbox-controller", "agent-sandbox-controller-extensions"}
    for subjects in bindings.values():
        assert subjects == [
            {"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]},
        ]
