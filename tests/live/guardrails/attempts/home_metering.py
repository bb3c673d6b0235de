"""Attempts to run pods in the metering namespace, to connect to them, and to redirect its volumes."""

from __future__ import annotations

from typing import Any

from agentenv.core.service.home_metering import NAME, volume
from tests.live.guardrails.attempts.attempt import Attempt, Table, changed, create, enter, merge, put
from tests.live.guardrails.guarded import (
    CRON,
    DEPLOYER,
    HOMES_FOLDER,
    INSIDER,
    JOBS,
    POINT,
    PROVISIONER,
    SERVICE,
    Guarded,
    Object,
    metering_job,
    plain,
)

ATTEMPTS: list[Attempt] = []


def _volume(guarded: Guarded) -> Object:
    return volume(HOMES_FOLDER, f"{guarded.file_system}::{POINT}")


def _existing(_: Guarded) -> str:
    return "/api/v1/persistentvolumes/looked-at-standing"


_volumes = Table("volumes", ATTEMPTS)
_volumes.passes("volume-looked-at volume-handle", "all homes, to read only, by a deployment", DEPLOYER, create(_volume))
_volumes.refused("volume-looked-at", "all homes, by the provisioner", PROVISIONER, create(_volume))
_volumes.refused("volume-by", "all homes, by the service", SERVICE, create(_volume))
_volumes.refused(
    "volume-looked-at", "all homes, to write", DEPLOYER, create(changed(_volume, put("spec.csi.readOnly", None)))
)
_volumes.refused(
    "volume-looked-at",
    "all homes, now for a claim of a class, by the service",
    SERVICE,
    merge(_existing, lambda guarded: {"spec": {"claimRef": {"namespace": guarded.namespace, "name": "home-x"}}}),
)
_volumes.passes(
    "volume-looked-at", "an annotation", SERVICE, merge(_existing, {"metadata": {"annotations": {"x": "y"}}})
)


def _pod(guarded: Guarded) -> Object:
    spec: Any = metering_job(guarded)["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return plain(guarded, "v1", "Pod", namespace=NAME, spec=spec)


def _job(guarded: Guarded) -> Object:
    return plain(guarded, "batch/v1", "Job", namespace=NAME, spec=metering_job(guarded)["spec"]["jobTemplate"]["spec"])


def _cron(_: Guarded) -> str:
    return f"/apis/batch/v1/namespaces/{NAME}/cronjobs/standing"


_looking = Table("looking", ATTEMPTS)
for _thing, _word in ((_pod, "a pod"), (_job, "a job"), (metering_job, "a CronJob")):
    _looking.refused("looking-by", f"{_word} by somebody", INSIDER, create(_thing))
    _looking.refused("looking-by", f"{_word} by the service", SERVICE, create(_thing))
_looking.refused(
    "looking-by", "other arguments of the CronJob", INSIDER, merge(_cron, {"spec": {"schedule": "* * * * *"}})
)
_looking.passes("looking-by", "a label of the CronJob", INSIDER, merge(_cron, {"metadata": {"labels": {"x": "y"}}}))
_looking.passes(
    "looking-by", "another hour, by a deployment", DEPLOYER, merge(_cron, {"spec": {"schedule": "1 1 * * *"}})
)
_looking.passes("looking-by", "a job, by the controller of CronJobs", CRON, create(_job))
_looking.passes("looking-by", "a pod, by the controller of jobs", JOBS, create(_pod))

for _user, _who in ((INSIDER, "somebody"), (SERVICE, "the service"), (JOBS, "the controller of jobs")):
    _looking.refused("looking-entered", f"exec by {_who}", _user, enter(NAME))
_looking.passes("looking-entered", "exec by a deployer", DEPLOYER, enter(NAME), reaches_node=True)
