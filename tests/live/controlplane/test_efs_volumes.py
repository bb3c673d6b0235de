"""Volume claims on EFS: access points in the API, and volumes that the real controller manager binds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from agentenv.rehearsal.cloud.rows import efs as efs_rows
from agentenv.rehearsal.controlplane.client import ApiError, Client, until
from tests.fast.components.graph import REGION as STACKS_REGION
from tests.fast.components.graph import registered
from tests.fast.components.node_shapes import cluster_addons
from tests.fast.components.shapes import planned
from tests.live.conftest import CLUSTER, REGION, LiveCluster
from tests.live.controlplane.objects import TIMEOUT, becomes_ready, create_namespace, pod

Object = dict[str, Any]

SPACE = "volumes"
CLAIMS = f"/api/v1/namespaces/{SPACE}/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
ACCOUNT_PATH = "/api/v1/namespaces/kube-system/serviceaccounts/efs-csi-controller-sa"
DRIVER_PATH = "/apis/storage.k8s.io/v1/csidrivers/efs.csi.aws.com"
ADDON = {"clusterName": CLUSTER, "addonName": "aws-efs-csi-driver"}
AGENT = {"clusterName": CLUSTER, "addonName": "eks-pod-identity-agent"}
LOOKING = {"Effect": "Allow", "Action": "elasticfilesystem:Describe*", "Resource": "*"}
EVERYTHING = {**LOOKING, "Action": "elasticfilesystem:*"}


@pytest.fixture(scope="module")
def client(live: LiveCluster) -> Client:
    create_namespace(live.plane.client, SPACE)
    return live.plane.client


@pytest.fixture(scope="module")
def file_system(live: LiveCluster) -> Iterator[str]:
    id_ = live.aws("efs").create_file_system(CreationToken="volumes")["FileSystemId"]
    yield id_
    live.aws("efs").delete_file_system(FileSystemId=id_)


@pytest.fixture(scope="module")
def documents(file_system: str) -> tuple[str, str]:
    """The trust policy and the policy of the driver's role in a stack."""
    arn = f"arn:aws:elasticfilesystem:{REGION}:123456789012:file-system/{file_system}"
    graph = registered(lambda: cluster_addons(file_system_arns=[arn]))
    role, policy = graph.resource("Role", "efs-controller").inputs, graph.resource("RolePolicy").inputs
    trust, may = role["assumeRolePolicy"], policy["policy"]
    trust = trust.replace(planned().environment.cluster_name, CLUSTER)
    return trust.replace(STACKS_REGION, REGION), may.replace(STACKS_REGION, REGION)


@pytest.fixture(scope="module")
def role(live: LiveCluster, documents: tuple[str, str]) -> str:
    """The role of the driver, by Pod Identity."""
    trust, may = documents
    arn = live.aws("iam").create_role(RoleName="efs-driver", AssumeRolePolicyDocument=trust)["Role"]["Arn"]
    allow(live, may)
    return arn


@pytest.fixture(scope="module")
def early_claim(live: LiveCluster, client: Client, file_system: str, role: str) -> Iterator[Object]:
    """A claim that was created before the driver was installed."""
    kind(client, "delete", file_system)
    path = claim(client, "early", "delete")
    assert until(lambda: "ExternalProvisioning" in events(client, "early"), TIMEOUT)
    before = client.get(path)
    assert "Provisioning" not in events(client, "early")
    eks = live.aws("eks")
    eks.create_addon(**AGENT)
    identity = [{"serviceAccount": "efs-csi-controller-sa", "roleArn": role}]
    eks.create_addon(**ADDON, podIdentityAssociations=identity)
    yield before
    eks.delete_addon(**AGENT)


def allow(live: LiveCluster, policy: str) -> None:
    """Set the policy of the driver's role."""
    live.aws("iam").put_role_policy(RoleName="efs-driver", PolicyName="efs", PolicyDocument=policy)


@contextmanager
def allowed(live: LiveCluster, documents: tuple[str, str], *statements: Object) -> Iterator[None]:
    """Set the policy of the driver's role for the duration of the block."""
    allow(live, json.dumps({"Version": "2012-10-17", "Statement": list(statements)}))
    yield
    allow(live, documents[1])


def kind(client: Client, name: str, file_system: str, policy: str = "Delete", **more: Any) -> None:
    parameters = {"provisioningMode": "efs-ap", "fileSystemId": file_system, "directoryPerms": "0700"}
    client.apply(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name},
            "provisioner": "efs.csi.aws.com",
            "reclaimPolicy": policy,
            "volumeBindingMode": more.pop("mode", "Immediate"),
            "parameters": {**parameters, **more},
        }
    )


def claim(client: Client, name: str, kind: str) -> str:
    """Create a claim, and return its path."""
    spec = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": kind,
        "resources": {"requests": {"storage": "5Gi"}},
    }
    about = {"name": name, "namespace": SPACE}
    client.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": about, "spec": spec})
    return f"{CLAIMS}/{name}"


def bound(client: Client, path: str) -> Object:
    """Return the volume that a claim is bound to."""
    assert until(lambda: client.get(path)["status"]["phase"] == "Bound", TIMEOUT), client.get(path)
    found = client.get(f"{VOLUMES}/{client.get(path)['spec']['volumeName']}")
    assert found["status"]["phase"] == "Bound"
    return found


def events(client: Client, name: str) -> dict[str, str]:
    """Return the events of a claim, by reason."""
    found = client.get(f"/api/v1/namespaces/{SPACE}/events", fieldSelector=f"involvedObject.name={name}")["items"]
    return {row["reason"]: row["message"] for row in found}


def point_of(volume: Object, file_system: str) -> str:
    handle = volume["spec"]["csi"]["volumeHandle"]
    assert handle.startswith(f"{file_system}::fsap-"), handle
    return handle.rpartition(":")[2]


def volumes_of(client: Client, file_system: str) -> list[Object]:
    """Return the volumes on a file system; those of other tests are on others."""
    rows = client.get(VOLUMES)["items"]
    return [row for row in rows if file_system in row["spec"].get("csi", {}).get("volumeHandle", "")]


def points(live: LiveCluster, file_system: str) -> dict[str, Object]:
    found = live.aws("efs").describe_access_points(FileSystemId=file_system)["AccessPoints"]
    return {row["AccessPointId"]: row for row in found}


def test_claim_waits_for_the_driver_and_gets_an_access_point(
    live: LiveCluster, client: Client, file_system: str, early_claim: Object
) -> None:
    assert early_claim["status"]["phase"] == "Pending"
    volume = bound(client, f"{CLAIMS}/early")
    found = points(live, file_system)[point_of(volume, file_system)]
    assert (
        found["RootDirectory"]["Path"] == f"/pvc-{early_claim['metadata']['uid']}" == f"/{volume['metadata']['name']}"
    )
    assert found["PosixUser"] == {"Uid": 50000, "Gid": 50000}
    assert found["RootDirectory"]["CreationInfo"]["Permissions"] == "0700"
    assert {"Key": "efs.csi.aws.com/cluster", "Value": "true"} in found["Tags"]
    assert volume["spec"]["capacity"] == {"storage": "5Gi"}
    # The event of the driver follows the binding.
    assert until(lambda: events(client, "early").keys() >= {"Provisioning", "ProvisioningSucceeded"}, TIMEOUT)


@pytest.mark.usefixtures("early_claim")
def test_storage_class_sets_directory_and_owner(live: LiveCluster, client: Client, file_system: str) -> None:
    where = {"basePath": "/homes", "subPathPattern": "${.PVC.namespace}/${.PVC.name}", "ensureUniqueDirectory": "false"}
    kind(client, "named", file_system, uid="1000", gid="2000", **where)
    volume = bound(client, claim(client, "mine", "named"))
    found = points(live, file_system)[point_of(volume, file_system)]
    assert found["RootDirectory"]["Path"] == f"/homes/{SPACE}/mine"
    assert found["PosixUser"] == {"Uid": 1000, "Gid": 2000}


@pytest.mark.usefixtures("early_claim")
def test_access_point_is_deleted_with_its_volume_unless_retained(
    live: LiveCluster, client: Client, file_system: str
) -> None:
    kind(client, "retain", file_system, "Retain", gidRangeStart="60001", gidRangeEnd="60002")
    retained, gone = claim(client, "kept", "retain"), claim(client, "gone", "delete")
    volumes = {path: bound(client, path) for path in (retained, gone)}
    ids = {path: point_of(volume, file_system) for path, volume in volumes.items()}
    assert points(live, file_system).keys() >= set(ids.values())
    for path in (retained, gone):
        client.delete(path)
    left = f"{VOLUMES}/{volumes[retained]['metadata']['name']}"
    assert until(lambda: client.find(f"{VOLUMES}/{volumes[gone]['metadata']['name']}") is None, TIMEOUT)
    assert ids[gone] not in points(live, file_system)
    assert until(lambda: client.get(left)["status"]["phase"] == "Released", TIMEOUT)
    # A retained volume is deleted by hand only, and its access point stays for another volume
    client.delete(left)
    assert until(lambda: client.find(left) is None, TIMEOUT)
    assert ids[retained] in points(live, file_system)


@pytest.mark.usefixtures("early_claim")
def test_access_point_may_be_reused_by_a_claim_of_the_same_name(client: Client, file_system: str) -> None:
    kind(client, "again", file_system, "Retain", reuseAccessPoint="true")
    found: list[str] = []
    for _ in range(2):
        path = claim(client, "returns", "again")
        volume_ = bound(client, path)
        found.append(point_of(volume_, file_system))
        client.delete(path)
        assert until(lambda path=path: client.find(path) is None, TIMEOUT)
        client.delete(f"{VOLUMES}/{volume_['metadata']['name']}")
    assert found[0] == found[1]


@pytest.mark.usefixtures("early_claim")
def test_static_volume_is_deleted_by_its_reclaim_policy(live: LiveCluster, client: Client, file_system: str) -> None:
    mark = [{"Key": "efs.csi.aws.com/cluster", "Value": "true"}]
    point = live.aws("efs").create_access_point(FileSystemId=file_system, ClientToken="by hand", Tags=mark)[
        "AccessPointId"
    ]
    spec = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    handle = {"driver": "efs.csi.aws.com", "volumeHandle": f"efs:{file_system}::{point}"}
    room = {"capacity": {"storage": "1Gi"}, "persistentVolumeReclaimPolicy": "Delete"}
    volume_document = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "by-hand"}}
    client.create({**volume_document, "spec": {**spec, **room, "csi": handle}})
    # A claim that is seen before its volume is synced again only after fifteen seconds
    assert until(lambda: client.get(f"{VOLUMES}/by-hand")["status"]["phase"] == "Available", TIMEOUT)
    about, requests = {"name": "by-hand", "namespace": SPACE}, {"requests": {"storage": "1Gi"}}
    own = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": about}
    client.create({**own, "spec": {**spec, "volumeName": "by-hand", "resources": requests}})
    assert bound(client, f"{CLAIMS}/by-hand")
    client.delete(f"{CLAIMS}/by-hand")
    assert until(lambda: client.find(f"{VOLUMES}/by-hand") is None, TIMEOUT)
    assert until(lambda: point not in points(live, file_system), TIMEOUT)


@pytest.fixture
def wide(live: LiveCluster, documents: tuple[str, str], early_claim: Object) -> Iterator[None]:
    """A driver with all permissions, so that EFS itself refuses."""
    with allowed(live, documents, EVERYTHING):
        yield


@pytest.mark.parametrize(
    ("name", "parameters", "words"),
    [
        ("nowhere", {"fileSystemId": "fs-00000000"}, "code = InvalidArgument desc = File System does not exist"),
        ("fixed", {"fileSystemId": "fs-00000000", "uid": "1", "gid": "1"}, "FileSystemNotFound"),
        ("half", {"gidRangeStart": "1000"}, "Missing gidRangeEnd parameter"),
        ("other", {"provisioningMode": "efs-dir"}, "Provisioning mode efs-dir is not supported"),
        ("open", {"directoryPerms": "999"}, "code = Internal desc = Failed to create Access point"),
    ],
)
@pytest.mark.usefixtures("wide")
def test_impossible_claim_stays_pending_with_a_reason(
    client: Client, file_system: str, name: str, parameters: dict[str, str], words: str
) -> None:
    kind(client, name, file_system, **parameters)
    path = claim(client, name, name)
    assert until(lambda: words in events(client, name).get("ProvisioningFailed", ""), TIMEOUT), events(client, name)
    assert client.get(path)["status"]["phase"] == "Pending"
    client.delete(path)


@pytest.mark.usefixtures("early_claim")
def test_full_file_system_is_reported_and_retried(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as full:
        full.setattr(efs_rows, "ACCESS_POINTS", 0)
        path = claim(client, "one-more", "delete")
        reason = "AccessPointLimitExceeded"
        assert until(lambda: reason in events(client, "one-more").get("ProvisioningFailed", ""), TIMEOUT)
    assert bound(client, path)


@pytest.mark.usefixtures("early_claim")
def test_binding_may_wait_for_the_first_pod(client: Client, file_system: str) -> None:
    kind(client, "patient", file_system, mode="WaitForFirstConsumer")
    path = claim(client, "patient", "patient")
    assert until(lambda: "WaitForFirstConsumer" in events(client, "patient"), TIMEOUT)
    assert client.get(path)["status"]["phase"] == "Pending"
    mounts = [{"name": "home", "persistentVolumeClaim": {"claimName": "patient"}}]
    client.create(pod(SPACE, "consumer", volumes=mounts))
    assert becomes_ready(client, f"/api/v1/namespaces/{SPACE}/pods/consumer")
    assert bound(client, path)
    # Its CSIDriver object says that no attachment is needed
    assert client.get("/apis/storage.k8s.io/v1/volumeattachments")["items"] == []


@pytest.mark.usefixtures("early_claim")
def test_driver_has_the_rights_of_its_role(
    live: LiveCluster, client: Client, file_system: str, documents: tuple[str, str]
) -> None:
    with allowed(live, documents, LOOKING):
        path = claim(client, "denied", "delete")
        assert until(lambda: "Access Denied" in events(client, "denied").get("ProvisioningFailed", ""), TIMEOUT)
        assert client.get(path)["status"]["phase"] == "Pending"
    assert bound(client, path)
    # The role of the stack allows only the file systems of the stack
    other = live.aws("efs").create_file_system(CreationToken="another")["FileSystemId"]
    kind(client, "another", other)
    path = claim(client, "another", "another")
    assert until(lambda: "Access Denied" in events(client, "another").get("ProvisioningFailed", ""), TIMEOUT)
    client.delete(path)
    live.aws("efs").delete_file_system(FileSystemId=other)


@pytest.mark.usefixtures("early_claim")
def test_driver_needs_its_addon_and_may_use_a_web_identity_role(
    live: LiveCluster, client: Client, file_system: str
) -> None:
    eks, iam = live.aws("eks"), live.aws("iam")
    there = bound(client, claim(client, "stays", "delete"))
    volume, point = f"{VOLUMES}/{there['metadata']['name']}", point_of(there, file_system)
    assert client.find(ACCOUNT_PATH)
    assert client.get(DRIVER_PATH)["spec"]["attachRequired"] is False
    eks.delete_addon(**ADDON)
    assert until(lambda: client.find(DRIVER_PATH) is None and client.find(ACCOUNT_PATH) is None, TIMEOUT)
    client.delete(f"{CLAIMS}/stays")
    assert until(lambda: client.get(volume)["status"]["phase"] == "Released", TIMEOUT)
    later = claim(client, "later", "delete")
    assert until(lambda: "ExternalProvisioning" in events(client, "later"), TIMEOUT)
    assert client.get(later)["status"]["phase"] == "Pending"
    assert point in points(live, file_system)

    url = eks.describe_cluster(name=CLUSTER)["cluster"]["identity"]["oidc"]["issuer"]
    provider = iam.create_open_id_connect_provider(Url=url, ClientIDList=["sts.amazonaws.com"])
    host = url.removeprefix("https://")
    statement = {
        "Effect": "Allow",
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Principal": {"Federated": provider["OpenIDConnectProviderArn"]},
        "Condition": {"StringEquals": {f"{host}:sub": "system:serviceaccount:kube-system:efs-csi-controller-sa"}},
    }
    trust = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    arn = iam.get_role(RoleName="efs-driver")["Role"]["Arn"]
    try:
        # The former role trusts only the agent
        eks.create_addon(**ADDON, serviceAccountRoleArn=arn)
        assert until(
            lambda: "AssumeRoleWithWebIdentity" in events(client, "later").get("ProvisioningFailed", ""), TIMEOUT
        )
        iam.update_assume_role_policy(RoleName="efs-driver", PolicyDocument=trust)
        point_id = point_of(bound(client, later), file_system)
        # The add-on has no setting for other tags
        assert points(live, file_system)[point_id]["Tags"] == [{"Key": "efs.csi.aws.com/cluster", "Value": "true"}]
        assert until(lambda: client.find(volume) is None, TIMEOUT)
        assert point not in points(live, file_system)
        with pytest.raises(ApiError):
            client.get(f"{CLAIMS}/stays")
        # No volume is left for other tests
        for row in client.get(CLAIMS)["items"]:
            client.delete(f"{CLAIMS}/{row['metadata']['name']}")
        client.delete(f"/api/v1/namespaces/{SPACE}/pods/consumer")
        assert until(lambda: volumes_of(client, file_system) == [], TIMEOUT), volumes_of(client, file_system)
    finally:
        iam.delete_open_id_connect_provider(OpenIDConnectProviderArn=provider["OpenIDConnectProviderArn"])
        eks.delete_addon(**ADDON)
