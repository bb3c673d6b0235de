"""Properties of rules, checked against simple models: paths, statements, and the policies of a pod."""

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
    return [finding for finding in findings if finding.verdict is Verdict.FAIL]


def names(findings: list[Finding]) -> set[str]:
    return {finding.urn.rpartition("::")[2] for finding in failed(findings)}


@given(paths)
def test_segments_are_those_of_the_normalized_path(path: str) -> None:
    assert path_segments(path) == tuple(part for part in normpath(path).split("/") if part)


@given(paths, paths, paths)
def test_containment_of_paths_is_a_partial_order(first: str, second: str, third: str) -> None:
    a, b, c = path_segments(first), path_segments(second), path_segments(third)
    assert contains_path(a, a)
    assert not (contains_path(a, b) and contains_path(b, c)) or contains_path(a, c)
    assert not (contains_path(a, b) and contains_path(b, a)) or a == b


@given(st.lists(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3), min_size=1, max_size=5))
def test_directories_fail_exactly_if_two_overlap(folders: list[list[str]]) -> None:
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
    meet = any(left[: len(right)] == right or right[: len(left)] == left for left, right in combinations(folders, 2))
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


def sandbox(labels_: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "agents.x-k8s.io/v1beta1",
        "kind": "Sandbox",
        "metadata": {"name": "s", "namespace": "sandbox-a"},
        "spec": {"podTemplate": {"metadata": {"labels": labels_}, "spec": {"containers": []}}},
    }


@given(labels, policies)
def test_a_sandbox_passes_exactly_if_its_policies_name_both_directions(
    own: dict[str, str], policies_: list[tuple[dict[str, str], list[str]]]
) -> None:
    manifests = [policy(index, *labels_and_types) for index, labels_and_types in enumerate(policies_)]
    directions_ = {direction for selected, types in policies_ if selected.items() <= own.items() for direction in types}
    findings = findings_of(resources_of_objects([*manifests, sandbox(own)]), None, [RULES["NET-01"]])
    assert bool(failed(findings)) == (directions_ != {"Ingress", "Egress"})


ranges = st.sampled_from(
    ["0.0.0.0/0", "10.0.0.0/8", "169.254.0.0/16", "203.0.113.0/24", "172.20.0.0/16", "100.64.0.0/10"]
)
blocks = st.lists(st.tuples(ranges, st.lists(ranges, max_size=3)), min_size=1, max_size=3)


@given(blocks, st.integers(0, 2))
def test_removing_an_exception_never_removes_a_failure(blocks_: list[tuple[str, list[str]]], place: int) -> None:
    def evaluated(entries: list[tuple[str, list[str]]]) -> set[str]:
        to = [{"ipBlock": {"cidr": cidr, "except": exceptions}} for cidr, exceptions in entries]
        egress = [{"to": to, "ports": [{"port": 443}]}]
        return names(
            findings_of(resources_of_objects([policy(0, {}, ["Egress"], egress=egress)]), None, [RULES["NET-02"]])
        )

    index = place % len(blocks_)
    weaker = [(cidr, exceptions[1:] if at == index else exceptions) for at, (cidr, exceptions) in enumerate(blocks_)]
    assert evaluated(blocks_) <= evaluated(weaker)


actions = st.sampled_from(["iam:PassRole", "s3:GetObject", "s3:PutObject", "ec2:RunInstances"])
patterns = st.sampled_from(
    ["*", "iam:*", "iam:Pass*", "IAM:PASSROLE", "s3:Get*", "s3:?utObject", "ec2:Run*", "*:GetObject"]
)


@given(actions, st.lists(patterns, min_size=1, max_size=3))
def test_not_action_is_the_complement_of_action(action: str, patterns_: list[str]) -> None:
    listed, others = (statements(Field("", "", {"Statement": {key: patterns_}}))[0] for key in ("Action", "NotAction"))
    matching = any(matches(pattern.lower(), action.lower()) for pattern in patterns_)
    assert listed.matches_action(action) == matching
    assert others.matches_action(action) is not matching


@given(st.lists(patterns, min_size=1, max_size=3), st.integers(0, 2))
def test_an_unknown_action_never_makes_a_failure_pass(patterns_: list[str], place: int) -> None:
    def evaluated(entries: list[object]) -> set[Verdict]:
        document = {"Statement": [{"Effect": "Allow", "Action": entries, "Resource": "*"}]}
        resource = Resource("urn::p", "aws:iam/policy:Policy", "p", {"policy": document})
        return {finding.verdict for finding in findings_of([resource], None, [RULES["IAM-05"]])}

    with_unknown: list[object] = [
        UNKNOWN if index == place % len(patterns_) else text for index, text in enumerate(patterns_)
    ]
    if Verdict.FAIL in evaluated([*patterns_]):
        assert evaluated(with_unknown) & {Verdict.FAIL, Verdict.INDETERMINATE}


@given(st.lists(patterns, min_size=1, max_size=3))
def test_a_denying_statement_never_fails(patterns_: list[str]) -> None:
    document = {"Statement": [{"Effect": "Deny", "Action": patterns_, "Resource": "*"}]}
    resource = Resource("urn::p", "aws:iam/policy:Policy", "p", {"policy": document})
    assert not failed(findings_of([resource], None, [RULES["IAM-05"]]))


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
def test_a_wildcard_fails_exactly_if_it_matches_every_resource_of_a_kind(
    kind: tuple[str, str, str], place: tuple[str, str], name: str, condition: dict[str, Any]
) -> None:
    action, service, before = kind
    arn = f"arn:{place[0]}:{service}:{place[1]}:111122223333:{before}{name}"
    document = {"Statement": [{"Effect": "Allow", "Action": action, "Resource": ["x", arn], "Condition": condition}]}
    resource = Resource("urn::p", "aws:iam/policy:Policy", "p", {"policy": document})
    assert bool(failed(findings_of([resource], None, [RULES["IAM-05"]]))) == (not name.strip("*?"))


def test_names_are_hashed_as_by_the_controller() -> None:
    # FNV-1a's own test values
    assert (name_hash(""), name_hash("a"), name_hash("foobar")) == ("811c9dc5", "e40c292c", "bf9cf968")
