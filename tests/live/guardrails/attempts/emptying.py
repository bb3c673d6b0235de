"""Attempts to run other pods than those that empty homes in their namespace, and to connect to them."""

from __future__ import annotations

from typing import Any

from agentenv.core.service import home_emptying
from agentenv.core.service.home_emptying import NAME
from tests.live.guardrails.attempts.attempt import Attempt, Table, changed, create, enter, put
from tests.live.guardrails.guarded import DEPLOYER, INSIDER, JOBS, SERVICE, Guarded, Object, plain

ATTEMPTS: list[Attempt] = []
VOLUME: Any = {"metadata": {"name": "pv-1"}, "spec": {"accessModes": ["ReadWriteMany"], "capacity": {"storage": "1Gi"}}}
IMAGE = f"registry.example.com/workspace-service@sha256:{'ab' * 32}"


def _job(guarded: Guarded) -> Object:
    return plain(guarded, "batch/v1", "Job", namespace=NAME, spec=home_emptying.job(VOLUME, IMAGE)["spec"])


def _pod(guarded: Guarded) -> Object:
    spec = home_emptying.job(VOLUME, IMAGE)["spec"]["template"]["spec"]
    return plain(guarded, "v1", "Pod", namespace=NAME, spec=spec)


def _claim(guarded: Guarded) -> Object:
    spec = home_emptying.volume_claim(VOLUME)["spec"]
    return plain(guarded, "v1", "PersistentVolumeClaim", namespace=NAME, spec=spec)


_emptying = Table("emptying", ATTEMPTS)
for _thing, _word in ((_pod, "a pod"), (_job, "a Job"), (_claim, "a volume claim")):
    _emptying.refused("emptying-by", f"{_word} by somebody", INSIDER, create(_thing))
    _emptying.passes("emptying-by", f"{_word} by a deployment", DEPLOYER, create(_thing))
for _thing, _word in ((_job, "a Job"), (_claim, "a volume claim")):
    _emptying.passes("emptying-by", f"{_word} by the service", SERVICE, create(_thing))
_emptying.passes("emptying-by", "a pod, by the controller of Jobs", JOBS, create(_pod))

for _user, _who in ((INSIDER, "somebody"), (SERVICE, "the service"), (JOBS, "the controller of Jobs")):
    _emptying.refused("emptying-entered", f"exec by {_who}", _user, enter(NAME))
_emptying.passes("emptying-entered", "exec by a deployer", DEPLOYER, enter(NAME), reaches_node=True)

_jobs = Table("emptying-jobs", ATTEMPTS)
_CONTAINER = "spec.template.spec.containers.0"
_jobs.passes("emptying-program", "the program that empties homes", SERVICE, create(_job))
_jobs.refused(
    "emptying-program", "another program", SERVICE, create(changed(_job, put(f"{_CONTAINER}.command", ["cat"])))
)
_jobs.refused(
    "emptying-program",
    "a variable that changes the program",
    SERVICE,
    create(changed(_job, put(f"{_CONTAINER}.env", [{"name": "PYTHONPATH", "value": "/home"}]))),
)
