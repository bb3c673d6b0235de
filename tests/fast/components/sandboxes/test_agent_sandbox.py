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
    """The controller as it is unless told."""
    return registered(agent_sandbox)


def container(made: Graph) -> dict[str, Any]:
    (one,) = made.one("Deployment").inputs["spec"]["template"]["spec"]["containers"]
    return one


@pytest.mark.parametrize("source", [None, "https://mirror.example/agent-sandbox/", "/srv/agent-sandbox/k8s"])
def test_definitions_and_roles_are_the_releases_by_address_or_from_a_folder(source: str | None) -> None:
    given: dict[str, Any] = {"manifests": source} if source else {}
    made = registered(lambda: agent_sandbox(**given))
    base = (source or RELEASE.address).rstrip("/")
    assert made.one("ConfigGroup", "definitions").inputs["files"] == [f"{base}/{file}" for file in RELEASE.definitions]
    assert made.one("ConfigGroup", "roles").inputs["files"] == [f"{base}/{file}" for file in RELEASE.roles]
    assert len(RELEASE.definitions) == 4


def test_the_controller_comes_after_all_that_it_needs_and_goes_before_it(plain: Graph) -> None:
    controller = plain.one("Deployment")
    needed = [
        *plain.of("ConfigGroup"),
        plain.one("Namespace"),
        plain.one("ServiceAccount"),
        plain.one("ConfigMap"),
        plain.one("NetworkPolicy"),
        *[one for one in plain.of("ClusterRoleBinding") if "agent-sandbox-controller" in one.name],
    ]
    assert len(needed) == 8
    for one in needed:
        assert plain.comes_before(one, controller), one.name


def test_it_runs_where_the_clusters_profile_is() -> None:
    def build() -> None:
        eks = cluster()
        agent_sandbox("sandboxes", pulumi.ResourceOptions(depends_on=[eks], providers=[eks.provider]))

    made = registered(build)
    (selector,) = made.one("FargateProfile", "agent-sandbox").inputs["selectors"]
    controller = made.one("Deployment")
    assert selector == {"namespace": controller.inputs["metadata"]["namespace"]}
    assert made.comes_before(made.one("FargateProfile", "agent-sandbox"), controller)
    # What is made from files is made in the same cluster.
    for one in made.of("ConfigGroup"):
        assert one.providers["kubernetes"] == controller.provider


def test_the_controller_is_what_the_restricted_standard_allows(plain: Graph) -> None:
    assert plain.one("Namespace").inputs["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    spec = plain.one("Deployment").inputs["spec"]["template"]["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    security = container(plain)["securityContext"]
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["readOnlyRootFilesystem"] is True
    assert {next(iter(set(volume) - {"name"})) for volume in spec["volumes"]} == {"configMap"}


def test_it_is_probed_limited_measured_and_not_all_of_it_disrupted_at_once(plain: Graph) -> None:
    one = container(plain)
    assert one["image"] == releases().images["agent-sandbox-controller"]
    assert one["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "healthz"}
    assert one["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "healthz"}
    assert one["resources"]["limits"] == one["resources"]["requests"] == {"cpu": "250m", "memory": "768Mi"}
    budget = plain.one("PodDisruptionBudget").inputs["spec"]
    controller = plain.one("Deployment").inputs["spec"]
    assert budget["maxUnavailable"] < controller["replicas"]
    assert budget["selector"] == controller["selector"]
    marks = controller["template"]["metadata"]
    assert marks["annotations"]["prometheus.io/scrape"] == "true"
    service = plain.one("Service").inputs["spec"]
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
    told = container(registered(lambda: agent_sandbox(flags=flags)))["args"]
    assert told == ["--leader-elect=true", "--extensions", "--cache-label-selectors=true", *added]


def test_other_label_domains_make_the_controller_read_them() -> None:
    def spec(*domains: str) -> dict[str, Any]:
        plan = planned({"cluster": {"sandboxController": {"labelDomains": list(domains)}}}).sandbox_controller
        return deployment(plan)["template"]["metadata"]["annotations"]

    assert spec() != spec("team.example.com")
    assert spec("a.example.com", "b.example.com") == spec("b.example.com", "a.example.com")
    told = registered(lambda: agent_sandbox(labelDomains=["team.example.com"])).one("ConfigMap").inputs
    assert told["metadata"]["name"] == "agent-sandbox-config"
    assert told["data"] == {"allowed-label-domains": "sandbox.users.io,team.example.com"}


def rules(made: Graph, word: str) -> dict[str, set[str]]:
    """What a role may do with each resource."""
    found: dict[str, set[str]] = {}
    for rule in made.one("ClusterRole", word).inputs["rules"]:
        for resource in rule["resources"]:
            found.setdefault(resource, set()).update(rule["verbs"])
    return found


def test_readers_look_and_operators_mend_sandboxes_and_neither_changes_what_is_declared(plain: Graph) -> None:
    look = {"get", "list", "watch"}
    assert all(verbs == look for verbs in rules(plain, "readers").values())
    operators = rules(plain, "operators")
    assert operators["sandboxes"] == operators["sandboxclaims"] == look | {"create", "delete", "patch", "update"}
    assert operators["sandboxtemplates"] == operators["sandboxwarmpools"] == operators["nodepools"] == look
    for word in ("readers", "operators"):
        (subject,) = plain.one("ClusterRoleBinding", word).inputs["subjects"]
        assert (subject["kind"], subject["name"]) == ("Group", GROUPS[word])


def test_the_controllers_account_gets_the_roles_of_its_release_and_nobody_else_does(plain: Graph) -> None:
    given = {
        one.inputs["roleRef"]["name"]: one.inputs["subjects"]
        for one in plain.of("ClusterRoleBinding")
        if "agent-sandbox-controller" in one.name
    }
    account = plain.one("ServiceAccount").inputs["metadata"]
    assert set(given) == {"agent-sandbox-controller", "agent-sandbox-controller-extensions"}
    for subjects in given.values():
        assert subjects == [
            {"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]},
        ]
