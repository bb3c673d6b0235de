"""Jobs that empty homes run in a control plane: with the real Job controller, and the program on the home's folder."""

from __future__ import annotations

from pathlib import Path

from agentenv.core.service import home_emptying
from agentenv.core.service.home_emptying import NAME
from agentenv.rehearsal.controlplane.client import until
from tests.live.controlplane.sandboxes.conftest import SYSTEM, Ground, Object
from tests.live.controlplane.things import PATIENCE, namespace

IMAGE = f"registry.example.com/workspace-service@sha256:{'ab' * 32}"


def volume(ground: Ground, name: str) -> tuple[Object, Path]:
    """Create a volume that is reserved for its Job, with files in it."""
    claim = {"namespace": NAME, "name": home_emptying.object_name(name)}
    spec: Object = {"accessModes": ["ReadWriteMany"], "capacity": {"storage": "1Gi"}, "storageClassName": ""}
    spec |= {
        "persistentVolumeReclaimPolicy": "Retain",
        "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim"},
    }
    spec["claimRef"] |= claim
    spec["csi"] = {"driver": "efs.csi.aws.com", "volumeHandle": f"{SYSTEM}:/classes/live/{name}"}
    created = ground.client.create(
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}
    )
    folder = ground.plane.layout.folder / "file-systems" / SYSTEM / "classes" / "live" / name
    (folder / "current" / "project").mkdir(parents=True)
    for number in range(20):
        (folder / "current" / "project" / f"{number}").write_text("data")
    return created, folder


def test_a_job_empties_a_home_and_completes(ground: Ground) -> None:
    namespace(ground.client, NAME)
    created, folder = volume(ground, "pv-emptied")
    ground.client.create(home_emptying.volume_claim(created))
    job = ground.client.create(home_emptying.job(created, IMAGE))
    path = ground.client.path(job)

    def complete() -> bool:
        conditions = (ground.client.get(path).get("status") or {}).get("conditions") or ()
        return any(row["type"] == "Complete" and row["status"] == "True" for row in conditions)

    pods = f"/api/v1/namespaces/{NAME}/pods"
    assert until(complete, PATIENCE), [pod.get("status") for pod in ground.client.get(pods)["items"]]
    assert [*folder.iterdir()] == []
    # What the service does next: the Job and its pod go, and then the claim, which releases the volume.
    ground.client.delete(path, propagationPolicy="Background")
    ground.client.delete(ground.client.path(home_emptying.volume_claim(created)))
    released = f"/api/v1/persistentvolumes/{created['metadata']['name']}"
    assert until(lambda: ground.client.get(released)["status"]["phase"] == "Released", PATIENCE)
