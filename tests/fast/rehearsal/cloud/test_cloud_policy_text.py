"""Policy documents: any text is judged, and the violations that AWS names are found."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentenv.rehearsal.cloud.iam.policy_documents import (
    IDENTITY,
    ON_KEY,
    ON_RESOURCE,
    TRUST,
    Kind,
    compact_length,
    violations,
)
from tests.fast.rehearsal.cloud.calls import allow, trust

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["Statement", "Effect", "Action", "Principal", "Condition", "Sid"]), inner)
    ),
    max_leaves=10,
)


@given(document=JSON, kind=st.sampled_from([IDENTITY, TRUST, ON_RESOURCE, ON_KEY]))
def test_any_document_is_validated(document: Any, kind: Kind) -> None:
    assert all(isinstance(fault, str) for fault in violations(json.dumps(document), kind))


@given(st.text(max_size=20))
def test_any_text_is_validated(text: str) -> None:
    assert violations(text, IDENTITY)


def test_good_documents_have_no_faults() -> None:
    assert violations(allow(), IDENTITY) == []
    assert violations(trust(), TRUST) == []
    assert violations(allow(Principal="*"), ON_KEY) == []
    several = {
        "ForAnyValue:StringLikeIfExists": {"aws:PrincipalTag/a": ["x*"]},
        "Bool": {"aws:SecureTransport": "true"},
    }
    assert violations(allow(Principal={"AWS": ["*", "123456789012"]}, Condition=several), ON_RESOURCE) == []


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        (allow(Effect="allow"), IDENTITY, "Effect"),
        (allow(Action="nothing"), IDENTITY, "vendor"),
        (allow(NotAction="s3:*"), IDENTITY, "Action"),
        (allow(Principal="*"), IDENTITY, "principal"),
        (allow(Sid="a b"), IDENTITY, "SID"),
        (allow(Resources="*"), IDENTITY, "not known: Resources"),
        (allow(), ON_RESOURCE, "Principal"),
        (allow(Principal={"Service": "ec2"}), ON_RESOURCE, "SERVICE"),
        (allow(Principal={"User": "a"}), ON_RESOURCE, "User"),
        (allow(Condition={"StringEqual": {"a": "b"}}), IDENTITY, "StringEqual"),
        (trust().replace('"Version"', '"version"'), TRUST, "version"),
        ('{"Statement": [], "Statement": []}', IDENTITY, "twice"),
    ],
)
def test_first_fault_is_reported(text: str, kind: Kind, words: str) -> None:
    assert words in violations(text, kind)[0]


def test_white_space_is_ignored() -> None:
    assert compact_length(json.dumps(json.loads(allow()), indent=8)) == compact_length(allow())
