"""Security groups of classes on Fargate: the rules that AWS is asked for say what the class was granted."""

from __future__ import annotations

from typing import Any

import pytest

from agentenv.core.capabilities.cluster_facts import CLUSTER_RESOLVER, class_pods
from agentenv.core.capabilities.from_settings import cluster_facts, egress_of
from agentenv.core.capabilities.policies.security_group_rules import GroupRule, reach_of_rules
from agentenv.core.capabilities.sets.pods import Pods
from tests.fast.components.graph import Graph, Made, registered
from tests.fast.components.shapes import cluster
from tests.fast.config.stack_samples import fargate, mistakes, sandbox, settings

CLASSES = [
    fargate("open", capabilities=["dns", "web", {"class": "closed", "ports": [8080]}]),
    fargate("closed"),
    sandbox("on-nodes", capabilities=["web"]),
]
TOLD = settings({"sandboxClasses": CLASSES})
OPEN, SECOND, CLOSED = "eks-class-open-id", "eks-class-open-2-id", "eks-class-closed-id"
MEMBERS: dict[Pods, str] = {class_pods("closed"): CLOSED}
if CLUSTER_RESOLVER.pods is not None:
    MEMBERS[CLUSTER_RESOLVER.pods] = "sg-cluster"


@pytest.fixture(scope="module")
def made() -> Graph:
    return registered(lambda: cluster(classes=CLASSES).class_security_group_ids)


def rules(made: Graph, direction: str, *groups: str) -> list[Made]:
    return [one for one in made.of(f"SecurityGroup{direction}Rule") if one.inputs["securityGroupId"] in groups]


def read(one: Made) -> GroupRule:
    """A rule as AWS has it, in the model's words."""
    said = one.inputs
    protocol, cidr = said["ipProtocol"], said.get("cidrIpv4")
    ports = (max(1, int(said["fromPort"])), int(said["toPort"])) if "fromPort" in said else None
    return GroupRule(protocol, ports, cidr, said.get("referencedSecurityGroupId"), said["description"])


def test_each_class_on_fargate_has_groups_of_its_own_and_classes_on_nodes_have_none(made: Graph) -> None:
    assert made.result == {"open": [OPEN, SECOND], "closed": [CLOSED]}
    groups = [one for one in made.of("SecurityGroup") if "class" in one.name]
    assert {one.inputs["tags"]["sandbox-class"] for one in groups} == {"open", "closed"}
    for one in groups:
        # Inline rules and rules of their own would take each other away.
        assert not {"ingress", "egress"} & set(one.inputs)
        assert one.inputs["vpcId"] == "vpc-1"


def test_its_rules_allow_what_it_was_granted_and_its_kubelet_and_nothing_else(made: Graph) -> None:
    outward = [read(one) for one in rules(made, "Egress", OPEN, SECOND)]
    kubelet = [rule for rule in outward if rule.why == "the kubelet of this sandbox"]
    assert [(rule.group, rule.ports) for rule in kubelet] == [("sg-cluster", (443, 443))]
    granted = reach_of_rules([rule for rule in outward if rule not in kubelet], MEMBERS)
    (bounds,) = egress_of(TOLD.sandbox_classes[0], cluster_facts(TOLD, api=())).worlds.values()
    assert granted.same_as(bounds.least)
    # AWS takes no more in one group.
    assert all(len(rules(made, "Egress", group)) <= 60 for group in (OPEN, SECOND))


def test_names_are_those_that_stacks_have_had_from_the_first(made: Graph) -> None:
    # EC2 takes no rule twice: one under another name would be made before the one that is there goes.
    names = {one.name.partition("class-")[2] for one in rules(made, "Egress", OPEN) if "cidrIpv4" not in one.inputs}
    assert names == {
        "open-out-tcp-443-443-cluster",
        "open-out-tcp-53-53-cluster",
        "open-out-udp-53-53-cluster",
        "open-out-tcp-8080-8080-closed",
    }
    assert "eks-cluster-from-open-tcp-53-53-cluster" in {one.name for one in made.made}


def test_a_class_without_capabilities_reaches_the_control_plane_alone(made: Graph) -> None:
    (rule,) = rules(made, "Egress", CLOSED)
    assert (rule.inputs["referencedSecurityGroupId"], rule.inputs["fromPort"]) == ("sg-cluster", 443)


def test_a_class_is_called_by_the_control_plane_and_by_whom_was_granted_it(made: Graph) -> None:
    called = {(rule.group, rule.ports) for one in rules(made, "Ingress", CLOSED) for rule in [read(one)]}
    assert called == {("sg-cluster", (10250, 10250)), (OPEN, (8080, 8080))}
    assert all("cidrIpv4" not in one.inputs for one in rules(made, "Ingress", CLOSED, OPEN, SECOND))


def test_the_daemon_of_a_class_is_reached_from_the_nodes_and_by_a_name_that_no_class_takes() -> None:
    classes = [fargate("nodes", daemon="image", capabilities=[{"class": "served", "ports": [80]}])]
    classes += [fargate("served", daemon="image")]
    made = registered(lambda: cluster(classes=classes).class_security_group_ids)
    called = {(rule.group, rule.ports) for one in rules(made, "Ingress", "eks-class-served-id") for rule in [read(one)]}
    assert called == {
        ("sg-cluster", (10250, 10250)),
        ("sg-nodes", (49983, 49983)),
        ("eks-class-nodes-id", (80, 80)),
    }
    names = [one.name for one in rules(made, "Ingress", "eks-class-served-id")]
    assert len(set(names)) == len(names)


def test_the_cluster_lets_in_for_the_api_and_for_names_those_who_have_them(made: Graph) -> None:
    let_in = {
        (one.inputs["referencedSecurityGroupId"], one.inputs["ipProtocol"], one.inputs["fromPort"])
        for one in rules(made, "Ingress", "sg-cluster")
        if one.inputs["referencedSecurityGroupId"] != "sg-nodes"
    }
    assert let_in == {(OPEN, "tcp", 443), (OPEN, "tcp", 53), (OPEN, "udp", 53), (CLOSED, "tcp", 443)}


def test_another_class_or_another_grant_renames_nothing(made: Graph) -> None:
    more = [*CLASSES, fargate("third", capabilities=["dns"])]
    more[1] = fargate("closed", capabilities=[{"cidr": "198.51.100.0/24", "ports": [22]}])
    after = {one.key: one.inputs for one in registered(lambda: cluster(classes=more)).made}
    assert {one.key: after.get(one.key) for one in made.made} == {one.key: one.inputs for one in made.made}


def test_more_rules_than_an_interface_can_have_are_refused_with_the_count() -> None:
    many = [{"cidr": f"198.51.{number}.0/24", "ports": [443]} for number in range(0, 128, 2)]
    ports = list(range(1, 12, 2))
    (mistake,) = mistakes({"sandboxClasses": [fargate(capabilities=[{**one, "ports": ports} for one in many])]})
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
    made = registered(lambda: cluster(classes=classes).class_security_group_ids).made
    assert len({(one.type, one.name) for one in made}) == len(made)
    names = [one.inputs["name"] for one in made if "securityGroup:SecurityGroup" in one.type]
    assert len(set(names)) == len(names)
