"""Tests of `agentenv mirror` against a simulated S3, with copies in a folder and behind an address."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml

from agentenv.cli.main import FAILED, OK, main
from agentenv.cli.runtime_copies import Bucket, CopyError, Folder, Location, copy, location
from agentenv.core.nodes.mirrors import RuntimeFile
from agentenv.core.pinned_versions import releases
from agentenv.rehearsal.cloud.server import Cloud
from tests.fast.config.stack_samples import VETTED, config, settings
from tests.stub_server import Request, Response, stub_server

REGION, ACCOUNT = "us-east-1", "123456789012"
KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_DEFAULT_REGION": REGION}
BYTES = b"a runtime" * 100
DIGEST = f"sha512:{hashlib.sha512(BYTES).hexdigest()}"
IMAGE = f"111122223333.dkr.ecr.us-east-1.amazonaws.com/sandbox@sha256:{'ab' * 32}"
BOTH = ["gvisor/20261005.0/aarch64/gvisor.tar.zstd", "gvisor/20261005.0/x86_64/gvisor.tar.zstd"]


@pytest.fixture(scope="module")
def cloud() -> Iterator[str]:
    """Start the simulated AWS."""
    with Cloud.start() as running:
        yield running.url


@pytest.fixture
def s3(cloud: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return a client of the simulated S3, which the command uses too; the buckets are deleted for other tests."""
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": cloud}.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3", region_name=REGION)
    others = names(client)
    yield client
    for name in names(client) - others:
        for key in stored(client, name):
            client.delete_object(Bucket=name, Key=key)
        client.delete_bucket(Bucket=name)


def names(s3: Any) -> set[str]:
    return {row["Name"] for row in s3.list_buckets()["Buckets"]}


@dataclass
class Source:
    """A server with copies, and the paths of the requests for them."""

    content: bytes = BYTES
    status: int = 200
    paths: list[str] = field(default_factory=list[str])

    def respond(self, request: Request) -> Response:
        """Answer every request with the same bytes."""
        self.paths.append(request.path)
        return Response(self.status, self.content)


def file_at(port: int) -> RuntimeFile:
    return RuntimeFile("gvisor/1/x86_64/gvisor.tar.zstd", f"http://127.0.0.1:{port}/1/x86_64/gvisor.tar.zstd", DIGEST)


def bucket(s3: Any, name: str, path: str = "") -> Bucket:
    s3.create_bucket(Bucket=name)
    return Bucket(Location(name, REGION, path), s3, lambda _, __: None)


def stored(s3: Any, name: str) -> dict[str, bytes]:
    rows = s3.list_objects_v2(Bucket=name).get("Contents", [])
    return {row["Key"]: s3.get_object(Bucket=name, Key=row["Key"])["Body"].read() for row in rows}


def test_a_verified_file_is_uploaded_once_below_the_path_of_the_mirror(s3: Any) -> None:
    store, source = bucket(s3, "copied-once", "nodes"), Source()
    counts: list[int] = []
    with stub_server(source.respond) as port:
        assert copy(file_at(port), store, None, lambda _, count: counts.append(count)) is True
        assert copy(file_at(port), store, None, lambda _, __: None) is False
    assert stored(s3, "copied-once") == {"nodes/gvisor/1/x86_64/gvisor.tar.zstd": BYTES}
    assert source.paths == ["/1/x86_64/gvisor.tar.zstd"]
    assert sum(counts) == len(BYTES)


def test_another_object_at_its_place_is_replaced(s3: Any) -> None:
    store = bucket(s3, "replaced")
    s3.put_object(Bucket="replaced", Key="gvisor/1/x86_64/gvisor.tar.zstd", Body=b"an old one")
    with stub_server(Source().respond) as port:
        assert copy(file_at(port), store, None, lambda _, __: None) is True
    assert stored(s3, "replaced") == {"gvisor/1/x86_64/gvisor.tar.zstd": BYTES}


@pytest.mark.parametrize(
    ("source", "why"), [(Source(b"another"), "and not the pinned sha512:"), (Source(status=404), "404")]
)
def test_what_is_wrong_or_missing_is_not_uploaded(s3: Any, source: Source, why: str) -> None:
    store = bucket(s3, f"wrong-{source.status}")
    with stub_server(source.respond) as port, pytest.raises(CopyError, match=why):
        copy(file_at(port), store, None, lambda _, __: None)
    assert stored(s3, f"wrong-{source.status}") == {}


def test_copies_come_from_a_folder_that_was_filled_elsewhere(s3: Any, tmp_path: Path) -> None:
    store, source, folder = bucket(s3, "carried"), Source(), Folder(tmp_path)
    with stub_server(source.respond) as port:
        file = file_at(port)
        assert [copy(file, folder, None, lambda _, __: None) for _ in range(2)] == [True, False]
    assert copy(file, store, str(tmp_path), lambda _, __: None) is True
    assert stored(s3, "carried") == {file.path: BYTES}
    assert source.paths == ["/1/x86_64/gvisor.tar.zstd"]


def test_copies_come_from_another_mirror_with_the_same_layout(s3: Any) -> None:
    store, source = bucket(s3, "second"), Source()
    with stub_server(source.respond) as port:
        assert copy(file_at(1), store, f"http://127.0.0.1:{port}/nodes/", lambda _, __: None) is True
    assert source.paths == ["/nodes/gvisor/1/x86_64/gvisor.tar.zstd"]


@pytest.mark.parametrize(
    ("mirrors", "place"),
    [
        ({"bucket": True}, Location(f"dev-agents-runtimes-{ACCOUNT}", REGION)),
        ({"files": "https://copies.s3.eu-west-1.amazonaws.com/a/b"}, Location("copies", "eu-west-1", "a/b", False)),
        ({"files": "https://copies.s3.us-east-1.amazonaws.com"}, Location("copies", REGION, "", False)),
        ({"files": "https://copies.example.com/a"}, None),
        ({}, None),
    ],
)
def test_the_location_follows_from_the_settings(mirrors: dict[str, Any], place: Location | None) -> None:
    assert location(settings({"network": {"mirrors": mirrors}}), ACCOUNT) == place


def stack(folder: Path, mirrors: dict[str, Any], **sandbox_class: Any) -> str:
    """Write a stack file; return its path."""
    sections = {
        "network": {"mirrors": mirrors},
        "cluster": {"publicAccessCidrs": ["203.0.113.0/24"]},
        "sandboxClasses": [{"name": "a", "image": IMAGE, **sandbox_class}],
    }
    path = folder / "Pulumi.dev.yaml"
    path.write_text(yaml.safe_dump({"config": config(sections)}))
    return str(path)


def test_the_command_names_every_file_that_it_cannot_copy(
    s3: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    s3.create_bucket(Bucket=f"dev-agents-runtimes-{ACCOUNT}")
    wrong = tmp_path / "copies" / BOTH[0]
    wrong.parent.mkdir(parents=True)
    wrong.write_bytes(b"another")
    arguments = ["--file", stack(tmp_path, {"bucket": True}), "--from", str(tmp_path / "copies"), "--json"]
    assert main(["mirror", *arguments]) == FAILED
    found = json.loads(capsys.readouterr().out)
    assert found["to"] == f"dev-agents-runtimes-{ACCOUNT}"
    assert [(row["path"], row["state"]) for row in found["files"]] == [(path, "failed") for path in BOTH]
    assert "and not the pinned sha512:cb1c1ac7" in found["files"][0]["why"]
    assert "No such file" in found["files"][1]["why"]
    assert stored(s3, found["to"]) == {}


def test_what_the_bucket_has_is_not_downloaded_again(
    s3: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    s3.create_bucket(Bucket="copies-111122223333")
    for path, digest in zip(BOTH, ("arm64", "amd64"), strict=True):
        pinned = releases().runtimes["gvisor"].digests[digest]
        s3.put_object(Bucket="copies-111122223333", Key=f"nodes/{path}", Body=b"", Metadata={"digest": pinned})
    files = "https://copies-111122223333.s3.us-east-1.amazonaws.com/nodes"
    arguments = ["--file", stack(tmp_path, {"files": files}), "--from", str(tmp_path / "nothing"), "--json"]
    assert main(["mirror", *arguments]) == OK
    found = json.loads(capsys.readouterr().out)
    assert [(row["path"], row["state"]) for row in found["files"]] == [(path, "present") for path in BOTH]


@pytest.mark.parametrize(
    ("mirrors", "why"),
    [
        ({"files": "https://nowhere-111122223333.s3.us-east-1.amazonaws.com"}, "the bucket nowhere-111122223333"),
        ({"files": "https://copies.example.com"}, "is not the address of a bucket; use --to"),
        ({}, "set network.mirrors.bucket to true"),
    ],
)
def test_a_stack_without_a_bucket_is_an_error(
    s3: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], mirrors: dict[str, Any], why: str
) -> None:
    assert main(["mirror", "--file", stack(tmp_path, mirrors)]) == FAILED
    assert why in capsys.readouterr().err


def test_a_stack_without_downloads_has_nothing_to_copy(
    s3: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = stack(tmp_path, {}, **VETTED)
    assert main(["mirror", "--file", path, "--to", str(tmp_path / "copies"), "--json"]) == OK
    assert json.loads(capsys.readouterr().out)["files"] == []
