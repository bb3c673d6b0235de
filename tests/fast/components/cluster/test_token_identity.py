"""Kubeconfigs have the identity of the aws provider."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pulumi
import pytest

from agentenv.components._lib.token_identity import TokenIdentity, token_identity

ROLE = "arn:aws:iam::111122223333:role/pipeline"


@pytest.fixture
def configured() -> Iterator[None]:
    roles = json.dumps([{"roleArn": "arn:aws:iam::111122223333:role/first"}, {"roleArn": ROLE}])
    pulumi.runtime.set_config("aws:profile", "team")
    pulumi.runtime.set_config("aws:assumeRoles", roles)
    yield
    pulumi.runtime.set_all_config({})


def test_profile_and_role_of_the_provider_are_used(configured: None) -> None:
    identity = token_identity()
    assert identity == TokenIdentity("team", ROLE)
    assert identity.arguments == ["--role-arn", ROLE]
    assert identity.environment == [{"name": "AWS_PROFILE", "value": "team"}]


def test_without_either_the_environment_decides() -> None:
    identity = token_identity()
    assert (identity, identity.arguments, identity.environment) == (TokenIdentity(), [], [])
