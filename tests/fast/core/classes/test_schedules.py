"""Tests of schedules: a pool has its scheduled size at every minute of a week."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentenv.core.classes.names import SCHEDULES
from agentenv.core.classes.plan import ClassPlan
from agentenv.core.classes.pools.schedules import WEEK, SizeChange, schedules_namespace, size_changes
from agentenv.core.classes.pools.sizes import base_size
from agentenv.core.values.names import KINDS
from tests.fast.config.stack_samples import OTHER_IMAGE, sandbox
from tests.fast.core.classes.restricted import violations
from tests.fast.core.classes.strategies import FEW, created, objects_of, plan_of, planned

Object = dict[str, Any]
OFFICE = {"start": "08:00", "end": "18:00", "size": 5}


def size_at(changes: tuple[SizeChange, ...], day: str, time: str, base: int) -> int:
    """Return the pool size that the last change within a week before a time has set."""
    minutes = {
        (WEEK.index(at) * 1440 + int(change.time[:2]) * 60 + int(change.time[3:])): change.members
        for change in changes
        for at in change.days
    }
    now = WEEK.index(day) * 1440 + int(time[:2]) * 60 + int(time[3:])
    before = sorted(minutes, key=lambda minute: (now - minute) % (7 * 1440))
    return minutes[before[0]] if before else base


@FEW
@given(planned(), st.sampled_from(WEEK), st.integers(0, 23), st.integers(0, 59))
def test_a_pool_has_the_size_of_its_hours(plan: ClassPlan, day: str, hour: int, minute: int) -> None:
    pool, now = plan.settings.pool, f"{hour:02}:{minute:02}"
    running = [
        schedule.size for schedule in pool.schedules if day in schedule.days and schedule.start <= now < schedule.end
    ]
    expected = running[0] if running else base_size(pool)
    assert size_at(size_changes(pool), day, now, base_size(pool)) == expected


def test_where_schedules_meet_the_later_one_counts() -> None:
    morning = {"start": "08:00", "end": "12:00", "size": 9}
    noon = {"start": "12:00", "end": "18:00", "size": 4}
    changes = size_changes(plan_of(sandbox(pool={"size": 1, "schedules": [noon, morning]})).settings.pool)
    assert [(change.time, change.members) for change in changes] == [("08:00", 9), ("12:00", 4), ("18:00", 1)]
    assert changes[0].cron == "0 8 * * 1,2,3,4,5"


def test_a_schedule_over_midnight_is_one_interval() -> None:
    every = [*WEEK]
    evening = {"days": every, "start": "20:00", "end": "24:00", "size": 7}
    morning = {"days": every, "start": "00:00", "end": "06:00", "size": 7}
    night = size_changes(plan_of(sandbox(pool={"size": 1, "schedules": [evening, morning]})).settings.pool)
    assert {(change.time, change.members) for change in night} == {("20:00", 7), ("00:00", 7), ("06:00", 1)}
    # Alone, it ends with the day: Saturday's as Sunday begins.
    alone = size_changes(plan_of(sandbox(pool={"size": 1, "schedules": [{**evening, "days": ["sat"]}]})).settings.pool)
    assert [(change.days, change.time, change.members) for change in alone] == [
        (("sun",), "00:00", 1),
        (("sat",), "20:00", 7),
    ]


@FEW
@given(planned())
def test_jobs_may_only_scale_the_pools_of_the_class(plan: ClassPlan) -> None:
    objects = objects_of(plan)
    made_by = objects.schedules
    assert (made_by is None) == (not plan.settings.pool.schedules)
    if made_by is None:
        return
    names = {pool["metadata"]["name"] for pool in objects.pools}
    assert all(set(rule["resourceNames"]) == names for rule in made_by.role["rules"])
    assert {word for rule in made_by.role["rules"] for word in rule["verbs"]} == {"get", "patch", "update"}
    writing = [rule for rule in made_by.role["rules"] if set(rule["verbs"]) - {"get"}]
    assert [rule["resources"] for rule in writing] == [["sandboxwarmpools/scale"]]
    assert made_by.binding["subjects"] == [{"kind": "ServiceAccount", "name": plan.name, "namespace": SCHEDULES}]
    jobs = {job["metadata"]["name"]: job for job in made_by.jobs}
    assert len(jobs) == len(made_by.jobs) == len(size_changes(plan.settings.pool))
    for (name, job), change in zip(jobs.items(), size_changes(plan.settings.pool), strict=True):
        assert len(name) <= 52
        assert KINDS["kubernetes-label"].accepts(name)
        assert job["spec"]["timeZone"] == "Europe/Berlin"
        pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        assert violations(pod) == []
        assert len({container["name"] for container in pod["containers"]}) == len(pod["containers"])
        scaled: dict[str, int] = {}
        for container in pod["containers"]:
            assert container["args"][:2] == ["scale", f"--namespace=sandbox-{plan.name}"]
            members = int(container["args"][2].removeprefix("--replicas="))
            pools = [arg.rpartition("/")[2] for arg in container["args"][3:]]
            assert not set(pools) & set(scaled)
            scaled |= dict.fromkeys(pools, members)
        assert set(scaled) == names
        assert sum(scaled.values()) == change.members * len(objects.releases)


def test_jobs_follow_the_releases() -> None:
    settings_ = sandbox(pool={"size": 2, "schedules": [OFFICE]})
    single, double = created(settings_), created({**settings_, "releases": [{"image": OTHER_IMAGE}]})
    assert single.schedules is not None
    assert double.schedules is not None
    assert [job["metadata"]["name"] for job in single.schedules.jobs] == [
        job["metadata"]["name"] for job in double.schedules.jobs
    ]
    assert len(double.schedules.role["rules"][0]["resourceNames"]) == 2


def test_jobs_run_outside_the_namespaces_of_classes() -> None:
    found = created(sandbox(pool={"schedules": [OFFICE]})).schedules
    assert found is not None
    for job in found.jobs:
        assert "sandbox.users.io/class" not in job["spec"]["jobTemplate"]["spec"]["template"]["metadata"]["labels"]
    about = schedules_namespace("1.35")["metadata"]
    assert about["name"] == SCHEDULES
    assert about["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
