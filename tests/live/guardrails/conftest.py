"""A class with the real controller and slots, in an API server with the guardrails in force."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from agentenv.config import Settings
from agentenv.core.classes.names import EXTENSIONS, USER_LABEL
from agentenv.core.classes.namespace import restricted
from agentenv.core.classes.objects import ClassObjects, DeploymentValues, class_objects
from agentenv.core.classes.plan import plans
from agentenv.core.guardrails import anchor_documents, policies
from agentenv.core.guardrails.pods import priority_class
from agentenv.core.guardrails.principals import METER
from agentenv.core.nodes.fargate_profiles import SCHEDULER
from agentenv.core.nodes.tiers import labels as node_labels
from agentenv.core.nodes.tiers import runtime_class, wall_of
from agentenv.core.service import home_metering as storage_metering
from agentenv.core.service.home_emptying import NAME as EMPTYING
from agentenv.core.service.home_metering import NAME as METERING
from agentenv.core.service.home_metering import volume as looked_at
from agentenv.rehearsal.controlplane.client import ApiError, Client, until
from agentenv.rehearsal.controlplane.nodes.kwok_nodes import NodeShape
from agentenv.rehearsal.tools.toolbox import Toolbox
from tests.fast.config.stack_samples import fargate, sandbox, settings
from tests.live.conftest import CLUSTER, LiveCluster
from tests.live.controlplane.installed import installed
from tests.live.controlplane.objects import TIMEOUT, becomes_ready, create_namespace, pod
from tests.live.guardrails.guarded import (
    CLASS,
    EVERYBODY,
    FARGATE_CLASS,
    HOMES_FOLDER,
    IDLE,
    INSIDER,
    LOOSE,
    MISSED,
    NETWORK,
    NODE,
    OTHER_REACH,
    POINT,
    SERVICE,
    SHARED,
    Guarded,
    claim,
    metering_job,
    plain,
    volume,
)

Object = dict[str, Any]

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
RBAC = "rbac.authorization.k8s.io"
ADDON = {"clusterName": CLUSTER, "addonName": "aws-efs-csi-driver"}
AGENT = {"clusterName": CLUSTER, "addonName": "eks-pod-identity-agent"}


@pytest.fixture(scope="package")
def guarded(live: LiveCluster, toolbox: Toolbox) -> Iterator[Guarded]:
    admin = live.plane.client
    installed(admin, toolbox)
    others = _names(admin, "namespaces"), _names(admin, "persistentvolumes")
    _other_reach(admin)
    _users(admin)
    file_system = _driver(live)
    known = DeploymentValues([file_system], file_system, group_ids={FARGATE_CLASS: ["sg-1"]})
    planned = {plan.name: plan for plan in plans(stage_settings())}
    classes = {name: class_objects(plan, known) for name, plan in planned.items()}
    guarded = Guarded(live, file_system, planned, classes, policies([file_system]), stage_settings())
    _create_node(live)
    admin.apply(priority_class())
    _create_open_class(guarded)
    documents = [document for policy in guarded.policies for document in (policy.document(), *policy.bindings())]
    try:
        # The API server owns the first one, and may create it again.
        for document in (*anchor_documents(), *documents):
            admin.apply(document)
        _wait_until_in_force(guarded)
        _declare(admin, guarded.objects)
        _create_metering(guarded)
        _create_platform_pods(guarded)
        _claim(guarded)
        yield guarded
    finally:
        _restore_server(guarded, documents, *others)


def stage_settings() -> Settings:
    classes = [
        sandbox(CLASS, pool={"size": 2}),
        sandbox(LOOSE, pool={"size": 0}, capabilities=["dns", "identity"], identity={"kind": "exchange"}),
        sandbox(SHARED, pool={"size": 0}, storage={"kind": "shared"}),
        fargate(FARGATE_CLASS, pool={"size": 0}, storage={"kind": "none"}),
    ]
    seats = [{"name": f"seat-{name}", "class": name, "user": "u-seat"} for name in (CLASS, LOOSE)]
    image = f"registry.example.com/workspace-service@sha256:{'ab' * 32}"
    inside = {"image": f"registry.example.com/workspaced@sha256:{'cd' * 32}"}
    return settings({"sandboxClasses": classes, "workspaces": seats, "service": {"image": image, "workspaced": inside}})


def _users(admin: Client) -> None:
    """Bind RBAC: all users may do everything but change the guardrails, and the collector has its own rights."""
    _may(admin, "measures", storage_metering.rbac_rules(), METER)
    groups = {row["name"] for row in admin.get("/apis")["groups"]} - {"admissionregistration.k8s.io"}
    everything = {"apiGroups": ["", *sorted(groups)], "resources": ["*"], "verbs": ["*"]}
    _may(admin, "but-guardrails", [everything], *EVERYBODY)


def _may(admin: Client, name: str, rules: list[Object], *users: str) -> None:
    about = {"name": name}
    version = f"{RBAC}/v1"
    admin.apply({"apiVersion": version, "kind": "ClusterRole", "metadata": about, "rules": rules})
    admin.apply(
        {
            "apiVersion": version,
            "kind": "ClusterRoleBinding",
            "metadata": about,
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user} for user in users],
        }
    )


def _other_reach(admin: Client) -> None:
    """Define the kinds of EKS for network access beside NetworkPolicy; no controller acts on them."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    for group, kind, namespaced in OTHER_REACH:
        plural = _plural(kind)
        version: Object = {"name": NETWORK, "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
        spec: Object = {"group": group, "names": {"kind": kind, "plural": plural}, "versions": [version]}
        about: Object = {"name": f"{plural}.{group}"}
        if group.endswith("k8s.io"):
            about["annotations"] = {"api-approved.kubernetes.io": "unapproved, of a test"}
        definition: Object = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
        admin.apply(
            {**definition, "metadata": about, "spec": {**spec, "scope": "Namespaced" if namespaced else "Cluster"}}
        )
    for group in {row[0] for row in OTHER_REACH}:
        assert until(lambda group=group: admin.find(f"/apis/{group}/{NETWORK}"), TIMEOUT)


def _plural(kind: str) -> str:
    return f"{kind.lower()[:-1]}ies" if kind.endswith("y") else f"{kind.lower()}s"


def _driver(live: LiveCluster) -> str:
    """Create a file system, and the driver with the rights to create access points on it."""
    file_system: str = live.aws("efs").create_file_system(CreationToken="guarded")["FileSystemId"]
    trusted = {"Principal": {"Service": "pods.eks.amazonaws.com"}, "Action": ["sts:AssumeRole", "sts:TagSession"]}
    may = {"Action": "elasticfilesystem:*", "Resource": "*"}
    trust, policy = (
        json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **statement}]})
        for statement in (trusted, may)
    )
    iam, eks = live.aws("iam"), live.aws("eks")
    role = iam.create_role(RoleName="guarded-efs", AssumeRolePolicyDocument=trust)["Role"]["Arn"]
    iam.put_role_policy(RoleName="guarded-efs", PolicyName="efs", PolicyDocument=policy)
    eks.create_addon(**AGENT)
    identity = [{"serviceAccount": "efs-csi-controller-sa", "roleArn": role}]
    eks.create_addon(**ADDON, podIdentityAssociations=identity)
    return file_system


def _create_node(live: LiveCluster) -> None:
    """Create a node with the isolation of the class's tier."""
    wall = wall_of("standard")
    taint = f"sandbox.users.io/tier={wall.tier}:NoSchedule"
    labels = {**node_labels(wall), "karpenter.sh/capacity-type": "on-demand"}
    live.plane.add_nodes([NodeShape(NODE, "us-east-1a", "m7g.4xlarge", "16", "60Gi", labels=labels, taints=(taint,))])
    runtime: Object = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", **(runtime_class(wall) or {})}
    live.plane.client.apply(runtime)


def _create_open_class(guarded: Guarded) -> None:
    """Create a class whose namespace lacks pod security, and objects in it, which the guardrails refuse later."""
    admin, namespace = guarded.admin, guarded.open_namespace
    for name in (LOOSE, SHARED, FARGATE_CLASS):
        room = guarded.classes[name].namespace["metadata"]
        room["labels"] |= {key: "privileged" for key, value in room["labels"].items() if value == "restricted"}
        create_namespace(admin, room["name"], **room["labels"])
        admin.apply(guarded.classes[name].account)
        admin.apply(guarded.classes[name].constraints)
    marks = {"app": "leftover"}
    container = {"name": "main", "image": "registry.example/old"}
    inside = {"metadata": {"labels": marks}, "spec": {"containers": [container]}}
    spec: Object = {"replicas": 0, "selector": {"matchLabels": marks}, "template": inside}
    admin.apply(plain(guarded, "apps/v1", "Deployment", "leftover", namespace=namespace, spec=spec))
    spec = {"selector": marks, "ports": [{"port": 80}]}
    admin.apply(plain(guarded, "v1", "Service", "leftover", namespace=namespace, spec=spec))
    # With a token of its account, which the node may request.
    spec = {"containers": [container], "nodeName": NODE}
    guarded.bound = admin.apply(plain(guarded, "v1", "Pod", "bound", namespace=namespace, spec=spec))["metadata"]["uid"]
    # The pod is not scheduled, and the claim gets no volume.
    share = {"cpu": "100m", "memory": "64Mi", "ephemeral-storage": "64Mi"}
    requesting = {**container, "resources": {"requests": share, "limits": share}}
    spec = {"containers": [requesting], "schedulerName": "nobody"}
    admin.apply(plain(guarded, "v1", "Pod", "waiting", namespace=namespace, spec=spec))
    spec = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "nobody",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    admin.apply(plain(guarded, "v1", "PersistentVolumeClaim", "waiting", namespace=namespace, spec=spec))
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"], "hostPath": {"path": "/"}}
    lying: Object = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "leftover"}, "spec": spec}
    admin.apply({**lying, "spec": {**spec, "storageClassName": "another"}})
    retained = volume(guarded, "owned", claimRef={"namespace": guarded.namespace, "name": "home-owned"})
    admin.apply({**retained, "metadata": {**retained["metadata"], "labels": {USER_LABEL: "u-1"}}})
    _declare(admin, guarded.open_class)


def _wait_until_in_force(guarded: Guarded) -> None:
    """Wait until the policies are in force, a moment after their creation."""
    for policy in guarded.policies:
        path = f"{POLICIES}/{policy.full_name}"
        assert until(lambda path=path: (guarded.admin.get(path).get("status") or {}).get("observedGeneration"), TIMEOUT)
    probe = plain(
        guarded,
        "v1",
        "Pod",
        "probe",
        namespace=guarded.open_namespace,
        spec={"containers": [{"name": "a", "image": "b"}]},
    )

    def refused() -> bool:
        try:
            guarded.client_as(INSIDER).request(
                "POST", guarded.admin.path(probe, named=False), probe, query={"dryRun": "All"}
            )
        except ApiError as error:
            return "sandbox-guardrail" in str(error)
        return False

    assert until(refused, TIMEOUT)


def _declare(admin: Client, objects: ClassObjects) -> None:
    """Create the objects of a class, as a deployment does."""
    for document in objects.documents():
        if document["kind"] == "Namespace":
            create_namespace(admin, document["metadata"]["name"], **document["metadata"]["labels"])
            continue
        assert until(lambda document=document: _is_stored(admin, document), TIMEOUT)
        if document["kind"] == "ResourceQuota":
            path = admin.path(document)
            assert until(lambda path=path: (admin.get(path).get("status") or {}).get("hard"), TIMEOUT)


def _create_metering(guarded: Guarded) -> None:
    """Create the objects for the metering and emptying of homes, as a deployment does; no pod mounts them here."""
    for name in (METERING, EMPTYING):
        create_namespace(guarded.admin, name, **restricted(guarded.plans[CLASS].version))
    existing = looked_at(replace(HOMES_FOLDER, name="standing"), f"{guarded.file_system}::{POINT}")
    existing["metadata"]["name"] = "looked-at-standing"
    account: Object = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": METERING}}
    account["metadata"]["namespace"] = METERING
    endpoint = plain(guarded, f"networking.k8s.aws/{NETWORK}", "PolicyEndpoint", "standing", spec={"anything": ["x"]})
    for document in (endpoint, account, existing, metering_job(guarded, "standing")):
        guarded.admin.apply(document)


def _create_platform_pods(guarded: Guarded) -> None:
    """Create pods outside of classes: one that no scheduler places, and those that the service must not delete."""
    admin = guarded.admin
    create_namespace(admin, MISSED)
    owner: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner", "namespace": MISSED}}
    admin.apply(owner)
    uid = admin.get(f"/api/v1/namespaces/{MISSED}/configmaps/owner")["metadata"]["uid"]
    owned = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid, "controller": True}]
    nowhere: Object = {"nodeSelector": {"example.com/none": "true"}}
    for name, spec, owners in (
        ("missed", nowhere, owned),
        ("placed", {"nodeName": "n1"}, owned),
        ("marked", {"schedulerName": SCHEDULER}, owned),
        ("alone", nowhere, []),
    ):
        document = pod(MISSED, name, **spec)
        document["metadata"]["ownerReferences"] = owners
        admin.create(document)


def _is_stored(admin: Client, document: Any) -> bool:
    """Return whether a document was stored; new policies may not have the parameters of the class yet."""
    try:
        admin.apply(document)
    except ApiError as error:
        if "no params found" in str(error):
            return False
        raise
    return True


def _claim(guarded: Guarded) -> None:
    """Claim a sandbox, and leave others unclaimed."""
    admin = guarded.admin
    pool = guarded.extension("sandboxwarmpools", guarded.pool)
    full = until(lambda: (admin.get(pool).get("status") or {}).get("readyReplicas") == IDLE, TIMEOUT)
    assert full, admin.get(f"/api/v1/namespaces/{guarded.namespace}/events")["items"]
    service = guarded.client_as(SERVICE)
    path = service.path(service.create(claim(guarded, guarded.claim)))
    assert becomes_ready(admin, path), admin.get(path)
    # A claim of a missing pool, for which no sandbox is created.
    unmarked = claim(guarded, guarded.unmarked)
    unmarked["metadata"]["labels"] = {}
    unmarked["spec"]["warmPoolRef"]["name"] = f"{guarded.pool}-none"
    service.create(unmarked)
    guarded.sandbox = admin.get(path)["status"]["sandbox"]["name"]
    guarded.volume = admin.get(guarded.core("persistentvolumeclaims", f"home-{guarded.sandbox}"))["spec"]["volumeName"]
    owned = guarded.core("pods", guarded.sandbox)
    assert until(lambda: "sandbox.users.io/user" in admin.get(owned)["metadata"]["labels"], TIMEOUT)


def _names(admin: Client, kind: str) -> set[str]:
    return {row["metadata"]["name"] for row in admin.get(f"/api/v1/{kind}")["items"]}


def _restore_server(guarded: Guarded, documents: list[Object], namespaces: set[str], volumes: set[str]) -> None:
    """Restore the server for other tests; the namespaces are deleted with the guardrails in force.

    The namespaces and volumes of other tests stay; their volumes may be deleted meanwhile.
    """
    admin, eks, iam = guarded.admin, guarded.live.aws("eks"), guarded.live.aws("iam")
    spaces = [f"/api/v1/namespaces/{name}" for name in sorted(_names(admin, "namespaces") - namespaces)]
    admin.delete(f"/apis/batch/v1/namespaces/{METERING}/cronjobs")
    admin.delete(f"/apis/batch/v1/namespaces/{METERING}/jobs", propagationPolicy="Background")
    # The namespace controller waits long for pods and finalizers, so they are deleted first.
    for namespace in spaces:
        for kind in ("sandboxwarmpools", "sandboxclaims"):
            admin.delete(f"/apis/{EXTENSIONS}/{namespace.removeprefix('/api/v1/')}/{kind}")
        admin.delete(f"{namespace}/pods", gracePeriodSeconds=0)
        admin.delete(f"{namespace}/persistentvolumeclaims")
    held = [f"{namespace}/{kind}" for namespace in spaces for kind in ("pods", "persistentvolumeclaims")]
    assert until(lambda: not any(admin.get(kind)["items"] for kind in held), TIMEOUT)
    for namespace in spaces:
        admin.delete(namespace)
    gone = until(lambda: all(admin.find(namespace) is None for namespace in spaces), TIMEOUT)
    left = [found for namespace in spaces if (found := admin.find(namespace))]
    for document in reversed(documents):
        admin.delete(admin.path(document))
    assert gone, f"a namespace was not deleted: {[found['status'] for found in left]}"
    for of_class in (guarded.objects, guarded.open_class):
        for kind in of_class.storage_classes:
            admin.delete(admin.path(kind))
    for path in (
        "/apis/node.k8s.io/v1/runtimeclasses/gvisor",
        "/apis/scheduling.k8s.io/v1/priorityclasses/sandbox",
        *(
            f"/apis/{RBAC}/v1/{kind}/{name}"
            for kind in ("clusterrolebindings", "clusterroles")
            for name in ("but-guardrails", "measures")
        ),
        f"/api/v1/nodes/{NODE}",
        *(
            f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{_plural(kind)}.{group}"
            for group, kind, _ in OTHER_REACH
        ),
        # Retained volumes are deleted by hand only.
        *(f"/api/v1/persistentvolumes/{name}" for name in _names(admin, "persistentvolumes") - volumes),
    ):
        admin.delete(path)
    assert until(lambda: _names(admin, "persistentvolumes") <= volumes, TIMEOUT)
    eks.delete_addon(**ADDON)
    eks.delete_addon(**AGENT)
    iam.delete_role_policy(RoleName="guarded-efs", PolicyName="efs")
    iam.delete_role(RoleName="guarded-efs")
    guarded.live.aws("efs").delete_file_system(FileSystemId=guarded.file_system)
