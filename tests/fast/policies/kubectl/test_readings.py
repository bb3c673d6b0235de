"""The rules see manifests as kubectl reads them, by measurement."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from agentenv.policies.offline import read_files
from tests.fast.policies.kubectl.measure import manifest_of, readings

if TYPE_CHECKING:
    from pathlib import Path

# What kubectl reads and this reader refuses, by what it says: a refused file fails the check, so nothing is missed
REFUSED = (
    "a key that is neither text nor a whole number nor true or false",
    "two keys become the text",
    "twice in one mapping",
    "kubectl ignores what stands below",
    "did not find expected <document start>",  # what kubectl ignores, too
    "found unexpected ':'",
    "a tag with a comma behind it",
    "is not UTF-8",
    "the character U+FEFF",
    "!!binary with something else",
    "half of a surrogate pair",
)


def judged(manifest: bytes, folder: Path) -> tuple[list[dict[str, Any]], list[str]]:
    file = folder / "manifest.yaml"
    file.write_bytes(manifest)
    read = read_files([file])
    return [dict(resource.inputs) for resource in read.resources], [reason for _, reason in read.unreadable]


def test_a_key_that_is_twice_in_a_mapping_is_refused_with_its_line(tmp_path: Path) -> None:
    pod = b"apiVersion: v1\nkind: Pod\nspec:\n  hostPID: true\n  hostPID: false\n"
    assert judged(pod, tmp_path) == ([], ["line 5: the key 'hostPID' twice in one mapping; remove one of them"])
    as_json = b'{"apiVersion": "v1", "kind": "Pod", "spec": {"hostPID": true, "hostPID": false}}'
    assert judged(as_json, tmp_path) == ([], ["line 1: the key 'hostPID' twice in one mapping"])
    merged = b"apiVersion: v1\nkind: Pod\nspec: {<<: {hostPID: true}, hostPID: false}\n"
    assert judged(merged, tmp_path)[1] == []


def plain(objects: list[dict[str, Any]]) -> list[str]:
    # As text, where 1 is neither 1.0 nor true
    return [json.dumps(object_, sort_keys=True) for object_ in objects]


def test_every_manifest_is_measured_once() -> None:
    rows = readings()
    assert [row for row in rows if "objects" not in row] == []
    assert len({manifest_of(row) for row in rows}) == len(rows) > 1000


def test_manifests_are_evaluated_as_kubectl_reads_them(tmp_path: Path) -> None:
    wrong: list[tuple[bytes, object, object]] = []
    for reading in readings():
        manifest = manifest_of(reading)
        # kubectl goes on to ask the API server what a kind is; without a version there is none
        objects = plain([object_ for object_ in reading["objects"] if str(object_.get("apiVersion")) in {"v1", "/v1"}])
        found, refused = judged(manifest, tmp_path)
        if any(word in reason for word in REFUSED for reason in refused):
            continue
        # Where kubectl stops at a mistake, what stands beside it is judged all the same
        more = "error" in reading or b"items" in manifest
        same = set(objects) <= set(plain(found)) if more else objects == plain(found) and not refused
        if not same or reading.get("undefined"):
            wrong.append((manifest, objects, refused or plain(found)))
    assert wrong == []
