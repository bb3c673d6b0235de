"""Bundles of sandboxes: root folder, volumes, homes, and the specification for gVisor."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any, cast

import pytest

from agentenv.local.sandboxes import root_folder
from agentenv.local.sandboxes.bundle import Bundle, CannotStart, Mount
from agentenv.local.sandboxes.gvisor import specification
from agentenv.rehearsal.controlplane.auth.account import Account
from agentenv.rehearsal.controlplane.client import Client
from agentenv.rehearsal.controlplane.pods import status, volumes
from agentenv.rehearsal.controlplane.sandboxes import launcher
from agentenv.rehearsal.controlplane.sandboxes.homes import FileSystems, Home
from agentenv.rehearsal.controlplane.sandboxes.mounts import PodVolumes
from agentenv.rehearsal.controlplane.sandboxes.sandbox_pod import runs_workspaced

Object = dict[str, Any]


class FakeApi:
    """An API server with some objects, which signs tokens."""

    def __init__(self, **objects: Object) -> None:
        self.objects = {name.replace("__", "/"): document for name, document in objects.items()}
        self.requested: list[Object] = []

    def find(self, path: str) -> Object | None:
        return next((document for name, document in self.objects.items() if path.endswith(name)), None)

    def request(self, _method: str, _path: str, body: Object) -> Object:
        self.requested.append(body)
        return {"status": {"token": "signed"}}


def pod(*more: Object, **container: Any) -> Object:
    metadata = {"name": "p", "namespace": "n", "uid": "u-1"}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c", **container}], "volumes": list(more)}}


def pod_volumes(api: FakeApi, pod: Object, folder: Path) -> PodVolumes:
    client = cast("Client", api)
    return PodVolumes(client, pod, folder, FileSystems(client, folder / "efs", None), "127.64.0.1")


@pytest.mark.parametrize(
    ("command", "runs"),
    [
        (["/opt/workspaced/workspaced", "run"], True),
        (["/opt/workspaced/workspaced", "version"], False),
        (["/bin/sh", "run"], False),
        (["/bin/sh"], False),
        (None, False),
    ],
)
def test_only_pods_with_workspaced_run(command: list[str] | None, runs: bool) -> None:
    assert runs_workspaced(pod(command=command)) is runs


def test_a_root_folder_has_the_machines_programs_and_nothing_else_of_it(tmp_path: Path) -> None:
    machine, root = tmp_path / "machine", tmp_path / "root"
    for name in ("usr/bin", "lib64", "etc/ssl", "etc/secret", "home/somebody"):
        (machine / name).mkdir(parents=True)
    (machine / "bin").symlink_to("usr/bin")
    (machine / "etc/ld.so.cache").touch()
    (machine / "usr/os-release").touch()
    (machine / "etc/os-release").symlink_to("../usr/os-release")
    mounts = root_folder.create(root, "host-1", "127.64.0.1", machine)
    assert {(mount.source.relative_to(machine).as_posix(), mount.target) for mount in mounts} == {
        ("usr", "/usr"), ("lib64", "/lib64"), ("etc/ssl", "/etc/ssl"), ("etc/ld.so.cache", "/etc/ld.so.cache"),
        ("usr/os-release", "/etc/os-release"),
    }  # fmt: skip
    assert all(mount.read_only for mount in mounts)
    assert (root / "bin").readlink() == Path("usr/bin")
    assert (root / root_folder.PATH.split(":")[-1][1:] / "python").readlink() == Path("/usr/bin/python3")
    assert "127.64.0.1\thost-1" in (root / "etc/hosts").read_text()
    assert sorted(line.split(":")[0] for line in (root / "etc/passwd").read_text().splitlines()) == ["nobody", "root"]


def test_a_sandbox_under_gvisor_has_no_capability_and_no_network(tmp_path: Path) -> None:
    mounts = (Mount(tmp_path, "/a", read_only=True), Mount(tmp_path, "/b"))
    spec = specification(Bundle("id", tmp_path, tmp_path / "root", ("x",), {"A": "b"}, mounts, 61234, 61235, (7,)))
    process = spec["process"]
    assert process["user"] == {"uid": 61234, "gid": 61235, "additionalGids": [7]}
    assert process["noNewPrivileges"] is True
    assert not any(process["capabilities"].values())
    assert spec["root"]["readonly"] is True
    assert {"type": "network"} in spec["linux"]["namespaces"]
    binds = {row["destination"]: row["options"] for row in spec["mounts"] if row["type"] == "bind"}
    assert binds == {"/a": ["rbind", "ro"], "/b": ["rbind", "rw"]}


def test_volumes_have_the_files_that_a_kubelet_writes(tmp_path: Path) -> None:
    encoded = base64.b64encode(b"\x00\x01").decode()
    api = FakeApi(
        configmaps__settings={"data": {"a": "1", "b": "2"}, "binaryData": {"c": encoded}},
        secrets__keys={"data": {"key": base64.b64encode(b"secret").decode()}},
    )
    uid = {"path": "uid", "fieldRef": {"fieldPath": "metadata.uid"}}
    token = {"serviceAccountToken": {"audience": "exchange", "expirationSeconds": 600, "path": "token"}}
    pod_document = pod(
        {"name": "settings", "configMap": {"name": "settings"}},
        {"name": "some", "configMap": {"name": "settings", "items": [{"key": "a", "path": "x/a"}]}},
        {"name": "keys", "secret": {"secretName": "keys"}},
        {"name": "info", "downwardAPI": {"items": [uid]}},
        {"name": "all", "projected": {"sources": [token, {"downwardAPI": {"items": [uid]}}]}},
        {"name": "missing", "configMap": {"name": "no-such", "optional": True}},
        {"name": "scratch", "emptyDir": {}},
    )
    row = pod_volumes(api, pod_document, tmp_path)
    row.create()
    files = {path.relative_to(tmp_path).as_posix(): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert files == {
        "settings/a": b"1", "settings/b": b"2", "settings/c": b"\x00\x01", "some/x/a": b"1", "keys/key": b"secret",
        "info/uid": b"u-1", "all/token": b"signed", "all/uid": b"u-1",
    }  # fmt: skip
    assert api.requested[0]["spec"]["audiences"] == ["exchange"]
    assert api.requested[0]["spec"]["boundObjectRef"]["uid"] == "u-1"
    before = (tmp_path / "settings/b").stat().st_ino
    api.objects["configmaps/settings"]["data"]["a"] = "3"
    row.refresh()
    assert (tmp_path / "settings/a").read_text() == "3"
    assert (tmp_path / "settings/b").stat().st_ino == before, "what has not changed is not written"


@pytest.mark.parametrize(
    ("volume", "words"),
    [
        ({"hostPath": {"path": "/"}}, "kind hostPath, which is not simulated"),
        ({"configMap": {"name": "no-such"}}, 'configmap "no-such" not found'),
        ({"persistentVolumeClaim": {"claimName": "no-such"}}, 'persistentvolumeclaim "no-such" is not bound'),
        ({"projected": {"sources": [{"clusterTrustBundle": {}}]}}, "projection of clusterTrustBundle"),
    ],
)
def test_missing_volume_is_refused(tmp_path: Path, volume: Object, words: str) -> None:
    with pytest.raises(CannotStart, match=words):
        pod_volumes(FakeApi(), pod({"name": "v", **volume}), tmp_path).create()


def test_mounts_are_in_order_and_sub_paths_stay_in_their_volume(tmp_path: Path) -> None:
    mounts = [
        {"name": "v", "mountPath": "/home/agent/.cache", "subPath": "cache"},
        {"name": "v", "mountPath": "/home", "readOnly": True},
        {"name": "v", "mountPath": "/etc/passwd", "subPath": "passwd"},
    ]
    pod_document = pod({"name": "v", "emptyDir": {}}, volumeMounts=mounts)
    row = pod_volumes(FakeApi(), pod_document, tmp_path)
    row.create()
    (tmp_path / "v" / "passwd").touch()
    found = row.mounts(pod_document["spec"]["containers"][0])
    assert [(mount.target, mount.read_only) for mount in found] == [
        ("/home", True), ("/etc/passwd", False), ("/home/agent/.cache", False),
    ]  # fmt: skip
    assert found[2].source == tmp_path / "v" / "cache"
    assert found[1].source.is_file()
    (tmp_path / "v" / "out").symlink_to("/etc")
    for path in ("../x", "out", "out/deeper"):
        mounts[0]["subPath"] = path
        with pytest.raises(CannotStart, match="leads out of its volume"):
            row.mounts(pod_document["spec"]["containers"][0])


class FakeAccount:
    """An account with one access point, and no role for the driver."""

    def __init__(self, refusal: str = "") -> None:
        self.refusal = refusal
        self.mounts: list[tuple[str, str | None, bool, str | None]] = []

    def service(self, _: str) -> FakeAccount:
        return self

    def associated_cluster(self, namespace: str, service_account: str) -> None:
        assert (namespace, service_account) == ("kube-system", "efs-csi-node-sa")

    def refused_mount(self, system: str, point: str | None, *, tls: bool, access_key: str | None) -> str:
        self.mounts.append((system, point, tls, access_key))
        return self.refusal

    def describe_access_points(self, AccessPointId: str) -> Object:  # noqa: N803 - the SDK's name
        assert AccessPointId == "fsap-0123456789abcdef0"
        info = {"OwnerUid": os.geteuid(), "OwnerGid": os.getegid(), "Permissions": "0750"}
        root = {"Path": "/classes/a/home-1", "CreationInfo": info}
        return {"AccessPoints": [{"PosixUser": {"Uid": os.geteuid(), "Gid": os.getegid()}, "RootDirectory": root}]}


def file_systems(folder: Path, account: FakeAccount, *options: str) -> FileSystems:
    """Return the file systems of a plane with one volume."""
    handle = "fs-0123456789abcdef0::fsap-0123456789abcdef0"
    api = FakeApi(
        persistentvolumeclaims__home={"spec": {"volumeName": "pv-1"}},
        persistentvolumes__pv_1={},
    )
    api.objects["persistentvolumes/pv-1"] = {"spec": {"csi": {"volumeHandle": handle}, "mountOptions": [*options]}}
    return FileSystems(cast("Client", api), folder, cast("Account", account))


def test_a_mount_that_efs_refuses_fails_with_its_reason(tmp_path: Path) -> None:
    account = FakeAccount("access denied by server")
    with pytest.raises(CannotStart, match="mount failed: access denied by server"):
        file_systems(tmp_path, account).home("n", "home")
    assert account.mounts == [("fs-0123456789abcdef0", "fsap-0123456789abcdef0", True, None)]


def test_a_mount_with_iam_needs_credentials_of_the_drivers_node_pod(tmp_path: Path) -> None:
    account = FakeAccount()
    with pytest.raises(CannotStart, match="Unable to locate credentials: neither an association"):
        file_systems(tmp_path, account, "tls", "iam").home("n", "home")
    assert not account.mounts


def test_a_home_is_the_root_folder_of_its_access_point(tmp_path: Path) -> None:
    systems = file_systems(tmp_path, FakeAccount())
    home = systems.home("n", "home")
    assert home.folder == tmp_path / "fs-0123456789abcdef0" / "classes" / "a" / "home-1"
    assert home.folder.stat().st_mode & 0o777 == 0o750
    current = home.below("current")
    assert current.stat().st_mode & 0o777 == 0o750, "a kubelet creates a sub-path with the mode of the root"
    (current / "file").touch()
    assert (systems.home("n", "home").below("current") / "file").exists()


def test_a_sub_path_is_created_with_its_parents(tmp_path: Path) -> None:
    assert Home(tmp_path, None).below("a/b") == tmp_path / "a" / "b"
    assert (tmp_path / "a" / "b").is_dir()


@pytest.mark.parametrize(
    ("code", "exit_code", "reason"), [(0, 0, "Completed"), (7, 7, "Error"), (-9, 137, "Error"), (-15, 143, "Error")]
)
def test_the_end_of_a_process_is_reported_as_a_containers(code: int, exit_code: int, reason: str) -> None:
    state = status.terminated(code)["terminated"]
    assert (state["exitCode"], state["reason"]) == (exit_code, reason)


def test_summary_lists_what_is_not_simulated_and_why(tmp_path: Path) -> None:
    assert launcher.not_simulated(tmp_path, {}) == []
    assert launcher.not_simulated(tmp_path, {"workspaced": "no Go"}) == ["sandboxes: whatever runs in them (no Go)"]
    launcher.write_record(tmp_path, ("a kernel of their own",), ("gvisor: not permitted",))
    lines = launcher.not_simulated(tmp_path, {})
    assert "sandboxes: a kernel of their own (gvisor: not permitted)" in lines
    assert any("the internet" in line for line in lines)


def test_contents_are_replaced_atomically(tmp_path: Path) -> None:
    volumes.write_contents({"a/b": b"1"}, tmp_path)
    volumes.write_contents({"a/b": b"2"}, tmp_path)
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]
