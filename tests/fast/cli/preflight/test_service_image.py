"""Tests of preflight's question about the service's image, with recorded answers of ECR."""

from __future__ import annotations

from typing import Any

import pytest

from agentenv.cli.preflight.check import Check, run_checks
from agentenv.cli.preflight.service_image import questions
from tests.fast.cli.preflight.conftest import StubbedSession
from tests.fast.config.stack_samples import settings

DIGEST = f"sha256:{'ab' * 32}"
REPOSITORY = "111122223333.dkr.ecr.us-east-1.amazonaws.com/team/service"


def check_image(session: StubbedSession, image: str) -> Check:
    return session.check(questions(settings({"service": {"image": image}})))


def describe_images(session: StubbedSession, tags: list[str]) -> None:
    session.stub("ecr").add_response(
        "describe_images",
        {"imageDetails": [{"imageDigest": DIGEST, "imageTags": tags}]},
        {
            "registryId": "111122223333",
            "repositoryName": "team/service",
            "imageIds": [{"imageDigest": DIGEST}],
        },
    )


@pytest.mark.parametrize(
    ("tags", "version", "ok", "why"),
    [
        (["0.1.0", "latest"], "0.1.0", True, ""),
        (["0.0.9"], "0.0.9", False, "copy the image of this release"),
        (["0.0.9", "v1.4.2"], "1.4.2", True, ""),
        (["latest"], None, None, "none of its tags is a version"),
    ],
)
def test_the_tags_in_ecr_have_the_version(
    stubbed: StubbedSession, tags: list[str], version: str | None, ok: bool | None, why: str
) -> None:
    describe_images(stubbed, tags)
    check = check_image(stubbed, f"{REPOSITORY}@{DIGEST}")
    assert (check.limit, check.ok) == (version, ok)
    assert why in check.why


@pytest.mark.parametrize("code", ["ImageNotFoundException", "RepositoryNotFoundException"])
def test_an_image_missing_in_ecr_fails(stubbed: StubbedSession, code: str) -> None:
    stubbed.stub("ecr").add_client_error("describe_images", code, "not found")
    check = check_image(stubbed, f"{REPOSITORY}@{DIGEST}")
    assert check.ok is False
    assert "push the image" in check.why


def test_a_caller_without_ecr_permission_makes_the_check_unknown(stubbed: StubbedSession) -> None:
    stubbed.stub("ecr").add_client_error("describe_images", "AccessDeniedException", "not authorized")
    assert check_image(stubbed, f"{REPOSITORY}@{DIGEST}").ok is None


@pytest.mark.parametrize(
    "registry",
    ["registry.example.com/service", REPOSITORY.replace("us-east-1", "eu-west-1")],
    ids=["not ECR", "region"],
)
def test_outside_ecr_the_tag_of_the_reference_has_the_version(stubbed: StubbedSession, registry: str) -> None:
    assert check_image(stubbed, f"{registry}@{DIGEST}").ok is None
    assert check_image(stubbed, f"{registry}:0.1.0@{DIGEST}").ok is True


@pytest.mark.parametrize("service", [{}, {"image": f"{REPOSITORY}@{DIGEST}", "enabled": False}])
def test_a_stack_without_a_service_has_no_question(service: dict[str, Any]) -> None:
    assert questions(settings({"service": service})) == []


@pytest.mark.parametrize(
    ("registry", "code", "ok"),
    [
        (REPOSITORY, None, True),
        (REPOSITORY, "ImageNotFoundException", False),
        (REPOSITORY, "AccessDeniedException", None),
        ("registry.example.com/workspaced", None, None),
    ],
)
def test_the_image_of_workspaced_has_to_be_in_its_registry(
    stubbed: StubbedSession, registry: str, code: str | None, ok: bool | None
) -> None:
    inside = {"image": f"{registry}@{DIGEST}"}
    service = {"image": f"registry.example.com/service:0.1.0@{DIGEST}", "workspaced": inside}
    _, question = questions(settings({"service": service}))
    if code is not None:
        stubbed.stub("ecr").add_client_error("describe_images", code, "no")
    elif registry == REPOSITORY:
        describe_images(stubbed, ["any"])
    assert run_checks([question], stubbed.account())[0].ok is ok
