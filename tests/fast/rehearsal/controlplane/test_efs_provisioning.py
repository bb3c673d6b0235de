"""Provisioning of volumes by the EFS driver from storage classes and volume claims."""

from __future__ import annotations

from typing import Any

import pytest

from agentenv.rehearsal.controlplane.storage.efs_provisioning import (
    FINALIZER,
    Parameters,
    ProvisioningError,
    access_point,
    check_claim,
    volume,
)

Object = dict[str, Any]

LEAST = {"provisioningMode": "efs-ap", "fileSystemId": "fs-0123abcd", "directoryPerms": "700"}
CLAIM: Object = {
    "metadata": {"name": "home-a", "namespace": "team", "uid": "u-1", "resourceVersion": "7"},
    "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "5Gi"}}},
}


def wish(**parameters: str) -> Parameters:
    return Parameters.parse({**LEAST, **parameters})


def directory(**parameters: str) -> str:
    return wish(**parameters).directory(CLAIM, "pvc-u-1", lambda: "1-2-3")


@pytest.mark.parametrize(
    ("parameters", "path"),
    [
        ({}, "/pvc-u-1"),
        ({"basePath": "/homes"}, "/homes/pvc-u-1"),
        ({"basePath": "homes/"}, "/homes/pvc-u-1"),
        ({"basePath": "/"}, "/pvc-u-1"),
        ({"subPathPattern": "${.PVC.namespace}/${.PVC.name}"}, "/team/home-a-1-2-3"),
        ({"subPathPattern": "/${.PV.name}", "ensureUniqueDirectory": "false"}, "/pvc-u-1"),
        ({"subPathPattern": "fixed", "ensureUniqueDirectory": "nonsense"}, "/fixed-1-2-3"),
        ({"subPathPattern": "fixed", "ensureUniqueDirectory": "F"}, "/fixed"),
        ({"ensureUniqueDirectory": "true"}, "/pvc-u-1"),
    ],
)
def test_directory_follows_the_storage_class(parameters: dict[str, str], path: str) -> None:
    assert directory(**parameters) == path


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"subPathPattern": "${.PVC.uid}"}, "contains invalid elements. Can only contain [.PV.name .PVC.name"),
        ({"basePath": "/" + "a" * 100}, "exceeds file system limit of 100 characters"),
        ({"basePath": "/1/2/3/4/5"}, "limit of 4 subdirectories"),
    ],
)
def test_a_directory_that_efs_cannot_have_is_refused(parameters: dict[str, str], words: str) -> None:
    with pytest.raises(ProvisioningError) as refused:
        directory(**parameters)
    assert words in str(refused.value)
    assert "code = InvalidArgument" in str(refused.value)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"fileSystemId": " "}, "must be specified"),
        ({"provisioningMode": "efs-dir"}, "Provisioning mode efs-dir is not supported"),
        ({"provisioningMode": "s3files-ap"}, "not simulated"),
        ({"uid": "-1"}, "uid must be greater or equal than 0"),
        ({"gid": "users"}, "Failed to parse invalid gid"),
        ({"gidRangeStart": "0", "gidRangeEnd": "5"}, "gidRangeStart must be greater than 0"),
        ({"gidRangeStart": "5"}, "Missing gidRangeEnd parameter"),
        ({"gidRangeEnd": "5"}, "Missing gidRangeStart parameter"),
        ({"gidRangeStart": "5", "gidRangeEnd": "5"}, "gidRangeEnd must be greater than gidRangeStart"),
        ({"reuseAccessPoint": "yes"}, "Invalid value for reuseAccessPoint parameter"),
        ({"enableTagging": "maybe"}, "Invalid value for enableTagging parameter"),
        ({"enforceZoneAffinity": "true"}, "not simulated"),
        ({"fileSystemIdSecretRef": "a/b/c"}, "not simulated"),
    ],
)
def test_invalid_parameters_have_the_drivers_messages(parameters: dict[str, str], words: str) -> None:
    with pytest.raises(ProvisioningError, match=words):
        wish(**parameters)


def test_storage_class_without_a_mode_is_refused() -> None:
    with pytest.raises(ProvisioningError, match="Missing provisioningMode parameter"):
        Parameters.parse({"fileSystemId": "fs-0123abcd"})


def test_user_and_group_are_configured_or_allocated() -> None:
    assert wish(uid="0", gid="7").owner([7]) == (0, 7)
    assert wish().owner([]) == (50000, 50000)
    assert wish(gidRangeStart="10", gidRangeEnd="12").owner([10, 11]) == (12, 12)
    assert wish(gid="100", gidRangeStart="10", gidRangeEnd="12").owner([10]) == (11, 100)
    with pytest.raises(ProvisioningError, match="Failed to locate a free GID"):
        wish(gidRangeStart="10", gidRangeEnd="12").owner([10, 11, 12])
    # However wide the range, a file system has no more access points than that
    assert wish(gidRangeStart="1", gidRangeEnd="90000").owner(range(1, 10_001)) == (10_001, 10_001)
    with pytest.raises(ProvisioningError, match="Failed to locate a free GID"):
        wish(gidRangeStart="1", gidRangeEnd="90000").owner(range(1, 10_002))


def test_access_point_is_reused_by_claim_name_if_it_matches() -> None:
    again = wish(reuseAccessPoint="true", basePath="/homes", uid="1", gid="2")
    other = {"metadata": {**CLAIM["metadata"], "uid": "u-2"}}
    assert again.token(CLAIM, "pvc-u-1") == again.token(other, "pvc-u-2")
    assert wish().token(CLAIM, "pvc-u-1") == "pvc-u-1"
    fits: Object = {"RootDirectory": {"Path": "/homes/x"}, "PosixUser": {"Uid": 1, "Gid": 2}}
    again.check_existing(fits)
    for change, words in (
        ({"RootDirectory": {"Path": "/others/x"}}, "different base path"),
        ({"PosixUser": {"Uid": 1, "Gid": 3}}, "GID is incorrect"),
        ({"PosixUser": {"Uid": 3, "Gid": 2}}, "UID is incorrect"),
    ):
        with pytest.raises(ProvisioningError, match=words):
            again.check_existing({**fits, **change})
    with pytest.raises(ProvisioningError, match="GID is outside the specified range"):
        wish(reuseAccessPoint="true").check_existing(fits)


@pytest.mark.parametrize(
    ("spec", "response", "words"),
    [
        ({"accessModes": ["ReadOnlyMany"]}, {}, "invalid access mode: MULTI_NODE_READER_ONLY"),
        ({"volumeMode": "Block"}, {}, "does not support block volume provisioning"),
        ({"dataSource": {"kind": "PersistentVolumeClaim", "name": "b"}}, {}, "neither snapshots nor clones"),
        ({}, {"mountOptions": ["crossaccount"]}, "cannot be set manually"),
        ({}, {"parameters": {"csi.storage.k8s.io/fstype": "ext4"}}, "invalid fstype: ext4"),
    ],
)
def test_claims_that_efs_cannot_provision_are_refused(spec: Object, response: Object, words: str) -> None:
    check_claim(CLAIM, {})
    with pytest.raises(ProvisioningError, match=words):
        check_claim({**CLAIM, "spec": {**CLAIM["spec"], **spec}}, response)


def test_the_volume_is_the_claims_own() -> None:
    kind: Object = {"metadata": {"name": "efs"}, "mountOptions": ["iam"]}
    created = volume(CLAIM, kind, "pvc-u-1", "fs-0123abcd::fsap-0123abcd")
    assert created["spec"]["claimRef"]["uid"] == "u-1"
    assert created["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
    assert created["metadata"]["finalizers"] == [FINALIZER]
    assert created["spec"]["mountOptions"] == ["iam"]
    retained = volume(CLAIM, {**kind, "reclaimPolicy": "Retain"}, "pvc-u-1", "fs-0123abcd::fsap-0123abcd")
    assert retained["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert retained["metadata"]["finalizers"] == []


@pytest.mark.parametrize(
    ("handle", "point"),
    [
        ("fs-0123abcd::fsap-0123abcd", "fsap-0123abcd"),
        ("efs:fs-0123abcd::fsap-0123abcd", "fsap-0123abcd"),
        ("fs-0123abcd:/path:fsap-0123abcd", "fsap-0123abcd"),
        ("fs-0123abcd", None),
        ("fs-0123abcd:/path", None),
        ("fs-0123abcd::", None),
        ("vol-0123abcd", None),
    ],
)
def test_volume_handle_is_parsed(handle: str, point: str | None) -> None:
    assert access_point(handle) == point
