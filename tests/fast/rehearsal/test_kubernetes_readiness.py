"""When objects are ready, on statuses as controllers write them; and what programs ask for by annotation."""

from __future__ import annotations

from typing import Any

import pytest

from agentenv.rehearsal.providers.kubernetes import conditions, jsonpath, readiness

AVAILABLE = {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"}
ROLLED = {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}
STUCK = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "timed out"}


def workload(kind: str, *, generation: int = 1, spec: Any = None, **status: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "x", "namespace": "n", "generation": generation},
        "spec": spec or {},
        "status": status,
    }


def deployment(*conditions_: dict[str, Any], observed: int = 2, spec: Any = None, **counts: Any) -> dict[str, Any]:
    spec = {"replicas": 2} if spec is None else spec
    return workload(
        "Deployment", generation=2, spec=spec, observedGeneration=observed, conditions=list(conditions_), **counts
    )


DEPLOYMENTS = [
    (deployment(AVAILABLE, ROLLED, replicas=2, updatedReplicas=2, availableReplicas=2), ""),
    (deployment(AVAILABLE, ROLLED, observed=1, replicas=2, updatedReplicas=2, availableReplicas=2), "has not yet seen"),
    (deployment(AVAILABLE, replicas=3, updatedReplicas=2, availableReplicas=3), "1 old replicas still to go"),
    (deployment(AVAILABLE, replicas=2, updatedReplicas=1, availableReplicas=2), "1 of 2 replicas updated"),
    (deployment(STUCK, replicas=2, updatedReplicas=2), "ProgressDeadlineExceeded: timed out"),
    (deployment(replicas=2, updatedReplicas=2, availableReplicas=2), "not yet Available"),
    (deployment(AVAILABLE, spec={"replicas": 0}), ""),
    (deployment(spec={"replicas": 2, "paused": True}), ""),
    (workload("Deployment", spec={"replicas": 1}), "has not yet seen"),
]


@pytest.mark.parametrize(("obj", "reason"), DEPLOYMENTS)
def test_deployments(obj: dict[str, Any], reason: str) -> None:
    verdict = readiness.deployment(obj)
    assert verdict.done == (reason == "")
    assert reason in "; ".join(verdict.reasons)


ROLLING = {"replicas": 2, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}}
CANARY = {"replicas": 2, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}}
BY_HAND = {"replicas": 2, "updateStrategy": {"type": "OnDelete"}}
STATEFUL_SETS = [
    (ROLLING, {"readyReplicas": 2, "updatedReplicas": 2, "currentRevision": "b", "updateRevision": "b"}, True),
    (ROLLING, {"readyReplicas": 2, "updatedReplicas": 1, "currentRevision": "a", "updateRevision": "b"}, False),
    (ROLLING, {"readyReplicas": 1, "updatedReplicas": 2, "currentRevision": "b", "updateRevision": "b"}, False),
    (CANARY, {"readyReplicas": 2, "updatedReplicas": 1, "currentRevision": "a", "updateRevision": "b"}, True),
    (BY_HAND, {"readyReplicas": 2, "updatedReplicas": 0, "currentRevision": "a", "updateRevision": "b"}, True),
]


@pytest.mark.parametrize(("spec", "status", "ready"), STATEFUL_SETS)
def test_stateful_sets(spec: dict[str, Any], status: dict[str, Any], *, ready: bool) -> None:
    obj = workload("StatefulSet", spec=spec, observedGeneration=1, **status)
    assert readiness.stateful_set(obj).done == ready


@pytest.mark.parametrize(
    ("status", "ready"),
    [
        ({"desiredNumberScheduled": 0}, True),
        ({"desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 2}, True),
        ({"desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 1}, False),
        ({"desiredNumberScheduled": 2, "updatedNumberScheduled": 1, "numberAvailable": 2}, False),
    ],
)
def test_daemon_sets(status: dict[str, int], *, ready: bool) -> None:
    assert readiness.daemon_set(workload("DaemonSet", observedGeneration=1, **status)).done == ready


def test_jobs_pods_and_definitions_can_fail() -> None:
    broken = {"status": {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]}}
    assert readiness.job(broken).failed
    assert readiness.job({"status": {"conditions": [{"type": "Complete", "status": "True"}]}}).done
    assert not readiness.job({"status": {"active": 1}}).done
    assert readiness.pod({"status": {"phase": "Failed", "reason": "Evicted"}}).failed
    assert readiness.pod({"status": {"phase": "Succeeded"}}).done
    clash = [{"type": "NamesAccepted", "status": "False", "reason": "PluralConflict", "message": "taken"}]
    assert readiness.definition({"status": {"conditions": clash}}).failed


def test_problems_of_a_pod_are_reported() -> None:
    waiting = {"name": "c", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}
    starting = {"name": "d", "state": {"waiting": {"reason": "ContainerCreating"}}}
    scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
    status = {"phase": "Pending", "containerStatuses": [waiting, starting], "conditions": [scheduled]}
    assert readiness.pod({"status": status}).reasons == (
        "pod is Pending",
        "Unschedulable: 0/3 nodes",
        "container c: ImagePullBackOff: no such image",
    )


def test_claims_by_their_class() -> None:
    pending, bound = {"status": {"phase": "Pending"}}, {"status": {"phase": "Bound"}}
    assert readiness.claim("WaitForFirstConsumer")(pending).done
    assert not readiness.claim("Immediate")(pending).done
    assert readiness.claim("Immediate")(bound).done
    assert readiness.claim("Immediate")({"status": {"phase": "Lost"}}).failed


def test_services_and_ingresses_need_endpoints() -> None:
    selector = {"spec": {"selector": {"app": "x"}}}
    assert readiness.needs_endpoints(selector)
    assert not readiness.needs_endpoints({"spec": {}})
    assert not readiness.needs_endpoints({"spec": {**selector["spec"], "clusterIP": "None"}})
    assert not readiness.needs_endpoints({"spec": {**selector["spec"], "type": "ExternalName"}})
    labels = {"labels": {"kubernetes.io/service-name": "web"}}
    ready = {"metadata": labels, "endpoints": [{"conditions": {"ready": True}}]}
    unready = {"metadata": labels, "endpoints": [{"conditions": {"ready": False}}]}
    assert readiness.endpoints([unready, ready], "web").done
    assert not readiness.endpoints([unready], "web").done
    assert not readiness.endpoints([ready], "other").done
    backend = {"backend": {"service": {"name": "b"}}}
    rules = [{"http": {"paths": [backend, backend]}}, {}]
    assert readiness.backends({"spec": {"defaultBackend": {"service": {"name": "a"}}, "rules": rules}}) == ["a", "b"]


OBJECT: dict[str, Any] = {
    "metadata": {"annotations": {"a.b/c": "d"}, "generation": 3},
    "spec": {"ports": [{"name": "http", "port": 80}, {"name": "tls", "port": 443}], "on": True},
    "status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "Up", "status": "False"}],
    },
}

PATHS: list[tuple[str, list[Any]]] = [
    ("$.status.phase", ["Running"]),
    (".status.phase", ["Running"]),
    ("status.phase", ["Running"]),
    (".spec.ports[0].port", [80]),
    (".spec.ports[-1].port", [443]),
    (".spec.ports[*].name", ["http", "tls"]),
    (".spec.ports[0,1].port", [80, 443]),
    (".spec.ports[0:1].port", [80]),
    (".spec.ports[1:].port", [443]),
    ("['spec'][\"on\"]", [True]),
    (".metadata.annotations['a.b/c']", ["d"]),
    (r".metadata.annotations.a\.b/c", ["d"]),
    ("..port", [80, 443]),
    (".status.conditions[?(@.type=='Ready')].status", ["True"]),
    (".status.conditions[?@.type=='Ready' || @.type=='Up'].status", ["True", "False"]),
    (".status.conditions[?(@.type!='Ready' && @.status)].type", ["Up"]),
    (".status.conditions[?(!(@.type=='Ready'))].type", ["Up"]),
    (".spec.ports[?(@.port>100)].name", ["tls"]),
    (".spec.ports[?(@.port<=80)].name", ["http"]),
    (".spec.ports[?(@.port>'x')].name", []),
    (".status[?@ == 'Running']", ["Running"]),
    (".nothing.here", []),
    (".spec.ports[7]", []),
]


@pytest.mark.parametrize(("path", "result"), PATHS)
def test_paths_select(path: str, result: list[Any]) -> None:
    assert jsonpath.parse(path).select(OBJECT) == result


@pytest.mark.parametrize("path", [".a[", ".a[?(@.b==)]", ".a b", "..", ".a[?]", ".a['x]", "$.a.", ".a[0"])
def test_invalid_paths_have_a_position(path: str) -> None:
    with pytest.raises(jsonpath.InvalidPath, match=r"expected|understood"):
        jsonpath.parse(path)


@pytest.mark.parametrize(
    ("desired", "done"),
    [
        ("condition=Ready", True),
        ("condition=ready", False),
        ("condition=Up=False", True),
        ("condition=Missing", False),
        ("jsonpath={.status.phase}=Running", True),
        ("jsonpath={.status.phase}=Pending", False),
        ("jsonpath={.spec.on}=true", True),
        ("jsonpath={.spec.ports}", True),
        ("jsonpath={.status.conditions[?(@.type=='Ready')].status}=True", True),
        ("jsonpath={.status.nothing}", False),
        ('["condition=Ready", "jsonpath={.status.phase}=Running"]', True),
        ('["condition=Ready", "condition=Up"]', False),
    ],
)
def test_what_programs_wait_for(desired: str, *, done: bool) -> None:
    verdict = conditions.parse(desired)(OBJECT)
    assert verdict.done == done
    assert bool(verdict.reasons) != done


def test_a_status_about_an_older_object_does_not_count() -> None:
    stale = {**OBJECT, "status": {**OBJECT["status"], "observedGeneration": 2}}
    assert not conditions.parse("condition=Ready")(stale).done
    assert not conditions.parse("jsonpath={.status.phase}=Running")(stale).done
    ready = {"type": "Ready", "status": "True", "observedGeneration": 2}
    assert not conditions.parse("condition=Ready")({**OBJECT, "status": {"conditions": [ready]}}).done


@pytest.mark.parametrize(
    "desired",
    ["Ready", "condition=", "jsonpath=.status.phase", "jsonpath={.a}=", "jsonpath={.a[}=x", "[]", "jsonpath={.a}x"],
)
def test_broken_conditions_are_refused(desired: str) -> None:
    with pytest.raises(conditions.InvalidCondition, match=r"pulumi\.com/waitFor"):
        conditions.parse(desired)
