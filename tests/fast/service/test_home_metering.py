"""Home metering: real folders, a fake API server, and no path out of a home."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from agentenv.core.classes.names import MODE_LABEL, USER_LABEL, WORKSPACE_LABEL
from agentenv.core.lifecycle.access_point_audit import Point
from agentenv.core.values.timestamps import format_whole_seconds
from agentenv.core.workspaces.home_sizes import SUSPENDED_SCAN_INTERVAL
from agentenv.service.home_metering import (
    ENTRIES,
    FOUND,
    MEASURED_AT,
    FileSystem,
    main,
    measure,
    measured_bytes,
    metered,
    passes,
)
from agentenv.service.home_scan import scan_home
from agentenv.service.kube.client import CLAIMS, VOLUMES
from agentenv.service.ledger.read_holdings import MEASURED
from tests.fast.service.fake_api_server import FakeApiServer, run

NOW = datetime(2026, 11, 20, 3, tzinfo=UTC)
SYSTEM = "fs-1"


class Listed:
    """The access points of a file system by path."""

    def __init__(self, **paths: str) -> None:
        self.paths = paths

    def of(self, file_system: str) -> Sequence[Point]:
        return [Point(f"fsap-{name}", file_system, path, 1000, 1000) for name, path in self.paths.items()]

    def tag(self, point: str, tags: object) -> None:
        raise AssertionError(f"{point} was tagged {tags}")

    def untag(self, point: str, names: object) -> None:
        raise AssertionError(f"{point} was untagged {names}")


def volume(name: str, system: str = SYSTEM, **notes: str) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name, "annotations": notes,
            "labels": {USER_LABEL: f"u-{name}", WORKSPACE_LABEL: f"w-{name}", MODE_LABEL: "user"},
        },
        "spec": {"csi": {"driver": "efs.csi.aws.com", "volumeHandle": f"{system}::fsap-{name}"}},
    }  # fmt: skip


def claim(name: str) -> dict[str, Any]:
    labels = {USER_LABEL: f"u-{name}", WORKSPACE_LABEL: f"w-{name}", MODE_LABEL: "user"}
    return {
        "metadata": {"name": f"w-{name}", "namespace": "sandbox-standard", "labels": labels},
        "spec": {"warmPoolRef": {"name": "p"}, "additionalPodMetadata": {"labels": labels}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "sandbox": {"name": "s"}},
    }


def files(home: Path, *sizes: int) -> int:
    """Create files of these kilobytes below a home, and return their size on this disk."""
    home.mkdir(parents=True, exist_ok=True)
    for number, kilobytes in enumerate(sizes):
        folder = home / f"d{number}" / "deep"
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(os.urandom(kilobytes * 1024))
    return sum(file.lstat().st_blocks * 512 for file in home.rglob("*"))


@pytest.fixture
def homes(tmp_path: Path) -> Path:
    return tmp_path / SYSTEM


def notes(api: FakeApiServer, name: str) -> dict[str, str]:
    return api.objects[VOLUMES, "", name]["metadata"]["annotations"]


def test_homes_are_measured_and_scaled_to_the_bill(homes: Path) -> None:
    first, second = files(homes / "sandboxes/standard/one", 40, 8), files(homes / "sandboxes/standard/two", 100)
    api = FakeApiServer()
    for name in ("one", "two"):
        api.put(VOLUMES, volume(name))
    api.put(VOLUMES, volume("elsewhere", "fs-2"))
    points = Listed(one="/sandboxes/standard/one", two="/sandboxes/standard/two")
    done = run(measure, api, points, FileSystem(SYSTEM, homes, 2 * (first + second)), NOW)
    assert (done.homes, done.sampled, done.missing, done.waiting) == (2, 0, (), 0)
    assert notes(api, "one") == {
        MEASURED: str(2 * first), FOUND: str(first), ENTRIES: "11", MEASURED_AT: format_whole_seconds(NOW),
    }  # fmt: skip
    assert notes(api, "two")[MEASURED] == str(2 * second)
    assert notes(api, "elsewhere") == {}
    assert run(measured_bytes, api) == {"one": 2 * first, "two": 2 * second}


@pytest.mark.parametrize("replaced", [False, True], ids=["changed", "replaced"])
def test_a_volume_that_changes_meanwhile_is_measured_and_another_of_its_name_is_not(
    homes: Path, *, replaced: bool
) -> None:
    size = files(homes / "one", 40)
    api = FakeApiServer()
    api.put(VOLUMES, volume("one"))

    class Binding(Listed):
        """The volume changes after it was listed."""

        def of(self, file_system: str) -> Sequence[Point]:
            bound = {**volume("one"), "status": {"phase": "Bound"}}
            if replaced:
                bound["metadata"]["uid"] = "of another"
            api.put(VOLUMES, bound)
            return super().of(file_system)

    run(measure, api, Binding(one="/one"), FileSystem(SYSTEM, homes, size), NOW)
    assert notes(api, "one").get(FOUND) == (None if replaced else str(size))
    assert api.objects[VOLUMES, "", "one"]["status"] == {"phase": "Bound"}


def test_homes_of_suspended_workspaces_are_measured_less_often(homes: Path) -> None:
    files(homes / "one", 4)
    files(homes / "two", 4)
    api, points = FakeApiServer(), Listed(one="/one", two="/two")
    for name in ("one", "two"):
        api.put(VOLUMES, volume(name))
    api.put(CLAIMS, claim("one"))  # two's is gone, or sleeps
    assert run(measure, api, points, FileSystem(SYSTEM, homes, 1), NOW).homes == 2
    grown = files(homes / "one/more", 64) + 1
    tomorrow = NOW + timedelta(days=1)
    assert run(measure, api, points, FileSystem(SYSTEM, homes, grown * 10), tomorrow).homes == 1
    assert notes(api, "one")[MEASURED_AT] == format_whole_seconds(tomorrow)
    assert notes(api, "two")[MEASURED_AT] == format_whole_seconds(NOW)
    later = NOW + SUSPENDED_SCAN_INTERVAL
    run(measure, api, points, FileSystem(SYSTEM, homes, 1), later)
    assert notes(api, "two")[MEASURED_AT] == format_whole_seconds(later)


def test_the_entries_of_a_day_are_limited_and_waiting_homes_are_reported(homes: Path) -> None:
    names = [f"h{number}" for number in range(6)]
    for name in names:
        files(homes / name, 1, 1, 1)
    api = FakeApiServer()
    for name in names:
        api.put(VOLUMES, volume(name))
    points = Listed(**{name: f"/{name}" for name in names})
    done = run(measure, api, points, FileSystem(SYSTEM, homes, 10**6), NOW, 25)
    assert (done.homes, done.waiting) == (2, 4)
    # Some sizes are not known yet, so they are not scaled.
    assert notes(api, "h0")[MEASURED] == notes(api, "h0")[FOUND]
    assert run(measure, api, points, FileSystem(SYSTEM, homes, 10**6), NOW, 10**6).homes == 4


def test_a_missing_home_is_reported_and_keeps_its_size(homes: Path) -> None:
    homes.mkdir()
    api = FakeApiServer()
    api.put(VOLUMES, volume("gone"))
    done = run(measure, api, Listed(), FileSystem(SYSTEM, homes, 1), NOW)
    assert done.missing == ("gone",)
    assert notes(api, "gone") == {}


def test_no_symbolic_link_leads_out_of_a_home(homes: Path, tmp_path: Path) -> None:
    outside = tmp_path / "others"
    files(outside, 500)
    own = files(homes / "evil", 4)
    (homes / "evil" / "loop").symlink_to(homes / "evil")
    (homes / "evil" / "out").symlink_to(outside)
    (homes / "linked").symlink_to(outside)
    found = scan_home(homes, "/evil", 1000)
    assert found is not None
    assert own <= found.bytes < own + 4096 * 3
    assert scan_home(homes, "/linked", 1000) is None


@pytest.mark.parametrize("path", ["", "/", "/../others", "/a/./b", None])
def test_a_path_outside_the_homes_is_not_measured(path: str | None, homes: Path) -> None:
    homes.mkdir()
    assert scan_home(homes, path, 1000) is None


def test_a_file_with_two_hard_links_counts_once(homes: Path) -> None:
    own = files(homes / "one", 40)
    (homes / "one" / "again").hardlink_to(homes / "one" / "d0" / "deep" / "file")
    found = scan_home(homes, "/one", 1000)
    assert found is not None
    assert found.bytes < own + 8192


def test_the_billed_size_is_read_from_efs() -> None:
    client: Any = boto3.client("efs", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
    arguments = {
        "OwnerId": "1", "CreationToken": "t", "FileSystemId": "fs-12345678", "CreationTime": NOW,
        "LifeCycleState": "available", "NumberOfMountTargets": 2, "SizeInBytes": {"Value": 6144},
        "PerformanceMode": "generalPurpose", "Tags": [],
    }  # fmt: skip
    stub = Stubber(client)
    stub.add_response("describe_file_systems", {"FileSystems": [arguments]}, {"FileSystemId": "fs-12345678"})
    with stub:
        assert metered(client, "fs-12345678") == 6144


def test_a_class_that_is_not_mounted_does_not_stop_the_others(homes: Path) -> None:
    """The folders of two classes, of which one is not mounted."""
    own = files(homes / "classes/standard/one", 40)
    api = FakeApiServer()
    for name in ("one", "two", "other"):
        api.put(VOLUMES, volume(name))
    points = Listed(one="/classes/standard/one", two="/classes/untrusted/two", other="/elsewhere/other")
    below = ("/classes/standard", "/classes/untrusted")
    assert (
        run(passes, api, points, [FileSystem(SYSTEM, homes, 1, below), FileSystem("fs-2", homes / "nowhere", 1)], 1000)
        == 1
    )
    assert notes(api, "one")[FOUND] == str(own)
    assert notes(api, "two") == notes(api, "other") == {}
    (homes / "classes/untrusted").mkdir()
    # A home that was never mounted has no folder, which is no error.
    assert run(passes, api, points, [FileSystem(SYSTEM, homes, 1, below)], 1000) == 0


def test_the_volumes_of_the_job_itself_are_not_measured(homes: Path) -> None:
    files(homes / "classes/standard/one", 4)
    api = FakeApiServer()
    api.put(VOLUMES, volume("one"))
    looks = volume("looks")
    looks["spec"]["claimRef"] = {"namespace": "storage-metering", "name": "looks"}
    api.put(VOLUMES, looks)
    points = Listed(one="/classes/standard/one", looks="/classes/standard")
    done = run(measure, api, points, FileSystem(SYSTEM, homes, 10**6, ("/classes/standard",)), NOW)
    assert done.homes == 1
    assert notes(api, "looks") == {}
    # All sizes are known, so they are scaled to the billed size.
    assert notes(api, "one")[MEASURED] == str(10**6)


@pytest.mark.parametrize("argument", ["vol-1", "fs-1", "fs-0123456789abcdef0=..", "fs-0123456789abcdef0=a/b"])
def test_an_invalid_file_system_is_refused(argument: str) -> None:
    with pytest.raises(SystemExit):
        main(["--homes", "/homes", "--file-system", argument, "--region", "eu-west-1"])


def test_outside_a_cluster_the_job_fails_and_logs_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--homes", "/homes", "--file-system", "fs-0123456789abcdef0", "--region", "eu-west-1"]) == 1
    assert "homes cannot be measured" in capsys.readouterr().out
