"""Tests of cluster facts, envelopes and classes that exceed their parents, from a stack file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

import pytest

from agentenv.config import Mistakes, read
from agentenv.config.sections.capabilities import WORDS, Word
from agentenv.core.capabilities.cluster_facts import class_pods
from agentenv.core.capabilities.containment import Answer
from agentenv.core.capabilities.envelope import Identity, PathRight
from agentenv.core.capabilities.from_settings import (
    cluster_facts,
    egress_of,
    envelope_of,
    ingress_of,
    parent_violations,
    refused_grants,
)
from agentenv.core.capabilities.grants import Addresses, Domain, Named, OtherClass, grants_of
from agentenv.core.capabilities.sets.boxes import ALL_PORTS
from agentenv.core.capabilities.sets.intervals import Intervals
from agentenv.core.capabilities.sets.pods import PodPorts

if TYPE_CHECKING:
    from agentenv.config import Settings

IMAGE = f"registry.example.com/agent@sha256:{'0' * 64}"


def settings(*classes: dict[str, Any], **sections: object) -> Settings:
    document: dict[str, object] = {f"agent-environment:{name}": value for name, value in sections.items()}
    document["agent-environment:sandboxClasses"] = [{"image": IMAGE, **class_} for class_ in classes]
    document.setdefault("agent-environment:cluster", {"publicAccessCidrs": ["203.0.113.0/24"]})
    return read({"aws:region": "us-east-1", **document}, "dev")


def test_every_word_of_the_settings_is_described_and_grants_something() -> None:
    assert set(get_args(Word)) == set(WORDS)
    for word in WORDS:
        [granted] = settings({"name": "a", "capabilities": [word]}).sandbox_classes
        assert grants_of(granted.capabilities) == (Named(word),)


def test_written_grants_are_read_in_their_order() -> None:
    environment = settings(
        {"name": "db"},
        {
            "name": "a",
            "capabilities": [
                "dns",
                {"cidr": "198.51.100.0/24", "ports": [22, 23, 80], "protocol": "udp"},
                {"class": "db", "ports": [5432]},
                {"domain": "*.pypi.org"},
            ],
        },
        network={"egressProxy": {"namespace": "egress", "app": "squid"}},
    )
    assert grants_of(environment.sandbox_classes[1].capabilities) == (
        Named("dns"),
        Addresses("198.51.100.0/24", Intervals(((22, 23), (80, 80))), "UDP"),
        OtherClass("db", Intervals.single(5432)),
        Domain("*.pypi.org", ALL_PORTS),
    )


def test_cluster_facts_follow_the_settings_and_are_unknown_otherwise() -> None:
    environment = cluster_facts(settings(network={"cidr": "10.50.0.0/16", "peers": ["10.60.0.0/16"]}))
    assert (environment.vpc, environment.services, environment.neighbours) == (
        ("10.50.0.0/16",),
        ("172.20.0.0/16",),
        ("10.60.0.0/16",),
    )
    assert environment.unknown == {"api"}
    assert cluster_facts(settings(), api=("54.1.2.3",)).unknown == frozenset()
    assert environment.proxy is None
    adopted = settings(
        network={
            "existing": {"vpcId": "vpc-0123456789abcdef0", "privateSubnetIds": ["subnet-01234567", "subnet-12345678"]}
        }
    )
    assert cluster_facts(adopted).vpc is None


def test_granted_class_is_admitted_and_no_other() -> None:
    environment = settings(
        {"name": "db"},
        {"name": "a", "capabilities": [{"class": "db", "ports": [5432]}, {"class": "db", "ports": [5433]}]},
        {"name": "b", "capabilities": ["dns"]},
    )
    database, caller, _ = environment.sandbox_classes
    assert ingress_of(database, environment).pod_ports == {
        PodPorts(class_pods("a"), "TCP", Intervals.single(5432, 5433))
    }
    assert not ingress_of(caller, environment)


def test_envelope_has_every_right_of_a_class() -> None:
    policy = "arn:aws:iam::111122223333:policy/read"
    environment = settings(
        {
            "name": "a",
            "budget": "2.50",
            "maxLifetime": "2d",
            "storage": {"kind": "shared"},
            "identity": {"kind": "irsa", "policies": [policy]},
        },
        {
            "name": "edge",
            "compute": "fargate",
            "tier": "untrusted",
            "architecture": "amd64",
            "storage": {"kind": "none"},
        },
        cost={"perUserCap": 3},
    )
    mine, edge = (envelope_of(sandbox_class, environment) for sandbox_class in environment.sandbox_classes)
    assert (mine.tier, mine.lifetime, str(mine.budget)) == ("standard", 172_800, "2.50")
    assert mine.identity == Identity(frozenset({policy}))
    assert mine.paths == {PathRight("its own", "/"), PathRight("its task's", "/")}
    assert (edge.tier, edge.lifetime, edge.budget, edge.paths) == ("untrusted", None, 3, frozenset())
    assert not edge.egress.at(frozenset()).most
    # On Fargate every pod has a kernel of its own, whatever the class says of its tier.
    assert (
        envelope_of(environment.sandbox_classes[1].model_copy(update={"tier": "standard"}), environment).tier
        == "untrusted"
    )


def test_classes_that_exceed_their_parents_are_reported_with_a_counterexample() -> None:
    # Reading refuses such settings, so the parent comes in afterwards.
    apart = settings(
        {"name": "parent", "capabilities": ["dns", "web", "git"], "maxLifetime": "1d", "suspendAfter": "20m"},
        {"name": "within", "capabilities": ["dns", "packages"], "maxLifetime": "1d"},
        {"name": "longer", "capabilities": ["dns"]},
        {"name": "wider", "maxLifetime": "1h", "capabilities": ["web", {"cidr": "10.99.0.0/24", "ports": [22]}]},
    )
    parent, *children = apart.sandbox_classes
    under = tuple(child.model_copy(update={"parent": "parent"}) for child in children)
    environment = apart.model_copy(update={"sandbox_classes": (parent, *under)})
    found = {violation.name: violation for violation in parent_violations(environment)}
    assert set(found) == {"longer", "wider"}
    assert found["wider"].verdict.answer is Answer.NO
    assert str(found["wider"].verdict) == (
        "may reach 10.99.0.0, which is private, on TCP port 22 (of 10.99.0.0 to 10.99.0.255), which its parent may not"
    )
    assert str(found["longer"].verdict) == "has a lifetime for ever, and its parent 86400"


def test_mistake_in_a_grant_is_reported_for_its_class_only() -> None:
    beside = {"class": "called", "ports": [80]}
    wrong = {"name": "wrong", "capabilities": [{"domain": "example.com", "protocol": "udp"}, beside]}
    with pytest.raises(Mistakes) as raised:
        settings(wrong, {"name": "called"}, {"name": "other"})
    assert {mistake.path.partition(".")[0] for mistake in raised.value.mistakes} == {
        "agent-environment:sandboxClasses[0]"
    }


def test_impossible_grants_are_reported_with_their_path() -> None:
    environment = settings(
        {"name": "a", "capabilities": ["dns", "identity", {"cidr": "54.1.2.0/24"}, {"cidr": "203.0.113.0/24"}]},
    )
    # In the environment all of it can be; with nowhere to exchange tokens, and the API server in that range, it cannot.
    assert refused_grants(environment.sandbox_classes[0], cluster_facts(environment)) == ()
    cluster = replace(cluster_facts(environment, api=("54.1.2.0/24",)), exchange=None)
    refused = refused_grants(environment.sandbox_classes[0], cluster)
    assert [grant.index for grant in refused] == [1, 2]
    assert "lies within what is the cluster's own" in str(refused[1].error)


def test_the_words_of_a_class_resolve_in_its_own_environment() -> None:
    environment = settings({"name": "a", "capabilities": ["dns", "web"]})
    found = egress_of(environment.sandbox_classes[0], cluster_facts(environment, api=()))
    assert found.facts == frozenset()
    assert found.at(frozenset()).least.boxes


def test_identity_is_the_workspace_service_on_its_port() -> None:
    environment = settings({"name": "a", "capabilities": ["identity"]}, service={"port": 9090})
    (entry,) = egress_of(environment.sandbox_classes[0], cluster_facts(environment)).at(frozenset()).least.pod_ports
    assert (entry.pods.namespace, entry.protocol, entry.ports) == ("workspace-service", "TCP", Intervals.single(9090))
