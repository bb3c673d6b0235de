"""The release workflow: its checks, builds, signatures and publications; and the tests of pull requests."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests import gate
from tests.fast.workflows.steps import ROOT, Machine, read, script

COMPARE = script("release.yml", "build", "Compare the tag with the version, and take the notes from the changelog")
BUILD = script("release.yml", "build", "Build the wheel, the source archive and their SBOM")
IMAGE = script("release.yml", "image", "Build and push the images with their SBOM and provenance")
SIGN = script("release.yml", "sign", "Combine the images of both architectures under one tag, and sign them")
PUBLISH = script("release.yml", "publish", "Publish the wheel, and write the release")
CHANGELOG = (
    "# Changelog\n\n## Unreleased\n\n## 1.2.3 - 2026-11-30\n\nUpgrade first.\n\n### Fixed\n\n## 1.2.30\n\nOld.\n"
)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    prepared = Machine(
        tmp_path, {"GITHUB_REPOSITORY": "Team/Platform", "GITHUB_REF_NAME": "v1.2.3", "GITHUB_ACTOR": "bot"}
    )
    (prepared.work / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n', encoding="utf-8")
    (prepared.work / "CHANGELOG.md").write_text(CHANGELOG, encoding="utf-8")
    return prepared


def test_the_notes_are_the_section_of_the_version(machine: Machine) -> None:
    assert machine.run(COMPARE) == 0
    notes = (machine.work / "release" / "notes.md").read_text(encoding="utf-8")
    assert notes.split() == ["Upgrade", "first.", "###", "Fixed"]


@pytest.mark.parametrize("tag", ["v1.2.4", "1.2.3", "v1.2.3-rc1"])
def test_a_tag_of_another_version_fails(machine: Machine, tag: str) -> None:
    assert machine.run(COMPARE, GITHUB_REF_NAME=tag) == 1
    assert not (machine.work / "release").exists()


def test_a_version_without_notes_fails(machine: Machine) -> None:
    (machine.work / "CHANGELOG.md").write_text("## Unreleased\n\nMuch.\n\n## 1.2.3\n\n## 1.2.2\n\nOld.\n")
    assert machine.run(COMPARE) == 1


def test_every_job_needs_the_version_check() -> None:
    jobs = read("release.yml")["jobs"]
    assert {name: job.get("needs") for name, job in jobs.items()} == {
        "build": None,
        "image": "build",
        "sign": "image",
        "publish": "sign",
    }
    assert read("release.yml")["on"] == {"push": {"tags": ["v*"]}}
    assert jobs["publish"]["environment"] == "release"


def test_the_wheel_is_built_with_an_sbom(machine: Machine) -> None:
    assert machine.run(BUILD) == 0
    build, export = machine.called("uv")
    assert build == "uv [build] [--out-dir] [release/dist]"
    assert "[--frozen]" in export
    assert "[--format] [cyclonedx1.5]" in export


def test_the_wheel_carries_the_packages_of_the_console() -> None:
    steps = [step.get("name") for step in read("release.yml")["jobs"]["build"]["steps"]]
    fetch, build = (
        next(place for place, name in enumerate(steps) if name and word in name) for word in ("Fetch", "wheel")
    )
    assert fetch < build
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    assert settings["artifacts"] == ["agentenv/service/console/vendor/*"]
    assert "console/vendor" in (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_an_image_is_built_on_each_architecture_with_sbom_and_provenance(machine: Machine) -> None:
    machine.does("docker", "cat > /dev/null")
    assert machine.run(IMAGE, ARCHITECTURE="arm64", REGISTRY_TOKEN="very-secret") == 0
    login, _, build, daemon = machine.called("docker")
    assert machine.called("make") == ["make [-C] [workspaced] [build] [VERSION=1.2.3]"]
    assert daemon.endswith("[--tag] [ghcr.io/team/platform/workspaced:1.2.3-arm64] [workspaced]")
    assert "[--platform] [linux/arm64] [--sbom=true] [--provenance=mode=max] [--push]" in daemon
    assert login == "docker [login] [ghcr.io] [--username] [bot] [--password-stdin]"
    assert "[--platform] [linux/arm64] [--sbom=true] [--provenance=mode=max] [--push]" in build
    assert "[--build-arg] [VERSION=1.2.3]" in build
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert "LABEL org.opencontainers.image.version=${VERSION}" in dockerfile
    assert build.endswith("[--tag] [ghcr.io/team/platform/workspace-service:1.2.3-arm64] [.]")
    assert "very-secret" not in machine.calls.read_text(encoding="utf-8")
    matrix = read("release.yml")["jobs"]["image"]["strategy"]["matrix"]["include"]
    assert {row["architecture"]: row["runner"] for row in matrix} == {
        "amd64": "ubuntu-24.04",
        "arm64": "ubuntu-24.04-arm",
    }


def test_the_images_become_one_manifest_that_is_signed_by_digest(machine: Machine) -> None:
    machine.does("docker", 'case "$*" in *inspect*) echo sha256:abc;; *) cat > /dev/null;; esac')
    assert machine.run(SIGN, REGISTRY_TOKEN="t") == 0
    images = [f"ghcr.io/team/platform/{name}" for name in ("workspace-service", "workspaced")]
    for tag in (f"{image}:1.2.3" for image in images):
        created = f"docker [buildx] [imagetools] [create] [--tag] [{tag}] [{tag}-amd64] [{tag}-arm64]"
        assert created in machine.called("docker")
    signed = [f"{image}@sha256:abc" for image in images]
    assert machine.called("cosign") == [f"cosign [sign] [--yes] [--recursive] [{image}]" for image in signed]
    assert (machine.work / "image" / "images.txt").read_text(encoding="utf-8").splitlines() == signed


def test_published_files_are_signed_and_listed_in_the_notes(machine: Machine) -> None:
    dist = machine.work / "release" / "dist"
    dist.mkdir(parents=True)
    for name in ("a-1.2.3-py3-none-any.whl", "a-1.2.3.tar.gz"):
        (dist / name).touch()
    (dist.parent / "images.txt").write_text("the/image@sha256:abc\nanother@sha256:def\n", encoding="utf-8")
    (dist.parent / "notes.md").write_text("Upgrade first.\n", encoding="utf-8")
    assert machine.run(PUBLISH, GH_TOKEN="t") == 0
    (published,) = machine.called("uv")
    assert published.startswith("uv [publish] [--trusted-publishing] [always]")
    assert published.endswith("[release/dist/a-1.2.3-py3-none-any.whl] [release/dist/a-1.2.3.tar.gz]")
    assert len(machine.called("cosign")) == 2
    (released,) = machine.called("gh")
    assert released.startswith("gh [release] [create] [v1.2.3] [--repo] [Team/Platform] [--verify-tag]")
    notes = (dist.parent / "notes.md").read_text(encoding="utf-8").splitlines()
    assert notes[-2:] == ["- `the/image@sha256:abc`", "- `another@sha256:def`"]


def test_nothing_is_released_if_publishing_fails(machine: Machine) -> None:
    (machine.work / "release" / "dist").mkdir(parents=True)
    machine.does("uv", "exit 1")
    assert machine.run(PUBLISH) == 1
    assert machine.called("gh") == []


def test_tools_have_the_versions_of_the_project() -> None:
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    uv = re.search(r"^UV := (\S+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert uv
    assert set(re.findall(r"uv==(\S+)", text)) == {uv[1]}
    assert len(set(re.findall(r"cosign@(v\d+\.\d+\.\d+)", text))) == 1
    assert "cosign@latest" not in text


def test_pull_requests_run_the_whole_gate() -> None:
    tested = read("test.yml")
    assert tested["on"] == {"pull_request": {"branches": ["main"]}, "push": {"branches": ["main"]}}
    (command,) = [step["run"] for step in tested["jobs"]["test"]["steps"] if step.get("name") == "Test"]
    assert command == f'make test ARGS="--without {gate.OPTIONAL[0]}"'
    assert "secrets" not in str(tested)
