"""Tokens: what the AWS SDK signs is understood, and everything else is refused with its reason."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

import botocore.session
import pytest
from botocore.credentials import Credentials
from botocore.model import ServiceId
from botocore.signers import RequestSigner

from agentenv.rehearsal.controlplane.auth.eks_token import PREFIX, TokenRefused, read


def make_token(
    cluster: str = "stage",
    address: str = "https://sts.us-east-1.amazonaws.com/",
    **changed: str,
) -> str:
    """A token as the AWS CLI makes one, by the SDK's own signer."""
    # Held here: the signer itself holds on to it only weakly
    emitter = botocore.session.get_session().get_component("event_emitter")
    signer = RequestSigner(
        ServiceId("STS"),
        "us-east-1",
        "sts",
        "v4",
        Credentials("AKIAEXAMPLE", "secret", "session/token+="),
        emitter,
    )
    request = {
        "method": "GET",
        "url": f"{address}?Action={changed.get('action', 'GetCallerIdentity')}&Version=2011-06-15",
        "body": {},
        "headers": {changed.get("header", "x-k8s-aws-id"): cluster},
        "context": {},
    }
    url: str | None = signer.generate_presigned_url(request, region_name="us-east-1", expires_in=60, operation_name="")
    assert url is not None
    return PREFIX + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


def now() -> datetime:
    return datetime.now(UTC)


def test_token_is_valid_for_its_cluster_and_key_only() -> None:
    presented = read(make_token(), now())
    assert presented.access_key == "AKIAEXAMPLE"
    assert presented.signed_for("stage", "secret")
    assert not presented.signed_for("stage-2", "secret")
    assert not presented.signed_for("stage", "another")


def test_simulated_endpoint_replaces_sts_where_configured() -> None:
    token = make_token(address="http://127.0.0.1:4566/")
    assert read(token, now(), "127.0.0.1:4566").signed_for("stage", "secret")
    with pytest.raises(TokenRefused, match="not at STS"):
        read(token, now(), "127.0.0.1:4567")


@pytest.mark.parametrize(
    "host", ["sts.amazonaws.com", "sts.eu-central-1.amazonaws.com", "sts.cn-north-1.amazonaws.com.cn"]
)
def test_token_may_be_signed_for_any_regional_sts(host: str) -> None:
    assert read(make_token(address=f"https://{host}/"), now()).host == host


def test_token_is_valid_for_fifteen_minutes() -> None:
    token = make_token()
    assert read(token, now() + timedelta(minutes=14))
    with pytest.raises(TokenRefused, match="expired"):
        read(token, now() + timedelta(minutes=16))
    with pytest.raises(TokenRefused, match="yet to come"):
        read(token, now() - timedelta(minutes=6))


@pytest.mark.parametrize(
    ("token", "words"),
    [
        ("eyJhbGciOiJSUzI1NiJ9.e30.x", "does not start with"),
        (f"{PREFIX}%%%", "not base64"),
        (PREFIX + base64.urlsafe_b64encode("straße".encode("latin-1")).decode(), "not base64"),
        (make_token(address="https://sts.us-east-1.amazonaws.com.example.org/"), "not at STS"),
        (make_token(address="https://example.org/"), "not at STS"),
        (make_token(address="https://sts.us-east-1.amazonaws.com/other"), "not at STS"),
        (make_token(action="AssumeRole"), "not for GetCallerIdentity"),
        (make_token(header="x-other"), "x-k8s-aws-id"),
        (PREFIX + base64.urlsafe_b64encode(b"https://sts.amazonaws.com/?Action=GetCallerIdentity").decode(), "signed"),
        (
            PREFIX + base64.urlsafe_b64encode(b"https://sts.amazonaws.com/?Action=GetCallerIdentity&Action=X").decode(),
            "twice",
        ),
    ],
)
def test_malformed_token_is_refused_with_its_reason(token: str, words: str) -> None:
    with pytest.raises(TokenRefused, match=words):
        read(token, now())
