"""Tests of names: within their limit, unique, and of the characters that their service accepts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentenv.core.values.names import KINDS, SHORTEST_LIMIT, InvalidNameError, fit, named

NAMES = st.text(max_size=200)
LIMITS = st.integers(SHORTEST_LIMIT, 128)


@given(NAMES, LIMITS)
def test_a_name_never_exceeds_its_limit(name: str, limit: int) -> None:
    assert len(fit(name, limit)) <= limit
    if len(name) < limit:
        assert fit(name, limit) == name


@given(st.sets(NAMES, max_size=20), LIMITS)
def test_distinct_names_stay_distinct(names: set[str], limit: int) -> None:
    assert len({fit(name, limit) for name in names}) == len(names)


@given(st.text(min_size=129, max_size=200), LIMITS)
def test_a_name_cannot_equal_a_shortened_one(name: str, limit: int) -> None:
    short = fit(name, limit)
    assert fit(short, limit) != short


def test_shortened_names_keep_their_prefix() -> None:
    first, second = (fit(f"prod-sandbox-standard-karpenter-node-role-{end}", 32) for end in ("a", "b"))
    assert first != second
    assert first.startswith("prod-sandbox-standard-k")


def test_a_limit_too_short_for_a_hash_is_refused() -> None:
    with pytest.raises(ValueError, match="the minimum is 12"):
        fit("name", 8)


@pytest.mark.parametrize(
    ("kind", "taken", "refused"),
    [
        ("iam-role", "prod-node@x", "prod node"),
        ("log-group", "/aws/eks/prod#1", "logs here"),
        ("eks-cluster", "prod_1", "-prod"),
        ("sqs-queue", "prod-queue", "prod.queue"),
        ("kms-alias", "alias/prod/efs", "alias/aws/efs"),
        ("security-group", "prod nodes", "sg-nodes"),
        ("s3-bucket", "prod.reports", "prod..reports"),
        ("load-balancer", "prod-api", "internal-api"),
        ("budget", "prod 2026", "prod:2026"),
        ("aws-tag-key", "cost-center", "aws:owner"),
        ("aws-tag-value", "", "a;b"),
        ("kubernetes-namespace", "sandbox-web", "kube-web"),
        ("kubernetes-label", "a-1", "a-"),
        ("kubernetes-service", "web", "1web"),
        ("kubernetes-subdomain", "efs.example", "efs..example"),
        ("kubernetes-port", "http-1", "8080"),
        ("kubernetes-label-value", "A.b_c", "A."),
        ("environment-variable", "HOME_1", "1HOME"),
        ("backup-vault", "ab", "a"),
    ],
)
def test_the_characters_of_a_kind(kind: str, taken: str, refused: str) -> None:
    KINDS[kind].check(taken)
    with pytest.raises(InvalidNameError, match="rename it"):
        KINDS[kind].check(refused)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_all_kinds_refuse_long_names_and_line_breaks(kind: str) -> None:
    row = KINDS[kind]
    prefix = "alias/" if kind == "kms-alias" else ""
    longest = prefix + "a" * (row.limit - len(prefix))
    assert row.accepts(longest)
    assert not row.accepts(longest + "a")
    assert not row.accepts("ab\n")


@given(st.lists(st.from_regex(r"[a-z0-9]{1,40}", fullmatch=True), min_size=1, max_size=8))
def test_plain_parts_are_valid_in_all_kinds(parts: list[str]) -> None:
    for kind in ("iam-role", "eks-cluster", "sqs-queue", "kubernetes-label", "load-balancer", "efs-creation-token"):
        if kind == "load-balancer" and parts[0] == "internal":
            continue
        assert KINDS[kind].accepts(named(kind, *parts))
