"""The documents of classes at the real API server: every field is known, and every object and pod is admitted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from agentenv.core.classes.names import SCHEDULES
from agentenv.core.classes.objects import ClassObjects
from agentenv.core.classes.pools.schedules import schedules_namespace
from agentenv.core.classes.swarm import shared_volume, swarm_pool, swarm_template
from agentenv.core.guardrails.pods import priority_class
from agentenv.core.nodes.tiers import WALLS, runtime_class
from agentenv.core.workspaces.claims import claim
from agentenv.rehearsal.controlplane.client import ApiError, Client, Credentials, until
from agentenv.rehearsal.controlplane.preinstalled import definitions
from agentenv.rehearsal.tools.toolbox import Toolbox
from tests.fast.config.stack_samples import OTHER_IMAGE, VETTED, fargate, sandbox
from tests.fast.core.classes.strategies import objects_of, plan_of
from tests.live.conftest import LiveCluster
from tests.live.controlplane.installed import manifests
from tests.live.controlplane.objects import TIMEOUT, create_namespace

Object = dict[str, Any]

HOURS = [{"start": "08:00", "end": "18:00", "size": 5, "timezone": "Europe/Berlin"}]
PROBE = {"port": 8080, "path": "/ready"}
CLASSES: Mapping[str, Object] = {
    "papers-slot": sandbox("papers-slot", capabilities=["dns", "web"], probe=PROBE, releases=[{"image": OTHER_IMAGE}]),
    "papers-hours": sandbox("papers-hours", pool={"size": 2, "schedules": HOURS}),
    "papers-none": sandbox("papers-none", storage={"kind": "none"}, resources={"cpu": "10m", "memory": "20Mi"}),
    "papers-scratch": sandbox("papers-scratch", tier="untrusted", storage={"kind": "scratch"}),
    "papers-shared": sandbox("papers-shared", storage={"kind": "shared"}),
    "papers-gpu": sandbox("papers-gpu", **VETTED, gpu=1),
    "papers-nitro": sandbox("papers-nitro", tier="untrusted", kernel="nitro", capacity="both"),
    "papers-fargate": fargate("papers-fargate", capabilities=["dns"]),
}
CONTEXT: Object = {
    "cluster": {"version": "1.36"},
    "capacity": {
        "families": ["m8g", "m8gd"],
        "nestedFamilies": ["m8i", "i4i-metal"],
        "gpu": {"limit": 8},
        "nitroImages": ["ami-0a1b2c3d4e5f60718"],
    },
}


@pytest.fixture(scope="module")
def admin(live: LiveCluster, toolbox: Toolbox) -> Client:
    client = live.plane.client
    everything = list(manifests(toolbox.path("agent-sandbox-manifests")))
    ours = [document for document in everything if document["kind"] == "CustomResourceDefinition"]
    for definition in (*ours, *definitions()):
        client.apply(definition)
        path = client.path(definition)
        assert until(lambda path=path: _established(client.get(path)), TIMEOUT)
    client.apply(priority_class())
    for wall in WALLS:
        if (document := runtime_class(wall)) is not None:
            client.apply({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", **document})
    return client


@pytest.fixture(scope="module", params=list(CLASSES))
def declared(request: pytest.FixtureRequest, admin: Client) -> Iterator[ClassObjects]:
    """A class with its namespace, service account, quota and limits."""
    objects = objects_of(plan_of(CLASSES[request.param], 2, **CONTEXT))
    namespace = objects.namespace["metadata"]
    create_namespace(admin, namespace["name"], **namespace["labels"])
    schedules = schedules_namespace("1.35")["metadata"]
    create_namespace(admin, schedules["name"], **schedules["labels"])
    for document in (objects.account, objects.quota, objects.limits):
        admin.apply(document)
    path = admin.path(objects.quota)
    assert until(lambda: (admin.get(path).get("status") or {}).get("used"), TIMEOUT)
    yield objects
    admin.delete(f"/api/v1/namespaces/{namespace['name']}")


def _established(definition: Object) -> bool:
    rows = (definition.get("status") or {}).get("conditions") or []
    return any(row["type"] == "Established" and row["status"] == "True" for row in rows)


def tried(client: Client, document: Object) -> Object:
    """Return the document as the server would store it; it refuses unknown fields."""
    path = client.path(document)
    query = {"fieldManager": "papers", "force": "true", "fieldValidation": "Strict", "dryRun": "All"}
    return client.request("PATCH", path, document, content="application/apply-patch+yaml", query=query)


def test_every_document_is_accepted_unchanged(admin: Client, declared: ClassObjects) -> None:
    for document in declared.documents():
        stored = tried(admin, document)
        for part in ("spec", "data", "parameters", "mountOptions", "reclaimPolicy", "rules", "subjects"):
            if part in document:
                assert _holds(stored[part], document[part]), (document["kind"], part)


def _holds(found: Any, expected: Any) -> bool:
    """Return whether the server's object has everything that was sent; it may have added defaults."""
    if isinstance(expected, dict):
        return isinstance(found, dict) and all(key in found and _holds(found[key], expected[key]) for key in expected)
    if isinstance(expected, list):
        return isinstance(found, list) and len(found) == len(expected) and all(map(_holds, found, expected))
    return found == expected


def test_pod_of_every_release_is_admitted(admin: Client, declared: ClassObjects) -> None:
    for template in declared.templates:
        pod = _pod(template)
        assert admin.request("POST", _pods(declared), pod, query={"dryRun": "All", "fieldValidation": "Strict"})


def test_pod_beyond_the_limits_of_its_class_is_refused(admin: Client, declared: ClassObjects) -> None:
    pod = _pod(declared.templates[0])
    resources = pod["spec"]["containers"][0]["resources"]
    resources["limits"] = {**resources["limits"], "memory": "1000Gi"}
    with pytest.raises(ApiError, match="maximum memory usage per Container"):
        admin.request("POST", _pods(declared), pod, query={"dryRun": "All"})


def test_pod_without_a_user_is_refused(admin: Client, declared: ClassObjects) -> None:
    pod = _pod(declared.templates[0])
    del pod["spec"]["securityContext"]["runAsNonRoot"]
    del pod["spec"]["containers"][0]["securityContext"]["runAsNonRoot"]
    with pytest.raises(ApiError, match="violates PodSecurity"):
        admin.request("POST", _pods(declared), pod, query={"dryRun": "All"})


def test_claim_is_accepted_unchanged(admin: Client, declared: ClassObjects) -> None:
    document = claim(
        declared.constraints["data"]["class"],
        declared.pools[0]["metadata"]["name"],
        "papers",
        owner="u-4711",
        workspace="w-1",
        env={"A": "1"},
    )
    assert _holds(tried(admin, document)["spec"], document["spec"])


def test_documents_of_a_swarm_are_accepted(admin: Client) -> None:
    plan = plan_of({**CLASSES["papers-shared"], "name": "papers-task"}, 2, **CONTEXT)
    release = objects_of(plan).releases[0]
    namespace = create_namespace(admin, "sandbox-papers-task")
    for document in (
        shared_volume(plan, "t-1"),
        swarm_template(plan, release, "t-1"),
        swarm_pool(plan, release, "t-1"),
    ):
        assert document["metadata"]["namespace"] == namespace
        assert _holds(tried(admin, document)["spec"], document["spec"])
    admin.delete(f"/api/v1/namespaces/{namespace}")


def test_schedules_scale_only_the_pools_of_the_class(live: LiveCluster, admin: Client) -> None:
    objects = objects_of(plan_of({**CLASSES["papers-hours"], "name": "papers-roster"}, 2, **CONTEXT))
    other = objects_of(plan_of({**CLASSES["papers-none"], "name": "papers-other"}, 2, **CONTEXT))
    assert objects.schedules is not None
    for each in (objects, other):
        create_namespace(admin, each.namespace["metadata"]["name"])
        for document in (*each.templates, *each.pools):
            admin.apply(document)
    create_namespace(admin, SCHEDULES)
    for document in (objects.schedules.account, objects.schedules.role, objects.schedules.binding):
        admin.apply(document)
    certificate = live.plane.admin
    name = f"system:serviceaccount:{SCHEDULES}:papers-roster"
    job = live.plane.client_as(Credentials(certificate.certificate, certificate.key, acting_as=name))
    mine, theirs = admin.path(objects.pools[0]), admin.path(other.pools[0])
    patch, content = {"spec": {"replicas": 4}}, "application/merge-patch+json"
    # As kubectl does: read the pool first
    assert until(lambda: _allowed(job, mine), TIMEOUT)
    job.request("PATCH", f"{mine}/scale", patch, content=content)
    assert admin.get(mine)["spec"]["replicas"] == 4
    for method, path in (("PATCH", mine), ("PATCH", f"{theirs}/scale"), ("GET", theirs)):
        with pytest.raises(ApiError, match="is forbidden"):
            job.request(method, path, patch if method == "PATCH" else None, content=content)
    for each in (objects, other):
        admin.delete(admin.path(each.namespace))


def _allowed(client: Client, path: str) -> bool:
    try:
        client.get(path)
    except ApiError:
        return False
    return True


def _pods(objects: ClassObjects) -> str:
    return f"/api/v1/namespaces/{objects.namespace['metadata']['name']}/pods"


def _pod(template: Object) -> Object:
    """Return the pod that the controller creates, with the volumes that it adds."""
    spec = template["spec"]
    inside = {**spec["podTemplate"]["spec"]}
    homes = [claim_template["metadata"]["name"] for claim_template in spec.get("volumeClaimTemplates", [])]
    inside["volumes"] = [
        *inside["volumes"],
        *({"name": name, "persistentVolumeClaim": {"claimName": f"{name}-papers"}} for name in homes),
    ]
    inside["securityContext"] = {**inside["securityContext"]}
    first, *others = inside["containers"]
    inside["containers"] = [
        {**first, "securityContext": {**first["securityContext"]}, "resources": {**first["resources"]}},
        *others,
    ]
    about = {
        "name": "papers",
        "namespace": template["metadata"]["namespace"],
        "labels": spec["podTemplate"]["metadata"]["labels"],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": inside}
