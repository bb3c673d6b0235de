"""The values that a review may show."""

from __future__ import annotations

import pytest

from agentenv.cli.review.changes import Change
from agentenv.cli.review.formats.values import HIDDEN, differences, displayed_value, mask_secrets
from tests.fast.cli.review.resources import LATER, of, resource

KIND = "aws:sns/topic:Topic"


@pytest.mark.parametrize(
    ("inputs", "path", "expected"),
    [
        ({"a": {"b": [{"c": 3}]}}, "a.b[0].c", "3"),
        ({"a": True}, "a", "true"),
        ({"a": LATER}, "a", "(known once it is made)"),
        ({}, "a", "(nothing)"),
        ({"a": [1, 2]}, "a", "(2 items)"),
        ({"masterPassword": "x"}, "masterPassword", HIDDEN),
        ({"env": [{"name": "A", "value": "x"}]}, "env[0].value", HIDDEN),
        ({"stringData": {"a": "x"}}, "stringData.a", HIDDEN),
        ({"kubeconfig": "x"}, "kubeconfig", HIDDEN),
        ({"a": "AKIAIOSFODNN7EXAMPLE"}, "a", HIDDEN),
        ({"a": "[secret]"}, "a", "[secret]"),
        ({"a": "one\ntwo"}, "a", "one two"),
        ({"containers": [{"args": ["--db", "hunter2"]}]}, "containers[0].args[1]", HIDDEN),
        ({"command": ["sh", "-c", "hunter2"]}, "command[2]", HIDDEN),
        ({"metadata": {"annotations": {"a": "x"}}}, "metadata.annotations.a", HIDDEN),
        ({"values": {"adminPwd": "x"}}, "values.adminPwd", HIDDEN),
        ({"signingKey": "x"}, "signingKey", HIDDEN),
        ({"accessKey": "x"}, "accessKey", HIDDEN),
        ({"containerDefinitions": '[{"value": "x"}]'}, "containerDefinitions", HIDDEN),
        ({"tolerations": [{"key": "class"}]}, "tolerations[0].key", "class"),
        ({"hashKey": "workspace"}, "hashKey", "workspace"),
        ({"topologyKey": "zone"}, "topologyKey", "zone"),
        ({"kmsKeyId": "alias/a"}, "kmsKeyId", "alias/a"),
    ],
)
def test_a_value_is_shown_short_or_masked(inputs: dict[str, object], path: str, expected: str) -> None:
    assert displayed_value(resource(KIND, "t", inputs), path) == expected


def test_a_secret_is_masked() -> None:
    secret = resource("kubernetes:core/v1:Secret", "s", {"metadata": {"name": "x"}})
    assert displayed_value(secret, "metadata.name") == HIDDEN


@pytest.mark.parametrize(
    "secret",
    [
        "ghp_" + "a" * 36,
        "glpat-" + "a" * 20,
        "eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl",
        "postgres://bob:hunter2@db/x",
        "?token=abc",
        "sk-ant-api03-" + "a" * 40,
        "xoxb-1234-abcdefgh",
        "AIza" + "a" * 35,
        "npm_" + "a" * 36,
        "hvs.CAESIabcdefghijklmnop",
        "https://hooks.slack.com/services/T000/B000/hunter2",
        "aws_secret_access_key=hunter2",
        "Authorization: Bearer hunter2",
        "authorization: Basic hunter2",
        "bearer hunter2",
        "password: hunter2",
        "password:hunter2",
        "tokenless_secret=hunter2",
        "secretNameValue = hunter2",
        "PGPASSWORD=hunter2",
        "--password hunter2",
        "--db-password=hunter2",
        "-api-key 'hunter2'",
        '{"token":"hunter2"}',
        "{'passphrase': 'hunter2'}",
        "api_key = hunter2",
        "redis://:hunter2@host",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_text_that_looks_like_a_secret_is_masked(secret: str) -> None:
    text_ = mask_secrets(f"it failed with {secret} and more")
    assert HIDDEN in text_
    assert "hunter2" not in text_
    assert "MIIE" not in text_
    assert text_.endswith("and more")


@pytest.mark.parametrize(
    "text",
    [
        "secretsmanager:GetSecretValue on arn:aws:secretsmanager:us-east-1:111122223333:secret:a",
        "urn:pulumi:prod::p::kubernetes:core/v1:Secret::name",
        "automountServiceAccountToken: true",
        "it takes tokens of every account, and basic settings",
        "secretName = wildcard-tls",
        "secretRef: app, imagePullSecretRefs: [regcred]",
        "run with --token-file /run/token and token_path=/x",
        '{"passwordFile": "/run/secrets/db"}',
        "sudo is passwordless = yes",
        "the bearer token of an auth-token exchange",
        "image registry.example.com:5000/a@sha256:" + "a" * 64,
    ],
)
def test_text_about_secrets_is_not_masked(text: str) -> None:
    assert mask_secrets(text) == text


def test_a_long_value_is_shown_where_it_differs() -> None:
    old, new = ({"policy": f"{'same ' * 20}{word}{' and so on' * 20}"} for word in ("read", "write"))
    change = Change("update", resource(KIND, "t").urn, KIND, ("policy",))
    ((_, before, after),) = differences(change, of(resource(KIND, "t", old)), of(resource(KIND, "t", new)))
    assert "same read and" in before
    assert "same write and" in after
    assert len(before) < 70


def test_values_without_a_visible_difference_are_not_shown() -> None:
    graph = of(resource(KIND, "t", {"a": LATER}))
    change = Change("replace", resource(KIND, "t").urn, KIND, ("a",))
    assert differences(change, graph, graph) == [("a", "", "")]
