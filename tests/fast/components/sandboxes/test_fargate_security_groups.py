"""Security groups of classes on Fargate: the requested rules match the capabilities of the class."""

from __future__ import annotations

from typing import Any

import pytest

from agentenv.core.capabilities.cluster_facts import CLUSTER_RESOLVER, class_pods
from agentenv.core.capabilities.from_settings import cluster_facts, egress_of
from agentenv.core.capabilities.policies.security_group_rules import GroupRule
from agentenv.core.capabilities.sets.pods import Pods
from tests.fast.components.graph import Graph, RegisteredResource, registered
from tests.fast.components.shapes import cluster
from tests.fast.config.stack_samples import fargate, mistakes, sandbox, settings
from tests.fast.core.capabilities.test_security_groups import reach_of_rules

CLASSES = [
    fargate("open", capabilities=["dns", "web", {"class": "closed", "ports": [8080]}]),
    fargate("closed"),
    sandbox("on-nodes", capabilities=["web"]),
]
SETTINGS = settings({"sandboxClasses": CLASSES})
OPEN, SECOND, CLOSED = "eks-class-open-id", "eks-class-open-2-id", "eks-class-closed-id"
MEMBERS: dict[Pods, str] = {class_pods("closed"): CLOSED}
if CLUSTER_RESOLVER.pods is not None:
    MEMBERS[CLUSTER_RESOLVER.pods] = "sg-cluster"


@pytest.fixture(scope="module")
def graph() -> Graph:
    return registered(lambda: cluster(classes=CLASSES).class_security_group_ids)


def rules(graph: Graph, direction: str, *groups: str) -> list[RegisteredResource]:
    return [
        resource
        for resource in graph.of(f"SecurityGroup{direction}Rule")
        if resource.inputs["securityGroupId"] in groups
    ]


def read(rule_resource: RegisteredResource) -> GroupRule:
    """A rule as AWS has it, in the model's words."""
    inputs = rule_resource.inputs
    protocol, cidr = inputs["ipProtocol"], inputs.get("cidrIpv4")
    ports = (max(1, int(inputs["fromPort"])), int(inputs["toPort"])) if "fromPort" in inputs else None
    return GroupRule(protocol, ports, cidr, inputs.get("referencedSecurityGroupId"), inputs["description"])


def test_each_class_on_fargate_has_groups_of_its_own_and_classes_on_nodes_have_none(graph: Graph) -> None:
    assert graph.result == {"open": [OPEN, SECOND], "closed": [CLOSED]}
    groups = [group for group in graph.of("SecurityGroup") if "class" in group.name]
    assert {group.inputs["tags"]["sandbox-class"] for group in groups} == {"open", "closed"}
    for group in groups:
        # Inline rules and rules of their own would take each other away.
        assert not {"ingress", "egress"} & set(group.inputs)
        assert group.inputs["vpcId"] == "vpc-1"


def test_its_rules_allow_what_it_was_granted_and_its_kubelet_and_nothing_else(graph: Graph) -> None:
    outward = [read(rule) for rule in rules(graph, "Egress", OPEN, SECOND)]
    kubelet = [rule for rule in outward if rule.why == "the kubelet of this sandbox"]
    assert [(rule.group, rule.ports) for rule in kubelet] == [("sg-cluster", (443, 443))]
    granted = reach_of_rules([rule for rule in outward if rule not in kubelet], MEMBERS)
    (bounds,) = egress_of(SETTINGS.sandbox_classes[0], cluster_facts(SETTINGS, api=())).worlds.values()
    assert granted.same_as(bounds.least)
    # AWS takes no more in one group.
    assert all(len(rules(graph, "Egress", group)) <= 60 for group in (OPEN, SECOND))


def test_names_are_those_that_stacks_have_had_from_the_first(graph: Graph) -> None:
    # EC2 takes no rule twice: one under another name would be made before the one that is there goes.
    names = {rule.name.partition("class-")[2] for rule in rules(graph, "Egress", OPEN) if "cidrIpv4" not in rule.inputs}
    assert names == {
        "open-out-tcp-443-443-cluster",
        "open-out-tcp-53-53-cluster",
        "open-out-udp-53-53-cluster",
        "open-out-tcp-8080-8080-closed",
    }
    assert "eks-cluster-from-open-tcp-53-53-cluster" in {resource.name for resource in graph.resources}


def test_a_class_without_capabilities_reaches_the_control_plane_alone(graph: Graph) -> None:
    (rule,) = rules(graph, "Egress", CLOSED)
    assert (rule.inputs["referencedSecurityGroupId"], rule.inputs["fromPort"]) == ("sg-cluster", 443)


def test_a_class_is_called_by_the_control_plane_and_by_whom_was_granted_it(graph: Graph) -> None:
    called = {(rule.group, rule.ports) for resource in rules(graph, "Ingress", CLOSED) for rule in [read(resource)]}
    assert called == {("sg-cluster", (10250, 10250)), (OPEN, (8080, 8080))}
    assert all("cidrIpv4" not in rule.inputs for rule in rules(graph, "Ingress", CLOSED, OPEN, SECOND))


def test_the_daemon_of_a_class_is_reached_from_the_nodes_and_by_a_name_that_no_class_takes() -> None:
    classes = [fargate("nodes", daemon="image", capabilities=[{"class": "served", "ports": [80]}])]
    classes += [fargate("served", daemon="image")]
    graph = registered(lambda: cluster(classes=classes).class_security_group_ids)
    called = {
        (rule.group, rule.ports)
        for resource in rules(graph, "Ingress", "eks-class-served-id")
        for rule in [read(resource)]
    }
    assert called == {
        ("sg-cluster", (10250, 10250)),
        ("sg-nodes", (49983, 49983)),
        ("eks-class-nodes-id", (80, 80)),
    }
    names = [rule.name for rule in rules(graph, "Ingress", "eks-class-served-id")]
    assert len(set(names)) == len(names)


def test_the_cluster_lets_in_for_the_api_and_for_names_those_who_have_them(graph: Graph) -> None:
    let_in = {
        (rule.inputs["referencedSecurityGroupId"], rule.inputs["ipProtocol"], rule.inputs["fromPort"])
        for rule in rules(graph, "Ingress", "sg-cluster")
        if rule.inputs["referencedSecurityGroupId"] != "sg-nodes"
    }
    assert let_in == {(OPEN, "tcp", 443), (OPEN, "tcp", 53), (OPEN, "udp", 53), (CLOSED, "tcp", 443)}


def test_another_class_or_another_grant_renames_nothing(graph: Graph) -> None:
    more = [*CLASSES, fargate("third", capabilities=["dns"])]
    more[1] = fargate("closed", capabilities=[{"cidr": "198.51.100.0/24", "ports": [22]}])
    after = {resource.key: resource.inputs for resource in registered(lambda: cluster(classes=more)).resources}
    assert {resource.key: after.get(resource.key) for resource in graph.resources} == {
        resource.key: resource.inputs for resource in graph.resources
    }


def test_more_rules_than_an_interface_can_have_are_refused_with_the_count() -> None:
    many = [{"cidr": f"198.51.{number}.0/24", "ports": [443]} for number in range(0, 128, 2)]
    ports = list(range(1, 12, 2))
    (mistake,) = mistakes(
        {"sandboxClasses": [fargate(capabilities=[{**capability, "ports": ports} for capability in many])]}
    )
    assert mistake.path == "agent-environment:sandboxClasses[0].capabilities"
    assert mistake.found == "385 outbound rules for IPv4"


@pytest.mark.parametrize(
    "classes",
    [
        [fargate("batch", capabilities=["dns", "web"]), fargate("batch-2", capabilities=["dns"])],
        [fargate("cluster"), fargate("caller", capabilities=[{"class": "cluster", "ports": [443]}])],
    ],
    ids=["called like another's second group", "called like the cluster"],
)
def test_no_two_of_all_classes_resources_have_one_name(classes: list[dict[str, Any]]) -> None:
    resources = registered(lambda: cluster(classes=classes).class_security_group_ids).resources
    assert len({(resource.type, resource.name) for resource in resources}) == len(resources)
    names = [resource.inputs["name"] for resource in resources if "securityGroup:SecurityGroup" in resource.type]
    assert len(set(names)) == len(names)
