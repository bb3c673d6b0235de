"""Jobs that empty homes run in a control plane: with the real Job controller, and the program on the home's folder."""

from __future__ import annotations

from pathlib import Path

from agentenv.core.service import home_emptying
from agentenv.core.service.home_emptying import NAME
from agentenv.rehearsal.controlplane.client import has_condition, until
from tests.live.controlplane.objects import TIMEOUT, create_namespace
from tests.live.controlplane.sandboxes.conftest import SYSTEM, Object, SandboxCluster

IMAGE = f"registry.example.com/workspace-service@sha256:{'ab' * 32}"


def volume(cluster: SandboxCluster, name: str) -> tuple[Object, Path]:
    """Create a volume that is reserved for its Job, with files in it."""
    claim = {"namespace": NAME, "name": home_emptying.object_name(name)}
    spec: Object = {"accessModes": ["ReadWriteMany"], "capacity": {"storage": "1Gi"}, "storageClassName": ""}
    spec |= {
        "persistentVolumeReclaimPolicy": "Retain",
        "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim"},
    }
    spec["claimRef"] |= claim
    spec["csi"] = {"driver": "efs.csi.aws.com", "volumeHandle": f"{SYSTEM}:/classes/live/{name}"}
    created = cluster.client.create(
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}
    )
    folder = cluster.plane.layout.folder / "file-systems" / SYSTEM / "classes" / "live" / name
    (folder / "current" / "project").mkdir(parents=True)
    for number in range(20):
        (folder / "current" / "project" / f"{number}").write_text("data")
    return created, folder


def test_a_job_empties_a_home_and_completes(cluster: SandboxCluster) -> None:
    create_namespace(cluster.client, NAME)
    created, folder = volume(cluster, "pv-emptied")
    cluster.client.create(home_emptying.volume_claim(created))
    job = cluster.client.create(home_emptying.job(created, IMAGE))
    path = cluster.client.path(job)

    pods = f"/api/v1/namespaces/{NAME}/pods"
    complete = until(lambda: has_condition(cluster.client.get(path), "Complete"), TIMEOUT)
    assert complete, [pod.get("status") for pod in cluster.client.get(pods)["items"]]
    assert [*folder.iterdir()] == []
    # What the service does next: the Job and its pod go, and then the claim, which releases the volume.
    cluster.client.delete(path, propagationPolicy="Background")
    cluster.client.delete(cluster.client.path(home_emptying.volume_claim(created)))
    released = f"/api/v1/persistentvolumes/{created['metadata']['name']}"
    assert until(lambda: cluster.client.get(released)["status"]["phase"] == "Released", TIMEOUT)
