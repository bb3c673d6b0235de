"""Tests of sets of pods and names, against brute force over small sets of labels and names."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentenv.core.capabilities.sets.boxes import ALL_PORTS
from agentenv.core.capabilities.sets.domains import Name, covers, example, named, names_left, names_shared, pattern
from agentenv.core.capabilities.sets.intervals import Intervals
from agentenv.core.capabilities.sets.pods import (
    ALL_PODS,
    NAMESPACE_NAME,
    Key,
    PodPorts,
    Pods,
    Values,
    remaining_pod_ports,
    shared_pod_ports,
)

laws = settings(deadline=None, max_examples=50)

NAME: Key = ("namespace", NAMESPACE_NAME)
APP: Key = ("pod", "app")
TEAM: Key = ("namespace", "team")
# `other` stands for all values no selector names; a namespace always has its name.
WORLD = [
    {NAME: name, APP: app, TEAM: team}
    for name, app, team in product(("a", "b", "other"), ("a", "b", "other", None), ("a", "b", "other", None))
]
PORTS = range(1, 4)

values = st.builds(Values, st.frozensets(st.sampled_from(("a", "b", None)), max_size=3), st.booleans())
keys: st.SearchStrategy[Key] = st.sampled_from((NAME, APP, TEAM))
conditions: st.SearchStrategy[dict[Key, Values]] = st.dictionaries(keys, values, max_size=3)
pods = conditions.map(Pods.of)
ports = st.frozensets(st.sampled_from(PORTS), min_size=1).map(lambda some: Intervals.of((port, port) for port in some))
pod_ports = st.lists(st.builds(PodPorts, pods, st.sampled_from(("TCP", "UDP")), ports), max_size=4)


def members(pods_: Pods) -> set[int]:
    return {index for index, pod in enumerate(WORLD) if all(pod[key] in pods_.at(key) for key in pod)}


def openings(some: list[PodPorts] | tuple[PodPorts, ...] | frozenset[PodPorts]) -> set[tuple[int, str, int]]:
    return {
        (pod, entry.protocol, port)
        for entry in some
        for pod in members(entry.pods)
        for port in PORTS
        if port in entry.ports
    }


@laws
@given(pods, pods)
def test_sets_of_pods_agree_with_brute_force(first: Pods, second: Pods) -> None:
    assert bool(first) == bool(members(first))
    assert members(first & second) == members(first) & members(second)
    pieces = first - second
    assert {pod for piece in pieces for pod in members(piece)} == members(first) - members(second)
    assert sum(len(members(piece)) for piece in pieces) == len(members(first) - members(second))


@laws
@given(pod_ports, pod_ports)
def test_subtraction_of_ports_agrees_with_brute_force(mine: list[PodPorts], theirs: list[PodPorts]) -> None:
    assert openings(remaining_pod_ports(mine, theirs)) == openings(mine) - openings(theirs)
    assert openings(shared_pod_ports(mine, theirs)) == openings(mine) & openings(theirs)
    assert bool(remaining_pod_ports(mine, theirs)) == bool(openings(mine) - openings(theirs))


@laws
@given(values)
def test_an_example_is_one_of_the_values(some: Values) -> None:
    if some:
        assert some.example in some


def test_every_named_namespace_is_every_namespace() -> None:
    everywhere = Pods.of({NAME: Values(frozenset({None}), all_but=True)})
    assert everywhere == ALL_PODS
    assert not Pods.of({NAME: Values(frozenset({None}))})


def test_two_selectors_that_cover_a_third_together_are_seen_to() -> None:
    ssh = Intervals.single(22)
    whole = PodPorts(Pods.labelled("a", {}), "TCP", ssh)
    with_app = PodPorts(
        Pods.of({NAME: Values(frozenset({"a"})), APP: Values(frozenset({None}), all_but=True)}), "TCP", ssh
    )
    without_app = PodPorts(Pods.of({NAME: Values(frozenset({"a"})), APP: Values(frozenset({None}))}), "TCP", ssh)
    assert not remaining_pod_ports([whole], [with_app, without_app])
    assert remaining_pod_ports([whole], [with_app]) == (without_app,)


HOSTS = ("a.b", "x.a.b", "y.a.b", "z.x.a.b", "b", "c.d")
patterns = st.sampled_from(("*", "a.b", "*.a.b", "x.a.b", "*.x.a.b", "*.b", "c.d"))
names = st.lists(st.builds(Name, patterns, ports), max_size=4)


def hosts(pattern: str) -> set[str]:
    """The hosts a pattern stands for, spelled out label by label; `fresh` is a label no exact name has."""
    world = {*HOSTS, "fresh", "fresh.a.b", "fresh.b", "fresh.x.a.b"}
    if pattern == "*":
        return world
    labels_ = pattern.split(".")
    return {
        host
        for host in world
        if len(host.split(".")) == len(labels_)
        and all(mine in {"*", theirs} for mine, theirs in zip(labels_, host.split("."), strict=True))
    }


def reached(some: list[Name] | tuple[Name, ...] | frozenset[Name]) -> set[tuple[str, int]]:
    return {
        (host, port)
        for name in some
        for host in hosts(name.pattern).difference(*map(hosts, name.less))
        for port in PORTS
        if port in name.ports
    }


@laws
@given(names, names)
def test_names_agree_with_brute_force(mine: list[Name], theirs: list[Name]) -> None:
    left = names_left(mine, theirs)
    assert reached(left) == reached(mine) - reached(theirs)
    # What is left has exceptions of its own, and is taken away and met like any other.
    assert reached(names_left(mine, left)) == reached(mine) & reached(theirs)
    assert reached(names_shared(left, mine)) == reached(left)
    assert not reached(names_shared(left, theirs))
    assert reached(names_shared(mine, theirs)) == reached(mine) & reached(theirs)


@laws
@given(patterns, patterns)
def test_a_pattern_covers_another_when_all_its_hosts_are_there(wide: str, narrow: str) -> None:
    assert covers(wide, narrow) == (hosts(narrow) <= hosts(wide))
    assert example(Name(narrow, ALL_PORTS)) in {host.replace("fresh", "any") for host in hosts(narrow)} | {
        "any.example"
    }


def test_domains_are_spelled_in_one_way() -> None:
    assert named("PyPI.org.") == Name("pypi.org", ALL_PORTS)


@pytest.mark.parametrize("text", ["", "a..b", "a.*.b", "**.a", "-a.b", "a b", "x" * 64 + ".a", "*.", "*"])
def test_what_is_no_domain_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no domain"):
        pattern(text)
