"""Tests of the real controller with the guardrails in force: pools fill, claims bind, suspend, resume and end."""

from __future__ import annotations

from agentenv.rehearsal.controlplane.client import until
from tests.live.controlplane.objects import TIMEOUT, becomes_ready, condition
from tests.live.guardrails.guarded import SERVICE, Guarded, claim


def test_api_server_type_checks_the_expressions(guarded: Guarded) -> None:
    """The API server type-checks the rules; a warning is a rule that may never match."""
    warnings: dict[str, object] = {}
    for policy in guarded.policies:
        path = f"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{policy.full_name}"
        found = guarded.admin.get(path)["status"].get("typeChecking") or {}
        if found.get("expressionWarnings"):
            warnings[policy.name] = found["expressionWarnings"]
    assert warnings == {}


def test_server_adds_no_defaults(guarded: Guarded) -> None:
    """A default of the server would be a change in the next deployment."""
    for policy in guarded.policies:
        for document in (policy.document(), *policy.bindings()):
            assert guarded.admin.get(guarded.admin.path(document))["spec"] == document["spec"]


def test_old_pool_refills_after_its_class_changed(guarded: Guarded) -> None:
    """An old release has to last until the new one is full."""
    constraints = guarded.core("configmaps", "sandbox-class")
    before = guarded.admin.get(constraints)["data"]
    other = f"registry.example.com/sandbox@sha256:{'cd' * 32}"
    pool = guarded.extension("sandboxwarmpools", guarded.pool)
    guarded.admin.merge(constraints, {"data": {"images": other, "podLabels": before["podLabels"] + ",x=y"}})
    try:
        guarded.admin.merge(pool + "/scale", {"spec": {"replicas": 3}})
        assert until(lambda: guarded.admin.get(pool)["status"].get("readyReplicas") == 3, TIMEOUT)
        # And a workspace of it can be resumed.
        sandbox, pod = guarded.extension("sandboxes", guarded.sandbox), guarded.core("pods", guarded.sandbox)
        service = guarded.client_as(SERVICE)
        service.merge(sandbox, {"spec": {"operatingMode": "Suspended"}})
        assert until(lambda: guarded.admin.find(pod) is None, TIMEOUT)
        service.merge(sandbox, {"spec": {"operatingMode": "Running"}})
        assert becomes_ready(guarded.admin, pod)
    finally:
        guarded.admin.merge(constraints, {"data": before})
        guarded.admin.merge(pool + "/scale", {"spec": {"replicas": 2}})


def test_claimed_sandbox_is_suspended_resumed_and_deleted(guarded: Guarded) -> None:
    service = guarded.client_as(SERVICE)
    path = service.path(service.create(claim(guarded, "flow", user="u-flow")))
    assert becomes_ready(guarded.admin, path), guarded.admin.get(path)
    name = guarded.admin.get(path)["status"]["sandbox"]["name"]
    assert name.startswith(f"{guarded.pool}-"), "the claim was not filled from the pool"
    sandbox = f"/apis/agents.x-k8s.io/v1beta1/namespaces/{guarded.namespace}/sandboxes/{name}"
    pod = f"/api/v1/namespaces/{guarded.namespace}/pods/{name}"
    owner = "sandbox.users.io/user"
    assert until(lambda: guarded.admin.get(pod)["metadata"]["labels"].get(owner) == "u-flow", TIMEOUT)
    volume = guarded.admin.get(f"/api/v1/namespaces/{guarded.namespace}/persistentvolumeclaims/home-{name}")["spec"]
    assert volume["volumeName"]

    service.merge(sandbox, {"spec": {"operatingMode": "Suspended"}})
    assert until(lambda: guarded.admin.find(pod) is None, TIMEOUT)
    assert until(lambda: condition(guarded.admin.get(sandbox), "Suspended").get("status") == "True", TIMEOUT)
    service.merge(sandbox, {"spec": {"operatingMode": "Running"}})
    assert becomes_ready(guarded.admin, sandbox), guarded.admin.get(sandbox)
    assert guarded.admin.get(pod)["metadata"]["labels"][owner] == "u-flow"

    service.delete(path)
    assert until(lambda: guarded.admin.find(sandbox) is None and guarded.admin.find(pod) is None, TIMEOUT)
    pool = f"/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/{guarded.namespace}/sandboxwarmpools/{guarded.pool}"
    assert until(lambda: guarded.admin.get(pool)["status"].get("readyReplicas") == 2, TIMEOUT)
