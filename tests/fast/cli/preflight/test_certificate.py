"""Tests of preflight's question about the certificate, with recorded answers of ACM."""

from __future__ import annotations

from typing import Any

import pytest

from agentenv.cli.preflight.certificate import questions
from agentenv.cli.preflight.check import Check
from tests.fast.cli.preflight.conftest import StubbedSession
from tests.fast.config.stack_samples import settings

ARN = "arn:aws:acm:us-east-1:111122223333:certificate/6ce8a1b2"
IMAGE = f"registry.example.com/workspace-service@sha256:{'a' * 64}"
SERVICE: dict[str, Any] = {"image": IMAGE, "domain": "os.example.com", "certificate": ARN}
OWN = {"workspaceDomain": "os.example.net"}


def checked(session: StubbedSession, names: list[str], status: str = "ISSUED", **more: Any) -> Check:
    described = {"Certificate": {"Status": status, "SubjectAlternativeNames": names}}
    session.stub("acm").add_response("describe_certificate", described, {"CertificateArn": ARN})
    return session.check(questions(settings({"service": {**SERVICE, **more}})))


def test_no_certificate_is_read_without_a_gateway() -> None:
    assert questions(settings({"service": {"image": IMAGE}})) == []


@pytest.mark.parametrize(
    ("names", "more", "why"),
    [
        (["os.example.com", "*.os.example.com"], {}, ""),
        (["os.example.com"], {}, "does not name *.os.example.com"),
        (["os.example.com", "*.os.example.com"], OWN, "does not name *.os.example.net"),
        (["os.example.com", "*.os.example.com", "*.os.example.net"], OWN, ""),
    ],
)
def test_it_names_every_host(stubbed: StubbedSession, names: list[str], more: dict[str, Any], why: str) -> None:
    check = checked(stubbed, names, **more)
    assert check.ok is (not why)
    assert why in check.why


def test_one_that_is_not_issued_fails(stubbed: StubbedSession) -> None:
    check = checked(stubbed, ["os.example.com"], "PENDING_VALIDATION")
    assert (check.ok, check.limit) == (False, "PENDING_VALIDATION")


def test_one_that_does_not_exist_fails(stubbed: StubbedSession) -> None:
    stubbed.stub("acm").add_client_error("describe_certificate", "ResourceNotFoundException", "not found")
    check = stubbed.check(questions(settings({"service": SERVICE})))
    assert check.ok is False
    assert "request the certificate" in check.why
