"""Images are compared with the processors of the nodes that their pods may run on, with recorded answers of ECR."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentenv.cli.preflight import image_architectures
from agentenv.cli.preflight.check import Check
from agentenv.cli.preflight.image_architectures import questions
from tests.fast.cli.preflight.conftest import StubbedSession
from tests.fast.config.stack_samples import settings

DIGEST, CONFIG = f"sha256:{'ab' * 32}", f"sha256:{'cd' * 32}"
IMAGE = f"111122223333.dkr.ecr.us-east-1.amazonaws.com/team/sandbox@{DIGEST}"
WHERE = {"registryId": "111122223333", "repositoryName": "team/sandbox"}
GRAVITON_AND_INTEL = {"families": ["m8g", "m7i"]}


def classes(**parts: Any) -> dict[str, Any]:
    return {"sandboxClasses": [{"name": "standard", "image": IMAGE, **parts}], "capacity": GRAVITON_AND_INTEL}


def check(session: StubbedSession, sections: dict[str, Any]) -> Check:
    return session.check(questions(settings(sections)))


def add_manifest(session: StubbedSession, manifest: dict[str, Any]) -> None:
    accepted = [*image_architectures.INDEXES, *image_architectures.MANIFESTS]
    session.stub("ecr").add_response(
        "batch_get_image",
        {"images": [{"imageManifest": json.dumps(manifest)}], "failures": []},
        {**WHERE, "imageIds": [{"imageDigest": DIGEST}], "acceptedMediaTypes": accepted},
    )


def index(*architectures: str) -> dict[str, Any]:
    rows = [{"digest": DIGEST, "platform": {"architecture": name, "os": "linux"}} for name in architectures]
    attestation = {"digest": DIGEST, "platform": {"architecture": "unknown", "os": "unknown"}}
    return {"schemaVersion": 2, "mediaType": image_architectures.INDEXES[0], "manifests": [*rows, attestation]}


STARTS_EMPTY = {"storage": {"kind": "none"}}


@pytest.mark.parametrize(
    ("architectures", "parts", "ok", "why"),
    [
        (("amd64", "arm64"), STARTS_EMPTY, True, ""),
        (("amd64",), STARTS_EMPTY, False, "not built for arm64"),
        (("amd64",), {**STARTS_EMPTY, "architecture": "amd64"}, True, ""),
        # A class whose homes last runs on one processor only, on Graviton where a family has it.
        (("arm64",), {}, True, ""),
        (("amd64",), {}, False, "not built for arm64"),
        (("arm64",), {**STARTS_EMPTY, "compute": "fargate", "tier": "untrusted"}, False, "not built for amd64"),
    ],
)
def test_an_index_has_every_processor_of_the_class(
    stubbed: StubbedSession, architectures: tuple[str, ...], parts: dict[str, Any], ok: bool, why: str
) -> None:
    add_manifest(stubbed, index(*architectures))
    found = check(stubbed, classes(**parts))
    assert (found.name, found.limit, found.ok) == (
        "processors of the image of standard",
        ", ".join(architectures),
        ok,
    )
    assert why in found.why


@pytest.mark.parametrize(("architecture", "ok"), [("arm64", True), ("amd64", False)])
def test_an_image_without_an_index_has_the_processor_of_its_configuration(
    stubbed: StubbedSession, tmp_path: Path, architecture: str, ok: bool
) -> None:
    add_manifest(stubbed, {"schemaVersion": 2, "config": {"digest": CONFIG}, "layers": []})
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"architecture": architecture, "os": "linux"}), encoding="utf-8")
    stubbed.stub("ecr").add_response(
        "get_download_url_for_layer",
        {"downloadUrl": config.as_uri(), "layerDigest": CONFIG},
        {**WHERE, "layerDigest": CONFIG},
    )
    found = check(stubbed, classes())
    assert (found.limit, found.ok) == (architecture, ok)


def test_an_image_that_ecr_does_not_have_fails(stubbed: StubbedSession) -> None:
    failure = {"imageId": {"imageDigest": DIGEST}, "failureCode": "ImageNotFound"}
    stubbed.stub("ecr").add_response("batch_get_image", {"images": [], "failures": [failure]})
    found = check(stubbed, classes())
    assert found.ok is False
    assert "ImageNotFound" in found.why
    stubbed.stub("ecr").add_client_error("batch_get_image", "RepositoryNotFoundException", "not found")
    assert check(stubbed, classes()).ok is False


@pytest.mark.parametrize(
    "image", [f"registry.example.com/sandbox@{DIGEST}", IMAGE.replace("us-east-1", "eu-west-1")], ids=["else", "region"]
)
def test_an_image_outside_ecr_is_unknown(stubbed: StubbedSession, image: str) -> None:
    found = check(stubbed, classes(image=image))
    assert (found.limit, found.ok) == (None, None)
    assert found.why.startswith("the registry is ")
    assert f"docker buildx imagetools inspect {image}" in found.why


def test_service_and_workspaced_need_the_processors_of_their_nodes() -> None:
    service, inside = f"{IMAGE[:-1]}1", f"{IMAGE[:-1]}2"
    sections = classes(**STARTS_EMPTY) | {
        "capacity": {**GRAVITON_AND_INTEL, "system": {"families": ["m7i"]}},
        "service": {"image": service, "workspaced": {"image": inside}},
    }
    assert {question.name: question.needed for question in questions(settings(sections))} == {
        "processors of the image of standard": "amd64, arm64",
        "processors of the image of the service": "amd64",
        "processors of the image of workspaced": "amd64, arm64",
    }
    assert len(questions(settings(sections | {"service": {"image": service, "enabled": False}}))) == 1
