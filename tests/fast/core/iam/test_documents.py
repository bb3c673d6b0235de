"""Statements of policy documents: an unknown value makes an answer unknown, and never wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentenv.core.capabilities.unknown_values import UNKNOWN
from agentenv.core.iam.arn_patterns import BUCKETS, ROLES
from agentenv.core.iam.documents import Statement, read, statements
from agentenv.core.iam.patterns import matches

ACTIONS = st.sampled_from(["*", "s3:*", "s3:GetObject", "iam:PassRole", "iam:Pass*"])
ARNS = st.sampled_from(["*", "arn:aws:s3:::*", "arn:aws:s3:::b/*", "arn:aws:iam::111122223333:role/*"])
PRINCIPALS = st.sampled_from(["*", "111122223333", "arn:aws:iam::111122223333:root"])
CONDITIONS = st.sampled_from(
    [
        {},
        {"StringEquals": {"aws:PrincipalOrgID": "o-1"}},
        {"StringLike": {"aws:PrincipalArn": ["*", "arn:aws:iam::111122223333:role/a"]}},
        {"IpAddress": {"aws:SourceIp": ["10.0.0.0/8", "0.0.0.0/0"]}},
        {"Null": {"aws:SourceVpc": "false"}, "Bool": {"aws:PrincipalIsAWSService": "true"}},
    ]
)
STATEMENTS = st.fixed_dictionaries(
    {"Effect": st.sampled_from(["Allow", "Deny"])},
    optional={
        "Action": ACTIONS | st.lists(ACTIONS, max_size=2),
        "NotAction": ACTIONS,
        "Resource": ARNS | st.lists(ARNS, max_size=2),
        "NotResource": ARNS,
        "Principal": st.just("*") | st.fixed_dictionaries({"AWS": PRINCIPALS | st.lists(PRINCIPALS, max_size=2)}),
        "Condition": CONDITIONS,
    },
)
QUESTIONS: tuple[Callable[[Statement], bool | None], ...] = (
    lambda statement: statement.allows,
    lambda statement: statement.denies,
    lambda statement: statement.matches_action("s3:getobject"),
    lambda statement: statement.matches_resource("arn:aws:s3:::b/c"),
    lambda statement: statement.matches_all_resources,
    lambda statement: statement.matches_all_of(ROLES),
    lambda statement: statement.matches_all_of(BUCKETS),
    lambda statement: statement.has_every_principal,
    lambda statement: statement.is_open_to_everybody(),
    lambda statement: statement.is_open_to_everybody(by_address=True),
    lambda statement: statement.excludes_requests,
)


def with_one_unknown(value: Any) -> Iterator[Any]:
    """Yield the value with each of its parts replaced by `UNKNOWN` in turn."""
    yield UNKNOWN
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from ({**value, key: changed} for changed in with_one_unknown(inner))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            for changed in with_one_unknown(inner):
                yield [*value[:index], changed, *value[index + 1 :]]


@given(STATEMENTS)
def test_an_unknown_value_never_changes_an_answer_to_its_opposite(raw: dict[str, Any]) -> None:
    known = [question(Statement(raw)) for question in QUESTIONS]
    assert None not in known
    for changed in with_one_unknown(raw):
        answers = [question(Statement(changed)) for question in QUESTIONS]
        assert all(answer in (None, expected) for answer, expected in zip(answers, known, strict=True)), changed


def test_nothing_is_known_of_an_unknown_statement() -> None:
    statement = Statement(UNKNOWN)
    assert {question(statement) for question in QUESTIONS} == {None}
    assert [condition.key for condition in statement.conditions] == ["*"]


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("s3:Get*", "s3:GetObject", True),
        ("s3:Get?bject", "s3:GetObject", True),
        ("s3:get*", "s3:GetObject", False),
        ("[ab]", "a", False),
        ("[ab]", "[ab]", True),
        ("a*b", "a\nb", True),
        ("", "", True),
    ],
)
def test_patterns_have_two_wildcards(pattern: str, text: str, expected: bool) -> None:
    assert matches(pattern, text) is expected


def test_a_pattern_with_many_wildcards_is_fast() -> None:
    assert not matches("*a" * 40 + "*b", "a" * 5000)


def test_a_document_may_have_one_statement_without_a_list() -> None:
    document, errors = read('{"Statement": {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}}')
    assert errors == []
    assert [statement.allows for statement in statements(document)] == [True]
    assert read('{"Statement": [], "Statement": []}')[1] == ["The element Statement appears twice."]
