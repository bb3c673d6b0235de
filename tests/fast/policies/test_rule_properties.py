"""What rules rest on, against plain readings of the same: folders, statements, and all policies of a pod together."""

from __future__ import annotations

from itertools import combinations
from posixpath import normpath
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentenv.core.capabilities.unknown_values import UNKNOWN
from agentenv.core.iam.patterns import matches
from agentenv.policies.offline import findings_of, resources_of_objects
from agentenv.policies.rules.efs.access_points import contains_path, path_segments
from agentenv.policies.rules.registry import all_rules
from agentenv.policies.verdicts import Finding, Verdict
from agentenv.policies.view.fields import Field
from agentenv.policies.view.iam.statements import statements
from agentenv.policies.view.resource import Resource
from agentenv.policies.view.tenants.tenants import name_hash

RULES = {rule.id: rule for rule in all_rules()}
parts = st.lists(st.sampled_from(["a", "b", "..", ".", "", "seats"]), max_size=6)
paths = parts.map(lambda found: "/" + "/".join(found))


def failed(findings: list[Finding]) -> list[Finding]:
    return [one for one in findings if one.verdict is Verdict.FAIL]


def names(findings: list[Finding]) -> set[str]:
    return {one.urn.rpartition("::")[2] for one in failed(findings)}


@given(paths)
def test_segments_are_those_of_the_normal_path(path: str) -> None:
    assert path_segments(path) == tuple(part for part in normpath(path).split("/") if part)


@given(paths, paths, paths)
def test_holding_is_an_order(one: str, other: str, third: str) -> None:
    a, b, c = path_segments(one), path_segments(other), path_segments(third)
    assert contains_path(a, a)
    assert not (contains_path(a, b) and contains_path(b, c)) or contains_path(a, c)
    assert not (contains_path(a, b) and contains_path(b, a)) or a == b


@given(st.lists(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3), min_size=1, max_size=5))
def test_folders_are_refused_just_where_two_meet(folders: list[list[str]]) -> None:
    points = [
        Resource(
            f"urn::{index}",
            "aws:efs/accessPoint:AccessPoint",
            f"{index}",
            {
                "fileSystemId": "fs-1",
                "rootDirectory": {"path": "/" + "/".join(folder)},
                "posixUser": {"uid": index + 1, "gid": 1},
                "tags": {"sandbox-user": f"{index}"},
            },
        )
        for index, folder in enumerate(folders)
    ]
    meet = any(one[: len(two)] == two or two[: len(one)] == one for one, two in combinations(folders, 2))
    assert bool(failed(findings_of(points, None, [RULES["EFS-04"]]))) == meet


labels = st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["a", "b"]), max_size=2)
directions = st.lists(st.sampled_from(["Ingress", "Egress"]), min_size=1, max_size=2, unique=True)
policies = st.lists(st.tuples(labels, directions), max_size=4)


def policy(index: int, selected: dict[str, str], types: list[str], **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": f"p{index}", "namespace": "sandbox-a"},
        "spec": {"podSelector": {"matchLabels": selected}, "policyTypes": types, **more},
    }


def sandbox(mine: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "agents.x-k8s.io/v1beta1",
        "kind": "Sandbox",
        "metadata": {"name": "s", "namespace": "sandbox-a"},
        "spec": {"podTemplate": {"metadata": {"labels": mine}, "spec": {"containers": []}}},
    }


@given(labels, policies)
def test_a_sandbox_is_bound_just_where_policies_that_select_it_name_both_directions(
    mine: dict[str, str], given_: list[tuple[dict[str, str], list[str]]]
) -> None:
    things = [policy(index, *one) for index, one in enumerate(given_)]
    bound = {way for selected, types in given_ if selected.items() <= mine.items() for way in types}
    found = findings_of(resources_of_objects([*things, sandbox(mine)]), None, [RULES["NET-01"]])
    assert bool(failed(found)) == (bound != {"Ingress", "Egress"})


ranges = st.sampled_from(
    ["0.0.0.0/0", "10.0.0.0/8", "169.254.0.0/16", "203.0.113.0/24", "172.20.0.0/16", "100.64.0.0/10"]
)
blocks = st.lists(st.tuples(ranges, st.lists(ranges, max_size=3)), min_size=1, max_size=3)


@given(blocks, st.integers(0, 2))
def test_an_exception_less_is_never_better(blocks_: list[tuple[str, list[str]]], place: int) -> None:
    def judged(written: list[tuple[str, list[str]]]) -> set[str]:
        to = [{"ipBlock": {"cidr": cidr, "except": left_out}} for cidr, left_out in written]
        egress = [{"to": to, "ports": [{"port": 443}]}]
        return names(
            findings_of(resources_of_objects([policy(0, {}, ["Egress"], egress=egress)]), None, [RULES["NET-02"]])
        )

    index = place % len(blocks_)
    weaker = [(cidr, left_out[1:] if at == index else left_out) for at, (cidr, left_out) in enumerate(blocks_)]
    assert judged(blocks_) <= judged(weaker)


actions = st.sampled_from(["iam:PassRole", "s3:GetObject", "s3:PutObject", "ec2:RunInstances"])
patterns = st.sampled_from(
    ["*", "iam:*", "iam:Pass*", "IAM:PASSROLE", "s3:Get*", "s3:?utObject", "ec2:Run*", "*:GetObject"]
)


@given(actions, st.lists(patterns, min_size=1, max_size=3))
def test_what_is_not_among_the_actions_is_among_all_but_those(action: str, given_: list[str]) -> None:
    listed, others = (statements(Field("", "", {"Statement": {key: given_}}))[0] for key in ("Action", "NotAction"))
    matching = any(matches(pattern.lower(), action.lower()) for pattern in given_)
    assert listed.matches_action(action) == matching
    assert others.matches_action(action) is not matching


@given(st.lists(patterns, min_size=1, max_size=3), st.integers(0, 2))
def test_an_action_that_is_not_known_never_passes_what_fails(given_: list[str], place: int) -> None:
    def judged(written: list[object]) -> set[Verdict]:
        document = {"Statement": [{"Effect": "Allow", "Action": written, "Resource": "*"}]}
        one = Resource("urn::p", "aws:iam/policy:Policy", "p", {"policy": document})
        return {found.verdict for found in findings_of([one], None, [RULES["IAM-05"]])}

    unclear: list[object] = [UNKNOWN if index == place % len(given_) else text for index, text in enumerate(given_)]
    if Verdict.FAIL in judged([*given_]):
        assert judged(unclear) & {Verdict.FAIL, Verdict.INDETERMINATE}


@given(st.lists(patterns, min_size=1, max_size=3))
def test_what_denies_is_never_too_much(given_: list[str]) -> None:
    document = {"Statement": [{"Effect": "Deny", "Action": given_, "Resource": "*"}]}
    one = Resource("urn::p", "aws:iam/policy:Policy", "p", {"policy": document})
    assert not failed(findings_of([one], None, [RULES["IAM-05"]]))


kinds = st.sampled_from(
    [
        ("iam:PutRolePolicy", "iam", "role/"),
        ("iam:CreateAccessKey", "iam", "user/"),
        ("secretsmanager:GetSecretValue", "secretsmanager", "secret:"),
        ("kms:Decrypt", "kms", "key/"),
        ("ssm:GetParameters", "ssm", "parameter/"),
        ("s3:GetObject", "s3", "*/"),
    ]
)
places = st.tuples(st.sampled_from(["aws", "*", "aws-cn"]), st.sampled_from(["*", "", "us-east-1"]))
stars = st.sampled_from(["*", "**", "?*", "*?"])
some = st.sampled_from(["app", "app-*", "*-app", "a/*", "app?"])
idle = st.sampled_from(
    [
        {},
        {"Bool": {"aws:SecureTransport": "true"}},
        {"StringEquals": {"aws:RequestedRegion": ["eu-west-1"]}},
        {"StringLike": {"aws:PrincipalArn": ["arn:aws:iam::111122223333:role/app", "*"]}},
        {"IpAddress": {"aws:SourceIp": "0.0.0.0/0"}},
    ]
)


@given(kinds, places, stars | some, idle)
def test_a_star_for_every_one_of_a_kind_is_too_much_and_one_for_some_is_not(
    kind: tuple[str, str, str], place: tuple[str, str], name: str, condition: dict[str, Any]
) -> None:
    action, service, before = kind
    arn = f"arn:{place[0]}:{service}:{place[1]}:111122223333:{before}{name}"
    document = {"Statement": [{"Effect": "Allow", "Action": action, "Resource": ["x", arn], "Condition": condition}]}
    one = Resource("urn::p", "aws:iam/policy:Policy", "p", {"policy": document})
    assert bool(failed(findings_of([one], None, [RULES["IAM-05"]]))) == (not name.strip("*?"))


def test_names_are_hashed_as_the_controller_does() -> None:
    # FNV-1a's own test values
    assert (name_hash(""), name_hash("a"), name_hash("foobar")) == ("811c9dc5", "e40c292c", "bf9cf968")
