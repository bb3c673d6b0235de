"""Tests of containment: a child is within its parent if the parent allows everything that the child may do."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fnmatch import fnmatchcase
from itertools import product as combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentenv.core.capabilities.cluster_facts import ClusterFacts, Proxy, Service
from agentenv.core.capabilities.containment import Answer, Verdict, decide, decide_reach
from agentenv.core.capabilities.envelope import Envelope, Identity, PathRight, Statement, Tier
from agentenv.core.capabilities.grants import Addresses, Domain, Grant, Named, OtherClass
from agentenv.core.capabilities.policies.effective_policy import effective
from agentenv.core.capabilities.policies.network_policy import network_policy
from agentenv.core.capabilities.resolve import resolve
from agentenv.core.capabilities.sets.boxes import ALL_PORTS, Box, BoxSet, Point, product
from agentenv.core.capabilities.sets.domains import Name
from agentenv.core.capabilities.sets.intervals import Intervals
from agentenv.core.capabilities.sets.pods import PodPorts, Pods
from agentenv.core.capabilities.sets.reach import EVERYTHING, NOTHING, Bounds, Reach, Uncertain
from agentenv.core.capabilities.unknown_values import UNKNOWN, Unknown
from agentenv.core.iam.patterns import TooIntricateError, coverings, uncovered

laws = settings(deadline=None, max_examples=50)

# Five bits of address and three of port; pods of two namespaces; names that contain one another.
ends = st.tuples(st.integers(0, 31), st.integers(0, 31)).map(lambda second: (min(second), max(second)))
ports = st.tuples(st.integers(1, 7), st.integers(1, 7)).map(lambda second: (min(second), max(second)))
boxes = st.builds(Box, st.sampled_from((4, 6)), st.sampled_from(("TCP", "UDP")), ends, ports)
pod_ports = st.builds(
    PodPorts,
    st.sampled_from((Pods(), Pods.labelled("a", {}), Pods.labelled("a", {"app": "x"}), Pods.labelled("b", {}))),
    st.just("TCP"),
    ports.map(lambda span: Intervals((span,))),
)
names = st.builds(Name, st.sampled_from(("*", "*.a.b", "x.a.b", "a.b")), ports.map(lambda span: Intervals((span,))))
reaches = st.builds(
    lambda some, through, named: Reach(BoxSet.of(some), through, named),
    st.lists(boxes, max_size=3),
    st.frozensets(pod_ports, max_size=2),
    st.frozensets(names, max_size=2),
)
bounds = st.builds(lambda first, second: Bounds(first, first | second, ("something",)), reaches, reaches)


def answer(child: Uncertain, parent: Uncertain) -> Answer:
    found = decide_reach(child, parent)
    return Answer.YES if found is None else found.answer


@laws
@given(reaches, reaches)
def test_known_reaches_are_decided_and_the_counterexample_is_one(child: Reach, parent: Reach) -> None:
    found = decide_reach(Uncertain.known(child), Uncertain.known(parent))
    assert (found is None) == (child <= parent)
    if found is not None:
        assert found.answer is Answer.NO
        assert found.exceeds
        assert found.exceeds <= child
        assert not found.exceeds & parent
        assert found.exceeds.same_as(child - parent)


@laws
@given(reaches, reaches, reaches)
def test_containment_of_reaches_is_an_order(first: Reach, second: Reach, third: Reach) -> None:
    mine, theirs, others = (Uncertain.known(each) for each in (first, second, third))
    assert answer(mine, mine) is Answer.YES
    assert answer(mine, Uncertain.known(first | second)) is Answer.YES
    assert answer(Uncertain.known(first & second), mine) is Answer.YES
    if answer(mine, theirs) is answer(theirs, others) is Answer.YES:
        assert answer(mine, others) is Answer.YES
    assert (answer(mine, theirs) is answer(theirs, mine) is Answer.YES) == first.same_as(second)


@laws
@given(reaches, reaches, reaches)
def test_union_and_intersection_of_reaches_are_those_of_sets(first: Reach, second: Reach, third: Reach) -> None:
    assert (first | second).same_as(second | first)
    assert (first & second).same_as(second & first)
    assert (first & (second | third)).same_as((first & second) | (first & third))
    assert (first | (second & third)).same_as((first | second) & (first | third))
    assert (first - (second | third)).same_as((first - second) & (first - third))
    assert (first | (first & second)).same_as(first)
    assert ((first - second) | (first & second)).same_as(first)
    assert not (first - second) & second
    # Two classes stay within a parent exactly when what they have together does, and the other way round.
    mine = [Uncertain.known(each) for each in (first, second, first | second, first & second, third)]
    assert (answer(mine[0], mine[4]) is answer(mine[1], mine[4]) is Answer.YES) == (
        answer(mine[2], mine[4]) is Answer.YES
    )
    assert (answer(mine[4], mine[0]) is answer(mine[4], mine[1]) is Answer.YES) == (
        answer(mine[4], mine[3]) is Answer.YES
    )


EVERY_POINT = [
    Point(version, protocol, address, port)
    for version, protocol, address, port in combinations((4, 6), ("TCP", "UDP"), range(32), range(1, 8))
]


@laws
@given(st.lists(boxes, max_size=4), st.lists(boxes, max_size=4))
def test_containment_agrees_with_trying_every_destination(child: list[Box], parent: list[Box]) -> None:
    def among(some: list[Box]) -> set[Point]:
        return {
            point
            for point in EVERY_POINT
            for box in some
            if (box.version, box.protocol) == (point.version, point.protocol)
            and box.addresses[0] <= point.address <= box.addresses[1]
            and box.ports[0] <= point.port <= box.ports[1]
        }

    mine, theirs = Reach(BoxSet.of(child)), Reach(BoxSet.of(parent))
    found = decide_reach(Uncertain.known(mine), Uncertain.known(theirs))
    outside = among(child) - among(parent)
    assert (found is None) == (not outside)
    if found is not None:
        assert {point for point in EVERY_POINT if point in found.exceeds.boxes} == outside


@laws
@given(bounds, bounds, st.tuples(st.booleans(), st.booleans()))
def test_answer_holds_for_every_value_of_the_unknown_facts(
    child: Bounds, parent: Bounds, turned_out: tuple[bool, bool]
) -> None:
    found = answer(Uncertain.between(child), Uncertain.between(parent))
    assert (found is Answer.YES) == (child.most <= parent.least)
    assert (found is Answer.NO) == (not child.least <= parent.most)
    mine = child.most if turned_out[0] else child.least
    theirs = parent.most if turned_out[1] else parent.least
    if found is not Answer.INDETERMINATE:
        assert (mine <= theirs) == (found is Answer.YES)


letters = st.text("ab*?", max_size=4)


def texts() -> list[str]:
    return ["".join(letter) for length in range(6) for letter in combinations("abc", repeat=length)]


TEXTS = texts()


@laws
@given(letters, st.lists(letters, max_size=3))
def test_patterns_agree_with_brute_force(pattern: str, others: list[str]) -> None:
    found = uncovered(pattern, others)
    outside = [text for text in TEXTS if fnmatchcase(text, pattern) and not any(fnmatchcase(text, o) for o in others)]
    if found is None:
        assert not outside
    else:
        assert fnmatchcase(found, pattern)
        assert not any(fnmatchcase(found, second) for second in others)
        assert len(found) <= min((len(text) for text in outside), default=len(found))
    for allowing, text in coverings(pattern, others).items():
        assert {index for index, second in enumerate(others) if fnmatchcase(text, second)} == allowing


def test_patterns_that_cover_another_together_are_seen_to() -> None:
    assert uncovered("a?", ["a*b", "a[!b]"]) is not None
    assert uncovered("?*", ["a*", "?"]) == "ba"
    assert uncovered("s3:*", ["s3:Get*", "s3:*"]) is None
    with pytest.raises(TooIntricateError):
        uncovered("*", [f"*{'?' * index}a{'?' * 14}{'b' * index}" for index in range(6)])


tiers: st.SearchStrategy[Tier] = st.sampled_from(("verified", "standard", "untrusted"))
paths = st.frozensets(
    st.builds(
        PathRight, st.sampled_from(("v", "w")), st.sampled_from(("/", "/a", "/a/b", "/a/../a", "/b")), st.booleans()
    ),
    max_size=3,
)
statements = st.frozensets(
    st.builds(
        Statement, st.sampled_from(("s3:*", "s3:Get*", "s3:GetObject", "*")), st.sampled_from(("*", "b/*", "b/x"))
    ),
    max_size=2,
)
identities = st.builds(Identity, st.frozensets(st.sampled_from(("p", "q")), max_size=2), statements)
envelopes = st.builds(
    Envelope,
    reaches.map(Uncertain.known),
    reaches.map(Uncertain.known),
    tiers,
    paths,
    identities,
    st.none() | st.integers(1, 3),
    st.none() | st.sampled_from((Decimal(1), Decimal("2.5"))),
)


@laws
@given(envelopes, envelopes, envelopes)
def test_containment_of_everything_together_is_an_order(first: Envelope, second: Envelope, third: Envelope) -> None:
    assert decide(first, first).answer is Answer.YES
    if decide(first, second).answer is decide(second, third).answer is Answer.YES:
        assert decide(first, third).answer is Answer.YES
    assert decide(first, second).answer is not Answer.INDETERMINATE
    if decide(first, second).answer is decide(second, first).answer is Answer.YES:
        assert (first.tier, first.lifetime, first.budget) == (second.tier, second.lifetime, second.budget)
        assert first.egress.at(frozenset()).least.same_as(second.egress.at(frozenset()).least)
        assert decide(first, third).answer is decide(second, third).answer
        assert decide(third, first).answer is decide(third, second).answer


ROOMY = Envelope(
    Uncertain.known(EVERYTHING),
    Uncertain.known(EVERYTHING),
    "verified",
    frozenset({PathRight("home", "/a")}),
    Identity(frozenset({"p"}), frozenset({Statement("s3:Get*", "b/*"), Statement("ec2:*", "*", conditional=True)})),
    3600,
    Decimal(10),
)


@pytest.mark.parametrize(
    ("child", "words"),
    [
        (Envelope(tier="verified", lifetime=1, budget=Decimal(1)), ""),
        (Envelope(tier="verified", lifetime=None, budget=Decimal(1)), "has a lifetime for ever, and its parent 3600"),
        (Envelope(tier="verified", lifetime=3601, budget=Decimal(1)), "lives 3601 seconds, and its parent 3600"),
        (Envelope(tier="verified", lifetime=1), "has a budget without bound, and its parent 10"),
        (
            Envelope(tier="verified", lifetime=1, budget=Decimal(1), paths=frozenset({PathRight("home", "/a/../b")})),
            "may write /b of volume home, which its parent may not",
        ),
        (
            Envelope(tier="verified", lifetime=1, budget=Decimal(1), identity=Identity(frozenset({"q"}))),
            "has the policy q, which its parent has not",
        ),
        (
            Envelope(
                tier="verified",
                lifetime=1,
                budget=Decimal(1),
                identity=Identity(statements=frozenset({Statement("s3:*", "b/*")})),
            ),
            "may call s3: on b/, which its parent may not",
        ),
    ],
)
def test_each_part_names_what_exceeds_it(child: Envelope, words: str) -> None:
    found = decide(child, ROOMY)
    assert ("; ".join(finding.words for finding in found.findings)) == words
    assert found.answer is (Answer.NO if words else Answer.YES)


def test_a_child_may_not_write_what_its_parent_only_reads() -> None:
    reads, writes = (
        Envelope(tier="standard", paths=frozenset({PathRight("home", "/a", write=write)})) for write in (False, True)
    )
    assert decide(reads, writes).answer is Answer.YES
    assert str(decide(writes, reads)) == "may write /a of volume home, which its parent may not"


def test_a_child_less_walled_off_than_its_parent_is_refused() -> None:
    found = decide(Envelope(tier="standard"), Envelope(tier="untrusted"))
    assert (found.answer, str(found)) == (
        Answer.NO,
        "is of tier standard, less isolated than its parent's untrusted",
    )


def with_tier(tier: Tier | Unknown) -> Envelope:
    return Envelope(tier=tier)


@pytest.mark.parametrize(
    ("child", "parent", "expected"),
    [
        (with_tier(UNKNOWN), with_tier("verified"), Answer.YES),
        (with_tier(UNKNOWN), with_tier("standard"), Answer.INDETERMINATE),
        (with_tier("untrusted"), with_tier(UNKNOWN), Answer.YES),
        (Envelope(tier="standard", paths=UNKNOWN), with_tier("standard"), Answer.INDETERMINATE),
        (with_tier("standard"), Envelope(tier="standard", paths=UNKNOWN), Answer.YES),
        (Envelope(tier="standard", identity=UNKNOWN), with_tier("standard"), Answer.INDETERMINATE),
        (with_tier("standard"), Envelope(tier="standard", identity=UNKNOWN), Answer.YES),
        (Envelope(tier="standard", lifetime=UNKNOWN), with_tier("standard"), Answer.YES),
        (Envelope(tier="standard", lifetime=UNKNOWN), Envelope(tier="standard", lifetime=5), Answer.INDETERMINATE),
        (Envelope(tier="standard", lifetime=5), Envelope(tier="standard", lifetime=UNKNOWN), Answer.INDETERMINATE),
    ],
)
def test_unknown_is_everything_in_the_child_and_nothing_in_the_parent(
    child: Envelope, parent: Envelope, expected: Answer
) -> None:
    assert decide(child, parent).answer is expected


def test_a_right_under_a_condition_is_no_certain_right() -> None:
    conditional = Envelope(
        tier="standard", identity=Identity(statements=frozenset({Statement("a:B", "*", conditional=True)}))
    )
    plain = Envelope(tier="standard", identity=Identity(statements=frozenset({Statement("a:B", "*")})))
    assert decide(conditional, plain).answer is Answer.YES
    assert decide(plain, conditional).answer is Answer.INDETERMINATE
    assert decide(conditional, Envelope(tier="standard")).answer is Answer.INDETERMINATE


# What follows is about classes: the words of the settings, in one cluster.

BEFORE = ClusterFacts(vpc=("10.40.0.0/16",), services=("172.20.0.0/16",))
AFTER = ClusterFacts(vpc=("10.40.0.0/16",), services=("172.20.0.0/16",), api=("54.1.2.3",))
SSH = Intervals.single(22)


def compared(child: list[Grant], parent: list[Grant], cluster: ClusterFacts) -> Verdict:
    found = decide_reach(resolve(child, cluster), resolve(parent, cluster), cluster=cluster)
    return Verdict(() if found is None else (found,))


@pytest.mark.parametrize("cluster", [BEFORE, AFTER, ClusterFacts()])
@pytest.mark.parametrize(
    ("child", "parent"),
    [
        ([], []),
        ([Named("web")], [Named("web")]),
        ([Named("dns"), Named("packages")], [Named("web"), Named("dns")]),
        ([Named("web")], [Named("git")]),
        ([Named("web"), Named("vpc")], [Named("vpc"), Named("web"), Named("dns")]),
        ([Addresses("198.51.100.0/25", SSH)], [Addresses("198.51.100.0/24", SSH)]),
        ([Addresses("198.51.100.0/24", SSH)], [Addresses("198.51.100.0/25", SSH), Addresses("198.51.100.128/25", SSH)]),
    ],
)
def test_a_class_within_its_parent_is_within_it_before_anything_is_known(
    child: list[Grant], parent: list[Grant], cluster: ClusterFacts
) -> None:
    assert compared(child, parent, cluster).answer is Answer.YES


@pytest.mark.parametrize("cluster", [BEFORE, AFTER])
@pytest.mark.parametrize(
    ("child", "parent", "words"),
    [
        ([Named("dns")], [Named("web")], "a pod labelled k8s-app=kube-dns in namespace kube-system on TCP port 53"),
        ([Named("git")], [Named("web")], "may reach 1.0.0.0 on TCP port 22 (of 1.0.0.0 to 9.255.255.255)"),
        ([Named("metadata")], [Named("web"), Named("vpc")], "169.254.169.254, where credentials are handed out,"),
        (
            [Addresses("10.99.0.0/24", SSH)],
            [Addresses("0.0.0.0/0", Intervals.single(443))],
            "may reach 10.99.0.0, which is private, on TCP port 22 (of 10.99.0.0 to 10.99.0.255), which its parent",
        ),
        (
            [Addresses("0.0.0.0/0", protocol=None)],
            [Addresses("0.0.0.0/0")],
            "0.0.0.0, which is this host, on UDP port 1",
        ),
        ([OtherClass("db", SSH)], [OtherClass("web", SSH)], "a pod labelled sandbox.users.io/class=db in namespace"),
    ],
)
def test_class_that_exceeds_its_parent_has_the_place(
    child: list[Grant], parent: list[Grant], words: str, cluster: ClusterFacts
) -> None:
    found = compared(child, parent, cluster)
    assert found.answer is Answer.NO
    assert words in str(found)


def test_what_turns_on_an_unknown_fact_names_it() -> None:
    one_address: list[Grant] = [Addresses("54.1.2.3/32", SSH)]
    found = compared(one_address, [], BEFORE)
    assert found.answer is Answer.INDETERMINATE
    assert str(found) == "whether it may reach more than its parent depends on the addresses of the API server"
    squid = Service(Pods.labelled("egress", {"app": "squid"}), Intervals.single(3128))
    # The proxy is no part of the question where no name is.
    web: list[Grant] = [Named("web")]
    assert str(compared(one_address, web, replace(BEFORE, proxy=Proxy(squid)))) == str(found)
    # Names that a proxy holds lead to the internet only if it refuses to follow them elsewhere.
    answers = {
        refuses: compared(
            [Domain("pypi.org", Intervals.single(443))],
            [Named("web")],
            ClusterFacts(vpc=(), services=(), api=(), proxy=Proxy(squid, refuses)),
        ).answer
        for refuses in (True, False, None)
    }
    assert answers == {True: Answer.YES, False: Answer.NO, None: Answer.INDETERMINATE}


def test_existing_policies_are_compared_with_a_class() -> None:
    cluster = ClusterFacts(vpc=(), services=(), api=(), resolver_addresses=("172.20.0.10",))
    parent = resolve([Named("dns"), Named("web")], cluster)
    labels = {"sandbox.users.io/class": "standard"}
    own = network_policy("standard", parent.at(frozenset()).least, cluster)
    hole = {
        "metadata": {"name": "hole", "namespace": "sandbox-standard"},
        "spec": {"podSelector": {}, "egress": [{"to": [{"ipBlock": {"cidr": "169.254.0.0/16"}}]}]},
    }
    by_address = {
        "metadata": {"name": "dns", "namespace": "sandbox-standard"},
        "spec": {
            "podSelector": {},
            "egress": [{"to": [{"ipBlock": {"cidr": "172.20.0.10/32"}}], "ports": [{"protocol": "UDP", "port": 53}]}],
        },
    }

    def judged(*policies: dict[str, object], within: Uncertain = parent) -> Verdict:
        found = effective(policies, "sandbox-standard", labels)
        finding = decide_reach(Uncertain.between(found), within, cluster=cluster)
        return Verdict(() if finding is None else (finding,))

    assert judged(own).answer is Answer.YES
    assert judged(own, by_address).answer is Answer.YES
    without_dns = resolve([Named("web")], cluster)
    assert "172.20.0.10" in str(judged(by_address, within=without_dns))
    assert "169.254.0.0, which is link-local" in str(judged(own, hole))
    assert judged().answer is Answer.NO
    unknown = judged({"metadata": {"name": "later", "namespace": "sandbox-standard"}, "spec": UNKNOWN})
    assert unknown.answer is Answer.INDETERMINATE
    assert "whether NetworkPolicy later selects the pod" in str(unknown)


def test_everything_exceeds_any_parent_that_has_bounds() -> None:
    most = Reach(product((4, 6), ("TCP", "UDP", "SCTP"), Intervals.single(0, 2**32 - 1), ALL_PORTS))
    assert answer(Uncertain.known(EVERYTHING), Uncertain.known(most)) is Answer.NO
    assert answer(Uncertain.known(most), Uncertain.known(EVERYTHING)) is Answer.YES
    assert answer(Uncertain.known(NOTHING), Uncertain.known(NOTHING)) is Answer.YES
