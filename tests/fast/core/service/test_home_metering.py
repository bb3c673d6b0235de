"""Tests of the job that measures homes: its mounts, its schedule, and that it writes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from agentenv.config import Mistakes, Settings
from agentenv.core.service.home_metering import MOST_MOUNTS, NAME, claim, home_folders, job, scan_jobs, volume
from agentenv.core.values.posix_ids import class_id, seat_id
from tests.fast.config.stack_samples import fargate, sandbox, settings

IMAGE = f"registry.example.com/service@sha256:{'ab' * 32}"
CLASSES = [
    sandbox("standard"),
    sandbox("swarming", storage={"kind": "shared"}),
    sandbox("homeless", storage={"kind": "none"}),
    fargate("batch", pool={"size": 0}),
]
SEAT = {"name": "desk", "class": "standard", "user": "u-desk"}


def settings_with(**changes: Any) -> Settings:
    config: dict[str, Any] = {
        "service": {"image": IMAGE},
        "sandboxClasses": CLASSES,
        "storage": {"fileSystems": 2},
        "workspaces": [SEAT],
    }
    return settings({**config, **changes})


def test_all_classes_with_homes_are_measured_on_all_file_systems() -> None:
    found = {(folder.shard, folder.path.split("-")[0]): folder.uid for folder in home_folders(settings_with())}
    ids = {name: class_id(name) for name in ("standard", "swarming")}
    assert found == {
        **{(shard, f"/classes/{name}"): uid for name, uid in ids.items() for shard in (0, 1)},
        (0, "/seats/desk"): seat_id("desk"),
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"service": {}},
        {"service": {"image": IMAGE, "enabled": False}},
        {"cost": {"storageMetering": {"enabled": False}}},
        {"sandboxClasses": CLASSES[2:], "workspaces": []},
    ],
)
def test_there_are_no_jobs_without_the_service(changes: dict[str, Any]) -> None:
    assert scan_jobs(settings_with(**changes)) == ()


def test_the_entries_per_day_are_shared_by_all_jobs() -> None:
    jobs = scan_jobs(settings_with(cost={"storageMetering": {"entriesPerDay": 9001, "hour": 23}}))
    assert [job.entries for job in jobs] == [4500, 4500]
    assert all(job.cron.endswith(" 23 * * *") for job in jobs)


def test_start_minutes_are_stable_and_spread() -> None:
    minutes = {scan_jobs(settings_with().model_copy(update={"environment": f"e{n}"}))[0].cron for n in range(20)}
    assert len(minutes) > 5
    assert scan_jobs(settings_with()) == scan_jobs(settings_with())


def test_the_mounts_per_pod_are_limited() -> None:
    seats = [{**SEAT, "name": f"desk-{number}"} for number in range(2 * MOST_MOUNTS)]
    jobs = scan_jobs(settings_with(workspaces=seats))
    assert [len(job.folders) for job in jobs] == [MOST_MOUNTS, MOST_MOUNTS, 2, 2]
    assert {folder.volume for each in jobs for folder in each.folders} == {
        folder.volume for folder in home_folders(settings_with(workspaces=seats))
    }
    assert len({job.name for job in jobs}) == 4


def test_folders_are_mounted_read_only_at_the_paths_of_the_command() -> None:
    settings_ = settings_with()
    first = scan_jobs(settings_)[0]
    spec = job(first, settings_, "fs-0123456789abcdef0", "eu-west-1")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    [container] = spec["containers"]
    mounts = {mount["name"]: mount for mount in container["volumeMounts"] if mount["name"] != "scratch"}
    for folder in first.folders:
        document = volume(folder, "fs-0123456789abcdef0::fsap-0123456789abcdef0")
        assert document["spec"]["csi"]["readOnly"] is True
        assert document["spec"]["claimRef"] == {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": NAME, "name": folder.volume,
        }  # fmt: skip
        assert claim(folder)["metadata"] == {**claim(folder)["metadata"], "name": folder.volume, "namespace": NAME}
        assert mounts.pop(folder.volume) == {
            "name": folder.volume, "mountPath": f"/homes/shard-0{folder.path}", "readOnly": True,
        }  # fmt: skip
        assert f"--below={folder.path}" in container["args"]
    assert not mounts
    assert all(volume["persistentVolumeClaim"]["readOnly"] for volume in spec["volumes"] if volume["name"] != "scratch")
    assert container["command"] == ["python", "-m", "service.metering"]
    assert container["image"] == IMAGE
    # A second try would have the entries of a second day.
    assert (
        job(first, settings_, "fs-0123456789abcdef0", "eu-west-1")["spec"]["jobTemplate"]["spec"]["backoffLimit"] == 0
    )


def test_invalid_settings_are_refused() -> None:
    for wrong in ({"hour": 24}, {"entriesPerDay": 10}, {"schedule": "* * * * *"}):
        with pytest.raises(Mistakes, match="storageMetering"):
            settings_with(cost={"storageMetering": wrong})
